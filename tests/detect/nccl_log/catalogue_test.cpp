#include <doctest/doctest.h>

#include <sstream>

#include "describe.hpp"
#include "files.hpp"

/// tests/data/nccl-log/catalogue.txt: a line of each kind in the wording of each version, and what
/// is read in it. UPDATE_GOLDEN=1 writes the answers again.
namespace toporun::tests {
namespace {

const std::string kFile = "nccl-log/catalogue.txt";

struct Row {
    std::string level;  ///< "INFO", "WARN", "bare"
    std::string message;
};

/// The line as a process would print it.
std::string line_of(const Row& row) {
    if (row.level == "bare") return row.message;
    const std::string source = row.level == "WARN" ? "init.cc:904 " : "";
    return "node-a:4711:4750 [3] " + source + "NCCL " + row.level + " " + row.message;
}

std::string answer(const std::string& line) {
    return describe(detect::nccl_log::parse_line(line));
}

/// The file with the answers as they are now; `rows` gets its lines.
std::string read_again(const std::string& text, std::vector<Row>& rows) {
    std::istringstream in(text);
    std::string out, line, level;
    while (std::getline(in, line)) {
        if (line.starts_with("= ")) continue;
        out += line + "\n";
        if (line.starts_with("| ")) {
            rows.push_back({level, line.substr(2)});
            out += "= " + answer(line_of(rows.back())) + "\n";
        } else if (!line.empty() && line[0] != '#') {
            level = line.substr(line.rfind(' ') + 1);
        }
    }
    return out;
}

}  // namespace

TEST_CASE("each kind of line is read in the wording of each version") {
    std::vector<Row> rows;
    const std::string text = read_file(std::filesystem::path(TOPORUN_TEST_DATA) / kFile);
    check_golden(read_again(text, rows), kFile);
    CHECK(rows.size() > 190);
    for (const Row& row : rows) {
        CAPTURE(row.message);
        const std::string expected = answer(line_of(row));
        for (const char* prefix : {"[1,3]<stdout>:", "3: ", "[rank3]:", "[default0]:"})
            CHECK(answer(prefix + line_of(row)) == expected);
        if (row.level == "bare") continue;
        CHECK(answer("[2026-11-30 10:20:30] " + line_of(row)) == expected);
        CHECK(answer(line_of(row) + "\r\n") == expected);
    }
}

}  // namespace toporun::tests
