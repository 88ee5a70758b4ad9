#include "launcher/cli/inputs.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.hpp"
#include "files.hpp"

namespace toporun::launcher {
namespace {

void make_program(const tests::TemporaryDirectory& directory, const std::string& name) {
    std::filesystem::permissions(directory.write(name, ""), std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("the Python of a shell is that of its environments before that of PATH") {
    const tests::TemporaryDirectory directory;
    make_program(directory, "venv/bin/python3");
    make_program(directory, "conda/bin/python");
    make_program(directory, "bin/python3");
    directory.write("broken/bin/python3", "");  // no program
    const std::string at = directory.path().string();
    struct Row {
        std::string name;
        Environment environment;
        std::string python;
    };
    const Row rows[] = {
        {"nothing", {{"PATH", at}}, ""},
        {"PATH", {{"PATH", at + ":" + at + "/bin"}}, at + "/bin/python3"},
        {"conda",
         {{"PATH", at + "/bin"}, {"CONDA_PREFIX", at + "/conda"}},
         at + "/conda/bin/python"},
        {"both",
         {{"CONDA_PREFIX", at + "/conda"}, {"VIRTUAL_ENV", at + "/venv"}},
         at + "/venv/bin/python3"},
        {"an environment that is gone",
         {{"PATH", at + "/bin"}, {"VIRTUAL_ENV", at + "/gone"}},
         at + "/bin/python3"},
        {"no program",
         {{"PATH", at + "/bin"}, {"VIRTUAL_ENV", at + "/broken"}},
         at + "/bin/python3"},
        {"set to nothing", {{"PATH", at + "/bin"}, {"VIRTUAL_ENV", ""}}, at + "/bin/python3"},
        {"relative", {{"PATH", at + "/bin"}, {"VIRTUAL_ENV", "venv"}}, at + "/bin/python3"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(shell_python(row.environment) == row.python);
    }
}

TEST_CASE("a file that is not there comes with the part of its path that is missing") {
    const tests::TemporaryDirectory directory;
    const std::string at = directory.path().string();
    const std::string file = directory.write("here.toml", "").string();
    struct Row {
        std::string path;
        std::string hint;
    };
    const Row rows[] = {
        {at + "/gone.toml", "'gone.toml' is not in '" + at + "'"},
        {at + "/gone/away/x.toml", "'gone' is not in '" + at + "'"},
        {at + "/gone/", "'gone' is not in '" + at + "'"},
        {"/no-such-directory-at-all", "'no-such-directory-at-all' is not in '/'"},
        {"gone.toml", "the name counts from the working directory"},
        {at + "/bad\x1bname", "'bad\\x1bname' is not in '" + at + "'"},
        {file + "/x", ""},  // the system's words say it
        {at, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.path);
        try {
            read_text_file(row.path);
            FAIL("read");
        } catch (const Error& error) {
            CHECK(error.hint() == row.hint);
        }
    }
}

}  // namespace toporun::launcher
