#include "profiles/loader_options.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace toporun;
using profiles::read_loader_options;

TEST_CASE("the compiled table of loader options can be read") {
    const profiles::LoaderOptions known = profiles::builtin_loader_options();
    CHECK(known.options.size() >= 10);
    CHECK(known.frameworks.size() >= 4);
}

TEST_CASE("a table of loader options is read strictly") {
    const std::string option =
        "[[options]]\nname = 'n'\nform = 'option'\nused_by = 'u'\n"
        "source = 's'\n";
    const std::string framework =
        "[[frameworks]]\nname = 'n'\nwords = ['--n']\nnot_programs = ['_x.py']\n"
        "add = '-n {workers}'\ndefault = 1\nsource = 's'\n";
    const auto known = read_loader_options(option + framework, "f");
    REQUIRE(known.options.size() == 1);
    CHECK(known.options[0].form == "option");
    CHECK_FALSE(known.options[0].python);
    REQUIRE(known.frameworks.size() == 1);
    CHECK(known.frameworks[0].default_workers == 1);
    CHECK(known.frameworks[0].not_programs == std::vector<std::string>{"_x.py"});
    const auto changed = [](std::string text, const std::string& from, const std::string& to) {
        return text.replace(text.find(from), from.size(), to);
    };
    for (const std::string& text :
         {changed(option, "'option'", "'switch'"), changed(option, "'s'", "''"), option + "x = 1\n",
          changed(framework, "{workers}", "N"), changed(framework, "['--n']", "[]"),
          changed(framework, "1", "-1"), changed(framework, "default = 1\n", "")}) {
        CAPTURE(text);
        CHECK_THROWS_AS(read_loader_options(text, "f"), Error);
    }
}
