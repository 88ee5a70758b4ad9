#include "launcher/process/held_directory.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "files.hpp"

using namespace toporun;
using namespace toporun::launcher;
using tests::TemporaryDirectory;
namespace fs = std::filesystem;

TEST_CASE("directories that nobody holds any more are removed") {
    const TemporaryDirectory temporary;
    const auto make = [&](const std::string& name) {
        const std::string path = (temporary.path() / name).string();
        fs::create_directory(path);
        return path;
    };
    const std::string own = make("toporun-own000"), other = make("toporun-other0");
    const std::string never_held = make("toporun-fresh0"), foreign = make("elsewhere");
    Descriptor held_own = hold_directory(own), held_other = hold_directory(other);
    Descriptor held_foreign = hold_directory(foreign);
    REQUIRE(held_own);
    REQUIRE(held_other);
    CHECK(std::distance(fs::directory_iterator(other), fs::directory_iterator()) == 1);
    remove_abandoned(own, kPrivateStart);
    for (const std::string& path : {own, other, never_held, foreign}) CHECK(fs::exists(path));
    held_other.reset();
    held_foreign.reset();
    fs::create_directory_symlink(foreign, temporary.path() / "toporun-link00");
    remove_abandoned(own, kPrivateStart);
    CHECK_FALSE(fs::exists(other));
    for (const std::string& path : {own, never_held, foreign}) CHECK(fs::exists(path));
    held_own.reset();
    remove_abandoned(own, kPrivateStart);
    CHECK(fs::exists(own));
}

TEST_CASE("what is not there cannot be held") {
    CHECK_FALSE(hold_directory(""));
    CHECK_FALSE(hold_directory("/no/such/directory"));
    remove_abandoned("/no/such/directory", kPrivateStart);
}
