#include "launcher/process/error_file.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using toporun::launcher::lines_of_error_file;
using Lines = std::vector<std::string>;

TEST_CASE("what torchrun's error handler writes") {
    struct Row {
        const char* name;
        std::string text;
        Lines lines;
    };
    const std::vector<Row> rows = {
        {"a traceback",
         R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack":
            "Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: x\n",
            "timestamp": "1700000000"}}})",
         {"Traceback (most recent call last):", "  File \"t.py\", line 3", "ValueError: x", ""}},
        {"no traceback", R"({"message": {"message": "ValueError: x"}})", {"ValueError: x"}},
        {"a bare text", R"({"message": "Signal 9"})", {"Signal 9"}},
        {"another object", R"({"error": 1})", {}},
        {"texts of another kind", R"({"message": {"message": 5, "extraInfo": [1]}})", {}},
        {"cut", R"({"message": "Sig)", {}},
        {"nothing", "", {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(lines_of_error_file(row.text) == row.lines);
    }
}
