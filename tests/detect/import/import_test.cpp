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

TEST_CASE("the hint names the nearest formats in a line") {
    const std::vector<std::string> formats = detect::capture_formats();
    CHECK(std::count(formats.begin(), formats.end(), "toporun machine (TOML)") == 1);
    const std::string hint = refused("hello\n").hint();
    CHECK(hint.starts_with("formats: nvidia-smi topo -m, ip addr, NCCL log and "));
    CHECK(hint.ends_with(" more, see docs/captures.md"));
    CHECK(hint.size() <= 160);
    CHECK(refused("hca_id and a link\n").hint().starts_with("formats: ibv_devinfo, "));
}

TEST_CASE("adapters without a legend may be those of another text") {
    const std::string table = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nNIC0\tPIX\t X \n";
    const std::string ports = "mlx5_0 port 1 ==> ib0 (Up)\n";
    const auto notes = [](const std::vector<Capture>& captures) {
        std::size_t count = 0;
        for (const std::string& note : import_captures(captures).notes)
            if (note.find("may be the same adapters as mlx5_0") != std::string::npos) ++count;
        return count;
    };
    CHECK(notes({{"a", table}, {"b", ports}}) == 1);
    CHECK(notes({{"a", table + "\n" + ports}}) == 1);
    CHECK(notes({{"a", table + "\nNIC Legend:\n  NIC0: mlx5_0\n"}, {"b", ports}}) == 0);
    CHECK(notes({{"a", table}}) == 0);
}
