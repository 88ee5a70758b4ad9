#include "detect/import/import.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"
#include "detect/machine_toml.hpp"
#include "sample_machines.hpp"

using namespace toporun;
using detect::Capture;
using detect::import_captures;
using detect::Machine;

namespace {

Machine read(const std::string& text) {
    return import_captures(std::vector<Capture>{{"x.txt", text}});
}

/// The error of a text that must not be understood.
Error refused(const std::string& text) {
    try {
        read(text);
    } catch (const Error& error) {
        return error;
    }
    FAIL("understood: " << text);
    return Error("");
}

}  // namespace

TEST_CASE("a text that is not understood names its place and what was expected") {
    struct Row {
        std::string name, text, where, what;
    };
    const std::vector<Row> rows = {
        {"empty", "", "x.txt:1:1", "the file is empty"},
        {"blanks", " \n\t\n", "x.txt:1:1", "the file is empty"},
        {"prose", "$ nvidia-smi\n\n  Hello world\n", "x.txt:3:3", "this line begins 'Hello world'"},
        {"binary",
         std::string("\x7f"
                     "ELF\1\1\1\0\0\0\0",
                     11),
         "x.txt:1:1", "a binary file"},
        {"only a command", "$ nvidia-smi topo -m\n", "x.txt:1:1", "no output"},
        {"escapes in the text", "\x01\x1b[31mred and more text behind it to be a text\n",
         "x.txt:1:1", "'\\x01red and more"},
        {"something like a matrix", "CPU Affinity GPU0\n", "x.txt:1:1",
         "'GPU0' is a part of nvidia-smi topo -m"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Error error = refused(row.text);
        CHECK(error.where() == row.where);
        CHECK(std::string(error.what()).find(row.what) != std::string::npos);
        CHECK(error.hint().find("formats: ") == 0);
    }
}

TEST_CASE("a machine that toporun saved is a capture as well") {
    for (const auto& [name, machine] : tests::sample_machines()) {
        CAPTURE(name);
        CHECK(read(detect::machine_to_toml(machine)) == machine);
    }
    CHECK(read("[[gpus]]\nindex = 0\n").gpus.size() == 1);
    CHECK(std::string(refused("[[gpus]]\nindexx = 0\n").where()).find("x.txt:2:") == 0);
}

TEST_CASE("the list of formats is what messages speak of") {
    const std::vector<std::string> formats = detect::capture_formats();
    CHECK(std::count(formats.begin(), formats.end(), "toporun machine (TOML)") == 1);
    CHECK(refused("hello\n").hint().find(formats.front()) != std::string::npos);
}
