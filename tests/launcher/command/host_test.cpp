#include "launcher/command/host.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "files.hpp"

using namespace toporun;
using launcher::SystemHost;
using tests::TemporaryDirectory;

namespace {

const std::map<std::string, std::string> kEmpty;

std::string make_program(const TemporaryDirectory& directory, const std::string& name,
                         const std::string& text) {
    const std::filesystem::path path = directory.write(name, text);
    ::chmod(path.c_str(), 0755);
    return path.string();
}

}  // namespace

TEST_CASE("programs are found as execvp finds them") {
    const TemporaryDirectory directory;
    const std::string program = make_program(directory, "second/tool", "#!/bin/sh\n");
    directory.write("first/tool", "not executable");
    std::filesystem::create_directories(directory.path() / "second/folder");
    const std::string first = (directory.path() / "first").string();
    const std::string second = (directory.path() / "second").string();
    const SystemHost host(std::map<std::string, std::string>{{"PATH", first + ":" + second}});
    CHECK(host.find_executable("tool") == program);
    CHECK(host.find_executable(program) == program);
    CHECK(host.find_executable(first + "/tool").empty());
    CHECK(host.find_executable("folder").empty());
    CHECK(host.find_executable("").empty());
    CHECK(host.find_executable("no-such-tool").empty());
    CHECK(SystemHost(std::map<std::string, std::string>{{"PATH", ""}})
              .find_executable("no-such-tool")
              .empty());
}

TEST_CASE("files are read up to the limit and nothing but files") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("f", "0123456789").string();
    const SystemHost host(kEmpty);
    CHECK(host.read_file(file, 4) == "0123");
    CHECK(host.read_file(file, 100) == "0123456789");
    CHECK_FALSE(host.read_file(directory.path().string(), 4).has_value());
    CHECK_FALSE(host.read_file("/dev/zero", 4).has_value());
    const std::string fifo = (directory.path() / "fifo").string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_FALSE(host.read_file(fifo, 4).has_value());
}

TEST_CASE("names of this host hold localhost and its addresses") {
    const std::vector<std::string> names = SystemHost(kEmpty).names();
    CHECK(std::find(names.begin(), names.end(), "localhost") != names.end());
    CHECK(std::find(names.begin(), names.end(), "127.0.0.1") != names.end());
}

TEST_CASE("the version text is what the program prints") {
    const TemporaryDirectory directory;
    const SystemHost host(kEmpty);
    const std::string program = make_program(
        directory, "mpirun", "#!/bin/sh\necho \"mpirun (Open MPI) 4.1.4 $1\"\nexit 3\n");
    CHECK(host.version_text(program) == "mpirun (Open MPI) 4.1.4 --version\n");
    CHECK(host.version_text("/no/such/program").empty());
}

TEST_CASE("a version text that never ends is cut") {
    const TemporaryDirectory directory;
    const SystemHost host(kEmpty);
    const std::string endless =
        make_program(directory, "endless", "#!/bin/sh\nwhile :; do echo line; done\n");
    const auto start = std::chrono::steady_clock::now();
    CHECK(host.version_text(endless).size() == 4096);
    const std::string silent = make_program(directory, "silent", "#!/bin/sh\nexec sleep 60\n");
    CHECK(host.version_text(silent).empty());
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("the version program sees no descriptor but its three") {
    const TemporaryDirectory directory;
    const SystemHost host(kEmpty);
    const int kept = ::dup(STDERR_FILENO);
    const std::string program = make_program(directory, "list",
                                             "#!/bin/sh\nfor f in /proc/self/fd/*; do\n"
                                             "case $f in */[3-9]) readlink $f;; esac\ndone\n"
                                             "read x && echo stdin\n");
    const std::string text = host.version_text(program);
    ::close(kept);
    CHECK(text.find("stdin") == std::string::npos);
    CHECK(text.find("/dev/pts") == std::string::npos);
    CHECK(text.find("pipe") == std::string::npos);
}
