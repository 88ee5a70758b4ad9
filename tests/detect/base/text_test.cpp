#include "base/text.hpp"

#include <doctest/doctest.h>

namespace toporun {
namespace {

TEST_CASE("the closest word is at most a third of the length away") {
    const std::vector<std::string> options = {"--profile", "--dry-run", "--report-wait"};
    struct Row {
        std::string word;
        std::string expected;  ///< "" = none
    };
    const std::vector<Row> rows = {{"--profil", "--profile"},
                                   {"--dryrun", "--dry-run"},
                                   {"--drY-run", "--dry-run"},
                                   {"--zzz", ""},
                                   {"", ""},
                                   {"--reprot-wait", "--report-wait"}};
    for (const Row& row : rows) {
        CAPTURE(row.word);
        CHECK(closest_word(row.word, options).value_or("") == row.expected);
    }
    CHECK_FALSE(closest_word("word", {}));
}

TEST_CASE("printable text holds nothing a terminal could act on") {
    struct Row {
        std::string name;
        std::string text;
        std::string expected;
    };
    const std::vector<Row> rows = {
        {"plain", "GPU 0: 80 GB", "GPU 0: 80 GB"},
        {"escape", "\033[2Jx", "\\x1b[2Jx"},
        {"newline and tab", "a\nb\tc", "a\\x0ab\\x09c"},
        {"delete", "\x7f", "\\x7f"},
        {"utf-8", "Müller \xe2\x82\xac \xf0\x9f\x98\x80", "Müller \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"c1 control", "\xc2\x9b", "\\xc2\\x9b"},
        {"lone continuation", "\x80", "\\x80"},
        {"cut sequence", "\xe2\x82", "\\xe2\\x82"},
        {"overlong", "\xc0\xaf", "\\xc0\\xaf"},
        {"surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"beyond Unicode", "\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
        {"right-to-left override", "\xe2\x80\xae", "\\xe2\\x80\\xae"},
        {"nul", std::string("a\0b", 3), "a\\x00b"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(printable(row.text) == row.expected);
    }
}

TEST_CASE("shell lines can be pasted") {
    CHECK(shell_word("a-b_c=1,2:/x.y@z%+") == "a-b_c=1,2:/x.y@z%+");
    CHECK(shell_word("") == "''");
    CHECK(shell_word("a b") == "'a b'");
    CHECK(shell_word("it's") == "'it'\\''s'");
    CHECK(shell_word("$HOME") == "'$HOME'");
    CHECK(shell_word("~") == "'~'");
    CHECK(shell_word("-a\x1b%'\\!b") == R"x("$(printf '\055a\033%%\047\\\041b')")x");
    CHECK(shell_word("\xc3\xa4\xc2\x9b\xe2\x80\xae\xff") ==
          "\"$(printf '\xc3\xa4\\302\\233\\342\\200\\256\\377')\"");
    CHECK(shell_word("a\nb\n") == "\"$(printf 'a\\012b')\"'\n'");
    CHECK(shell_word("\n") == "'\n'");
    CHECK(shell_line(std::vector<std::string>{"echo", "a b", "{rank}"}) == "echo 'a b' '{rank}'");
    CHECK(shell_line({}).empty());
}

TEST_CASE("split, join and trim keep what stands between") {
    CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
    CHECK(split("", ',') == std::vector<std::string>{""});
    CHECK(join(split("a,,b", ','), ",") == "a,,b");
    CHECK(trim(" \t a b\r\n") == "a b");
    CHECK(trim(" \n").empty());
}

TEST_CASE("names are ordered by the number at their end") {
    const std::vector<std::string> ordered = {"",
                                              "bnxt_re0",
                                              "mlx5_0",
                                              "mlx5_1",
                                              "mlx5_2",
                                              "mlx5_10",
                                              "mlx5_10_0",
                                              "mlx5_bond_0",
                                              "mlx5_x9",
                                              "rdmap1",
                                              "rdmap99999999999999999999"};
    for (std::size_t i = 0; i < ordered.size(); ++i)
        for (std::size_t j = 0; j < ordered.size(); ++j) {
            CAPTURE(ordered[i]);
            CAPTURE(ordered[j]);
            CHECK((compare_by_number(ordered[i], ordered[j]) < 0) == (i < j));
            CHECK((compare_by_number(ordered[i], ordered[j]) == 0) == (i == j));
        }
    CHECK(compare_by_number("mlx5_01", "mlx5_1") == 0);
}

TEST_CASE("an integer is the whole text") {
    CHECK(to_integer("42") == 42);
    CHECK(to_integer("-7") == -7);
    for (const char* text : {"", " 1", "1 ", "+1", "0x10", "1.0", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(to_integer(text));
    }
}

TEST_CASE("bytes are shown in binary units") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(1023) == "1023 B");
    CHECK(format_bytes(64ull << 20) == "64 MiB");
    CHECK(format_bytes(3ull << 29) == "1.5 GiB");
    CHECK(format_bytes(~0ull) == "16384 PiB");
}

}  // namespace
}  // namespace toporun
