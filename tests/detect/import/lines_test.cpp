#include "detect/import/lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/text.hpp"

using toporun::detect::Lines;
using toporun::detect::read_lines;

namespace {

std::vector<std::string> texts(const Lines& lines) {
    std::vector<std::string> out;
    for (const auto& line : lines.lines) out.push_back(line.text);
    return out;
}

std::string utf16(std::string_view ascii, bool little, bool mark) {
    std::string out;
    if (mark) out += little ? "\xff\xfe" : "\xfe\xff";
    for (const char c : ascii) {
        if (!little) out += '\0';
        out += c;
        if (little) out += '\0';
    }
    return out;
}

}  // namespace

TEST_CASE("pasted text becomes plain lines") {
    struct Row {
        std::string name;
        std::string text;
        std::vector<std::string> lines;
    };
    const std::vector<Row> rows = {
        {"plain", "a\nb\n", {"a", "b"}},
        {"no line end at the end", "a\nb", {"a", "b"}},
        {"windows line ends", "a\r\nb\r\n", {"a", "b"}},
        {"old line ends", "a\rb\r", {"a", "b"}},
        {"byte order mark",
         "\xef\xbb\xbf"
         "a\n",
         {"a"}},
        {"underlined header", "\t\x1b[4mGPU0\tGPU1\x1b[0m\n", {"\tGPU0\tGPU1"}},
        {"256 colours and title", "\x1b[38;5;12ma\x1b]0;title\a b\x1b(B\n", {"a b"}},
        {"title without end", "a\x1b]0;title\n", {"a0;title"}},
        {"escape cut at the end", "a\x1b", {"a"}},
        {"escapes of cat -v", "^[[1mGPU0^[[0m X\n", {"GPU0 X"}},
        {"escapes that lost their ESC", "[4mGPU0[0m[32;1mX[m\n", {"GPU0X[m"}},
        {"brackets stay", "eth0 [2] a[b]m [x]\n", {"eth0 [2] a[b]m [x]"}},
        {"blanks of web pages", "GPU0\u00a0\u00a0X\u200b\n", {"GPU0  X"}},
        {"several blank lines", "a\n\n \t\n\nb\n", {"a", "", "b"}},
        {"quoted mail", "> a\n>\n> b\n", {"a", "", "b"}},
        {"quoted twice", "> > a\n>> b\n", {"a", "b"}},
        {"an answer above and a name below",
         "Hi,\n> a\n>\n> b\n\nBob\n",
         {"Hi,", "a", "", "b", "", "Bob"}},
        {"quoted and indented", "see:\n  > a\n  >   b\n", {"see:", "a", "  b"}},
        {"quoted with bars", "see:\n| a\n|   b\n", {"see:", "a", "  b"}},
        {"a box", "+--+\n| a  |\n| b  |\n", {"+--+", "| a  |", "| b  |"}},
        {"a box with a rule", "| a |\n|---+\n| b |\n", {"| a |", "|---+", "| b |"}},
        {"a table in Markdown",
         "here\n|      | GPU0 | GPU1 |\n|------|:----:|------|\n| GPU0 | X | NV4 |\n",
         {"here", "      \t GPU0 \t GPU1 ", "", " GPU0 \t X \t NV4 "}},
        {"cat -n", "     1\ta\n     2\t\n     3\tb\n", {"a", "", "b"}},
        {"cat -n of a terminal", "$ cat -n x\n     9  a\n    10  b\n", {"$ cat -n x", "a", "b"}},
        {"right-aligned numbers that do not count",
         "     1  a\n     7  b\n",
         {"     1  a", "     7  b"}},
        {"one line with a mark is no quotation", "> a\nb\n", {"> a", "b"}},
        {"mpirun", "[1,0]<stdout>:\tGPU0\n[1,0]<stderr>:GPU0\tX\n", {"\tGPU0", "GPU0\tX"}},
        {"mpirun between other lines", "started\n[1,0]<stdout>: a\n", {"started", "a"}},
        {"torchrun", "[default0]:a\n[rank12]: b\n[ranks]: c\n", {"a", "b", "[ranks]: c"}},
        {"srun -l", "0: a\n0:\n0:   b\n", {"a", "", "  b"}},
        {"srun -l right-aligned", " 0: a\n 0: b\n10: c\n10: d\n", {"a", "b", "c", "d"}},
        {"a single numbered line", "0: a\n\n", {"0: a", ""}},
        {"numbers that count", "0: a\n1: b\n2: c\n", {"0: a", "1: b", "2: c"}},
        {"ip -o addr",
         "2: eth0    inet 10.0.0.1/24 scope global eth0\n2: eth0    inet6 fe80::1/64 scope link\n",
         {"2: eth0    inet 10.0.0.1/24 scope global eth0",
          "2: eth0    inet6 fe80::1/64 scope link"}},
        {"srun -l of ip",
         "0: 1: lo: <LOOPBACK,UP> mtu 65536\n0:     inet 127.0.0.1/8\n",
         {"1: lo: <LOOPBACK,UP> mtu 65536", "    inet 127.0.0.1/8"}},
        {"pdsh", "node-a: x\nnode-a: y\nnode-b: z\nnode-b: w\n", {"x", "y", "z", "w"}},
        {"names that differ on every line",
         "NIC0: mlx5_0\nNIC1: mlx5_1\n",
         {"NIC0: mlx5_0", "NIC1: mlx5_1"}},
        {"docker compose", "worker-1  | a\nworker-1  | b\n", {"a", "b"}},
        {"time stamps", "2026-11-30T10:00:00.123Z a\n2026-11-30T10:00:00.124Z b\n", {"a", "b"}},
        {"time stamps in brackets", "[10:00:00] a\n[10:00:01] b\n", {"a", "b"}},
        {"time stamp, then task",
         "2026-11-30 10:00:00,1 0: a\n2026-11-30 10:00:00,2 0: b\n",
         {"a", "b"}},
        {"one line without time stamp", "10:00:00 a\nb\n", {"10:00:00 a", "b"}},
        {"UTF-16 with mark", utf16("a\r\nb\r\n", true, true), {"a", "b"}},
        {"UTF-16 big endian", utf16("a\nb\n", false, true), {"a", "b"}},
        {"UTF-16 without mark", utf16("GPU0\tX\n", true, false), {"GPU0\tX"}},
        {"empty", "", {}},
        {"binary", std::string("\0\1\2\3\4\5abc\n", 10), {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const std::vector<std::string> lines = texts(read_lines(row.text, "f"));
        const std::string shown = toporun::join(lines, "|");
        CAPTURE(shown);
        CHECK(lines == row.lines);
    }
}

TEST_CASE("lines know their place and who printed them") {
    const Lines lines = read_lines("\n\n1: a\n1: b\n0: c\n0: d\n\nend\n", "x.txt");
    REQUIRE(lines.lines.size() == 7);
    CHECK(lines.lines[1].number == 3);
    CHECK(lines.lines[1].offset == 3);
    CHECK(lines.sources == std::vector<std::string>{"", "1", "0"});
    CHECK(lines.lines[1].source == 1);
    CHECK(lines.lines[3].source == 2);
    CHECK(lines.lines[6].source == 0);
    CHECK(lines.error(lines.lines[1], 0, "w").where() == "x.txt:3:4");
    CHECK(lines.place(0) == "x.txt:1:1");
    CHECK(lines.place(3) == "x.txt:3:2");
}

TEST_CASE("words and cells") {
    using Parts = std::vector<std::string_view>;
    CHECK(toporun::detect::words("  a\t b  c ") == Parts{"a", "b", "c"});
    CHECK(toporun::detect::words(" \t") == Parts{});
    CHECK(toporun::detect::cells("GPU0\t X \t\tN/A") == Parts{"GPU0", "X", "", "N/A"});
    CHECK(toporun::detect::cells("  CPU Affinity    NUMA Affinity   x y ") ==
          Parts{"CPU Affinity", "NUMA Affinity", "x y"});
    CHECK(toporun::detect::cells("") == Parts{});
}

TEST_CASE("long lines of one kind of character take no more than linear time") {
    for (const std::string unit : {"\x1b",  "\x1b[",      "\x1b]",       "^[[", "[",
                                   "[1",    "0",          "> ",          ">\n", "| a\n",
                                   "|-|\n", "     1\t\n", "[1,",         "a: ", "\n",
                                   "\r",    "0: \n",      "10:00:00 \n", " ",   "\xe2"}) {
        std::string text;
        while (text.size() < 2'000'000) text += unit;
        CAPTURE(unit);
        CHECK(read_lines(text, "f").lines.size() <= 2'000'000);
    }
}
