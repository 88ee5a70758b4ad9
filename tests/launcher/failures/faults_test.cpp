#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "read.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace fs = std::filesystem;

/// Hand-written logs after the structure of real ones and their right answers, a row each: file (or
/// several, with commas), class or "-", rank, ranks (with commas), "all" or "-", confidence or "-",
/// a part of what is said or of the evidence.
TEST_CASE("hand-written logs: the first cause, or none") {
    const fs::path root = fs::path(TOPORUN_TEST_DATA) / "failures";
    std::ifstream answers(root / "answers.tsv");
    REQUIRE(answers);
    int asked = 0;
    for (std::string line; std::getline(answers, line);) {
        if (line.empty() || line.starts_with('#')) continue;
        const std::vector<std::string> row = split(line, '\t');
        CAPTURE(line);
        REQUIRE(row.size() == 5);
        std::vector<std::string> files;
        for (const std::string& name : split(row[0], ',')) {
            files.push_back(root / name);
            REQUIRE(fs::exists(files.back()));
        }
        ++asked;
        const auto verdict = read_failures(files).verdict();
        if (row[1] == "-") {
            if (verdict) FAIL_CHECK("said: ", verdict->cause, ": ", verdict->what);
            continue;
        }
        if (!verdict) {
            FAIL_CHECK("said nothing");
            continue;
        }
        CHECK(verdict->cause == row[1]);
        std::vector<std::string> suspects;
        for (const int rank : verdict->suspects) suspects.push_back(std::to_string(rank));
        const std::string who = suspects.empty() ? "-" : join(suspects, ",");
        CHECK((verdict->all_ranks ? "all" : who) == row[2]);
        if (row[3] != "-") CHECK(confidence_text(verdict->confidence) == row[3]);
        const std::string told = verdict->what + "\n" + verdict->node + "\n" + verdict->frame +
                                 "\n" + verdict->evidence + "\n" + join(verdict->advice, "\n") +
                                 "\n" + join(verdict->remarks, "\n");
        CAPTURE(told);
        CHECK(told.find(row[4]) != std::string::npos);
    }
    CHECK(asked > 20);
}
