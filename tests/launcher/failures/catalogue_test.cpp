#include "launcher/failures/catalogue.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace toporun;
using namespace toporun::launcher::failures;

TEST_CASE("the built-in catalogue is whole") {
    const Catalogue& catalogue = Catalogue::builtin();
    CHECK(catalogue.lines().size() > 200);
    for (const Class& of : catalogue.classes()) {
        CAPTURE(of.id);
        CHECK_FALSE(of.title.empty());
        CHECK_FALSE(of.advice.empty());
        CHECK(of.advice.size() <= 3);
        for (const std::string& step : of.advice)
            for (const char* never :
                 {"NCCL_P2P_DISABLE=1", "NCCL_IB_DISABLE=1", "NCCL_SHM_DISABLE=1"})
                CHECK(step.find(never) == step.npos);
    }
    for (const KnownLine& line : catalogue.lines()) {
        CAPTURE(line.source);
        CHECK_FALSE(line.source.empty());
        // What names a cause has a class, or the exit status that the line holds.
        const bool judged = line.of != nullptr || line.role == Role::hint;
        CHECK((judged || line.role >= Role::teardown));
    }
}

TEST_CASE("a quoted consequence is stronger than the words around it") {
    const Catalogue& catalogue = Catalogue::builtin();
    std::vector<std::uint16_t> candidates;
    const auto role_of = [&](std::string_view text) {
        catalogue.filter().find(text, candidates);
        const auto match = catalogue.match(text, candidates);
        return match ? match->line->role : Role::noise;
    };
    CHECK(role_of("RuntimeError: [x/pair.cc:598] Connection closed by peer [127.0.0.1]:1") ==
          Role::consequence);
    CHECK(role_of("Process group watchdog thread terminated with exception: CUDA error: an illegal "
                  "memory access was encountered") == Role::cause);
    CHECK(role_of("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB") == Role::cause);
    CHECK(role_of("a line that nobody knows") == Role::noise);
}

TEST_CASE("faults of a file are told with their place") {
    const auto read = [](std::string_view text) { const Catalogue catalogue({{"x.toml", text}}); };
    CHECK_THROWS_WITH_AS(
        read("[[groups]]\nsource = \"s\"\nlines = [{ text = \"abc\", role = \"cause\" }]\n"),
        doctest::Contains("four literal bytes"), Error);
    CHECK_THROWS_WITH_AS(
        read("[[groups]]\nsource = \"s\"\nlines = [{ text = \"abcdef\", role = \"reason\" }]\n"),
        doctest::Contains("no role"), Error);
    CHECK_THROWS_WITH_AS(read("[[groups]]\nsource = \"s\"\nlines = [{ text = \"abcdef\", role = "
                              "\"cause\", class = \"x\" }]\n"),
                         doctest::Contains("no such class"), Error);
}
