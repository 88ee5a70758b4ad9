#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "detect/nccl_log/line.hpp"
#include "files.hpp"

using namespace toporun::detect::nccl_log;

namespace {

struct Counts {
    int via = 0;
    int versions = 0;
    int networks = 0;
    int inits = 0;
    int warnings = 0;
};

int occurrences(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
}

Counts counted_by_substring(const std::string& text) {
    return {occurrences(text, "] via "), occurrences(text, "NCCL version 2."),
            occurrences(text, "NCCL INFO Using network "),
            occurrences(text, "- Init START") + occurrences(text, "- Init COMPLETE"),
            occurrences(text, " NCCL WARN ")};
}

void count_line(const Line& line, Counts& counts) {
    counts.via += std::holds_alternative<Connection>(line.event);
    counts.versions += std::holds_alternative<Version>(line.event);
    counts.networks += std::holds_alternative<UsingNetwork>(line.event);
    counts.inits += std::holds_alternative<Init>(line.event);
    counts.warnings += std::holds_alternative<Warning>(line.event);
}

Counts counted_by_reader(const std::filesystem::path& file) {
    Counts counts;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) count_line(parse_line(line), counts);
    return counts;
}

}  // namespace

TEST_CASE("real logs are read line for line as a plain count of words says") {
    const std::filesystem::path logs = std::filesystem::path(TOPORUN_SHARED) / "logs/rig";
    if (!std::filesystem::is_directory(logs)) {
        MESSAGE("skipped: no captured logs at " << logs.string());
        return;
    }
    int files = 0;
    int via = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(logs)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("rank-") || entry.path().extension() != ".log") continue;
        CAPTURE(entry.path().string());
        const Counts expected = counted_by_substring(toporun::tests::read_file(entry.path()));
        const Counts counts = counted_by_reader(entry.path());
        CHECK(counts.via == expected.via);
        CHECK(counts.versions == expected.versions);
        CHECK(counts.networks == expected.networks);
        CHECK(counts.inits == expected.inits);
        CHECK(counts.warnings == expected.warnings);
        ++files;
        via += counts.via;
    }
    CHECK(files > 100);
    CHECK(via > 10000);
}
