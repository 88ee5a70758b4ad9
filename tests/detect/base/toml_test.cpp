#include "base/toml.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.hpp"

namespace toporun {
namespace {

using std::string;

TEST_CASE("values of the wanted type are read") {
    TomlTable table = TomlTable::parse(
        "text = \"a\"\ncount = 3\nshare = 0.5\nwhole = 2\nflag = true\nwords = [\"x\", \"y\"]\n"
        "numbers = [1, 2]\npaths = [[\"LOC\", \"NVL\"], [\"NVL\", \"LOC\"]]\nlinks = [[0, 18]]\n"
        "[inner]\nname = \"n\"\n[[rows]]\nid = 1\n[[rows]]\nid = 2\n",
        "t.toml");
    CHECK(table.string("text") == "a");
    CHECK(table.integer("count") == 3);
    CHECK(table.number("share") == 0.5);
    CHECK(table.number("whole") == 2.0);
    CHECK(table.boolean("flag") == true);
    CHECK(table.strings("words") == std::vector<string>{"x", "y"});
    CHECK(table.integers("numbers") == std::vector<std::int64_t>{1, 2});
    CHECK(table.string_matrix("paths")->at(0).at(1) == "NVL");
    CHECK(table.integer_matrix("links")->at(0).at(1) == 18);
    CHECK(table.table("inner")->required_string("name") == "n");
    std::vector<TomlTable> rows = table.tables("rows");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].integer("id") == 1);
    CHECK(rows[1].integer("id") == 2);
    CHECK_FALSE(table.string("absent"));
    CHECK_FALSE(table.table("absent"));
    CHECK(table.tables("absent").empty());
    CHECK_NOTHROW(table.finish());
}

TEST_CASE("scalars can be read as text and keys come in the file's order") {
    TomlTable table = TomlTable::parse("z = \"NVL\"\na = 4\nm = true\n", "t.toml");
    CHECK(table.keys() == std::vector<string>{"z", "a", "m"});
    CHECK(table.scalar_text("z") == "NVL");
    CHECK(table.scalar_text("a") == "4");
    CHECK(table.scalar_text("m") == "true");
}

string dotted(int parts) {
    string text;
    for (int i = 0; i < parts; ++i) text += ".a";
    return text;
}

TEST_CASE("faults name the place and the key") {
    struct Row {
        string name;
        string text;
        std::function<void(TomlTable&)> read;
        string what;
        string where;
        string hint;
    };
    const auto finish = [](TomlTable& t) { t.string("known"), t.finish(); };
    const std::vector<Row> rows = {
        {"syntax", "a = \n", [](TomlTable&) {}, "", "t.toml:1:5", ""},
        {"given twice", "a = 1\na = 2\n", [](TomlTable&) {}, "'a'", "t.toml:2:", ""},
        {"wrong type", "\na = 4\n", [](TomlTable& t) { t.string("a"); },
         "'a' must be a string, found an integer", "t.toml:2:5", ""},
        {"float for integer", "a = 1.0", [](TomlTable& t) { t.integer("a"); }, "found a float",
         "t.toml:1:5", ""},
        {"wrong element", "a = [1, \"x\"]", [](TomlTable& t) { t.integers("a"); },
         "an array of integers", "t.toml:1:9", ""},
        {"no array", "a = 1", [](TomlTable& t) { t.strings("a"); }, "an array of strings",
         "t.toml:1:5", ""},
        {"row is no array", "a = [1]", [](TomlTable& t) { t.integer_matrix("a"); },
         "an array of arrays", "t.toml:1:6", ""},
        {"no table", "a = 1", [](TomlTable& t) { t.table("a"); }, "a table", "t.toml:1:5", ""},
        {"tables of numbers", "a = [1]", [](TomlTable& t) { t.tables("a"); }, "array of tables",
         "t.toml:1:6", ""},
        {"missing", "b = 1\n", [](TomlTable& t) { t.required_string("a"); }, "'a' is missing",
         "t.toml:1:1", ""},
        {"unknown key near a known one", "knwn = 1\n", finish, "unknown key 'knwn'", "t.toml:1:1",
         "did you mean 'known'?"},
        {"unknown key", "\nzzz = 1\n", finish, "unknown key 'zzz'", "t.toml:2:1",
         "known keys: known"},
        {"unknown key in a table below", "[inner]\nzzz = 1\n",
         [](TomlTable& t) { t.table("inner")->string("name"), t.finish(); }, "unknown key 'zzz'",
         "t.toml:2:1", "name"},
        {"a key of very many parts", "\na" + dotted(100'000) + " = 1\n", [](TomlTable&) {},
         "more than 256 parts", "t.toml:2:1", ""},
        {"a header of very many parts", "[a" + dotted(100'000) + "]\n", [](TomlTable&) {},
         "more than 256 parts", "t.toml:1:1", ""},
        {"escape sequence in a key", "\"\\u001b[31m\" = 1\n", finish, "\\x1b[31m", "t.toml:1:", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            try {
                TomlTable table = TomlTable::parse(row.text, "t.toml");
                row.read(table);
                FAIL("accepted");
            } catch (const Error& fault) {
                CAPTURE(fault.what());
                CHECK(string(fault.what()).find(row.what) != string::npos);
                CHECK(fault.where().find(row.where) == 0);
                CHECK(fault.hint().find(row.hint) != string::npos);
            }
        }
    }
}

TEST_CASE("characters that are not ASCII stand in strings and comments only") {
    // U+FEFB, an Arabic ligature, is one that the parser itself cannot judge.
    struct Row {
        std::string text;
        const char* where;  ///< nullptr: read
    };
    const std::vector<Row> rows = {
        {"a = 1 # \ufefb ⚠️\n", nullptr},
        {"a = \"\ufefb\" # x\n", nullptr},
        {"a = '\ufefb'\n", nullptr},
        {"a = \"\"\"\ufefb \"\" x\n\ufefb\"\"\"\n", nullptr},
        {"a = '''\n\ufefb'''\n", nullptr},
        {"a = \"\\\\\ufefb\"\n", nullptr},
        {"a = \"\"\"x \\\n  ü\"\"\"\n", nullptr},
        {"a = \"\"\"x \\\n  \"\"\"\n", nullptr},
        {"\ufeffa = 1\n", nullptr},
        {"\ufefb\n", "t:1:1"},
        {"a = 1\nb = 2 \ufefb\n", "t:2:7"},
        {"\"a\"\ufefb = 1\n", "t:1:4"},
        {"a = [\ufefb]\n", "t:1:6"},
        {"a = \"\"\"x\\\n \ufefb\"\"\"\n", "t:2:2"},
        {"a = \"x\\\ufefb\"\n", "t:1:8"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        try {
            TomlTable::parse(row.text, "t");
            CHECK(row.where == nullptr);
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.where() == (row.where == nullptr ? "read" : row.where));
        }
    }
}

}  // namespace
}  // namespace toporun
