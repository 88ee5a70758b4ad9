#include "launcher/report/write_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include <filesystem>

#include "base/error.hpp"
#include "files.hpp"

namespace fs = std::filesystem;
using toporun::Error;
using toporun::launcher::write_file;
using toporun::tests::read_file;
using toporun::tests::TemporaryDirectory;

namespace {

std::size_t entries(const fs::path& directory) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file is written whole and replaced whole") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "report.txt";
    write_file(path, "one\n");
    CHECK(read_file(path) == "one\n");
    write_file(path, std::string(300000, 'x'));
    CHECK(read_file(path).size() == 300000);
    CHECK(entries(directory.path()) == 1);
    CHECK((fs::status(path).permissions() & fs::perms::owner_exec) == fs::perms::none);
    CHECK((fs::status(path).permissions() & fs::perms::others_write) == fs::perms::none);
}

TEST_CASE("a link in the place of the file is replaced and its target stays") {
    const TemporaryDirectory directory;
    const fs::path target = directory.write("target", "precious");
    fs::create_symlink(target, directory.path() / "report.txt");
    write_file(directory.path() / "report.txt", "new");
    CHECK(read_file(target) == "precious");
    CHECK_FALSE(fs::is_symlink(directory.path() / "report.txt"));
}

TEST_CASE("a failure names the file and the reason and leaves nothing") {
    const TemporaryDirectory directory;
    fs::create_directory(directory.path() / "taken");
    for (const fs::path& path :
         {directory.path() / "absent/report.txt", directory.path() / "taken"}) {
        CAPTURE(path.string());
        try {
            write_file(path, "text");
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find("cannot write " + path.string()) == 0);
        }
    }
    CHECK(entries(directory.path()) == 1);
    CHECK(entries(directory.path() / "taken") == 0);
}

TEST_CASE("a directory that may not be written to gives a next step") {
    const TemporaryDirectory directory;
    if (geteuid() == 0) {
        MESSAGE("skipped: root may write anywhere");
        return;
    }
    fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
    try {
        write_file(directory.path() / "report.txt", "x");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("Permission denied") != std::string::npos);
        CHECK(error.hint().find("--run-dir") != std::string::npos);
    }
    fs::permissions(directory.path(), fs::perms::owner_all);
}

TEST_CASE("a file that cannot be written to its end leaves the old one and no rest") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("report.txt", "old");
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, before.rlim_max};  // stands in for a full disk: write() fails half-way
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string what;
    try {
        write_file(path, std::string(100000, 'x'));
    } catch (const Error& error) {
        what = error.what();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(what.find("File too large") != std::string::npos);
    CHECK(read_file(path) == "old");
    CHECK(entries(directory.path()) == 1);
}
