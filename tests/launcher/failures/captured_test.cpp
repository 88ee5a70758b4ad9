#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "read.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace fs = std::filesystem;

namespace {

/// Captures in which no line tells what is asked: a rank that nobody names, an output that merely
/// stops.
bool cannot_be_told(const std::string& name, bool rank) {
    return name == (rank ? "hydra-sigkill" : "hydra-exit-code") ||
           (!rank && name == "mpirun-sigterm");
}

}  // namespace

TEST_CASE("captured failures of launchers: the first cause and its rank") {
    const fs::path root = fs::path(TOPORUN_SHARED) / "logs" / "failures";
    std::ifstream answers(root / "answers.tsv");
    if (!answers) {
        MESSAGE("skipped: no captured failures in " << root);
        return;
    }
    int asked = 0;
    for (std::string line; std::getline(answers, line);) {
        if (line.starts_with('#')) continue;
        const std::vector<std::string> row = split(line, '\t');
        REQUIRE(row.size() == 3);
        std::vector<std::string> files;
        for (const auto& entry : fs::directory_iterator(root / row[0]))
            if (entry.path().filename() != "README") files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        const auto verdict = read_failures(files).verdict();
        CAPTURE(row[0]);
        if (!cannot_be_told(row[0], false)) {
            REQUIRE(verdict);
            const std::vector<std::string> causes = split(row[2], '|');
            CAPTURE(verdict->cause);
            CHECK(std::find(causes.begin(), causes.end(), verdict->cause) != causes.end());
            ++asked;
        }
        if (row[1] == "-" || cannot_be_told(row[0], true)) continue;
        if (row[1] == "all")
            CHECK_FALSE(verdict->rank);
        else
            CHECK(verdict->rank == static_cast<int>(to_integer(row[1]).value_or(-1)));
        ++asked;
    }
    CHECK(asked == 92);
}
