#include "launcher/log/reader.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include "files.hpp"

using namespace toporun::launcher;
using toporun::tests::TemporaryDirectory;

TEST_CASE("only the log files of a directory are read") {
    const TemporaryDirectory directory;
    directory.write("nccl.0.0.a.1.log", "a:1:1 [0] NCCL INFO Using network IB\n");
    directory.write("nccl.1.0.a.2.log", "a:2:2 [1] NCCL INFO Using network IB\n");
    directory.write("nccl.2.0.a.3.log", "");
    directory.write("other.log", "a:3:3 [1] NCCL INFO Using network Socket\n");
    directory.write("nccl.3.txt", "a:3:3 [1] NCCL INFO Using network Socket\n");
    const LogSummary summary = read_log_directory(directory.path()).summary();
    CHECK(summary.lines == 2);
    CHECK(summary.networks == std::vector<std::string>{"IB"});
    CHECK(summary.notes.empty());
}

TEST_CASE("a last line without line end is read and a long one is cut") {
    const TemporaryDirectory directory;
    const std::string record = "a:1:1 [0] NCCL INFO ";
    directory.write("nccl.0.log", record + std::string(3 * kLongestLogLine, 'x') + "\n" + record +
                                      "Using network Socket\n" + record +
                                      "Bootstrap: Using e0:1<0>");
    const LogSummary summary = read_log_directory(directory.path()).summary();
    CHECK(summary.lines == 3);
    CHECK(summary.cut == 1);
    CHECK(summary.networks == std::vector<std::string>{"Socket"});
    CHECK(summary.bootstrap_interfaces == std::vector<std::string>{"e0"});
}

TEST_CASE("a line that is exactly as long as the limit is whole") {
    const TemporaryDirectory directory;
    std::string line = "a:1:1 [0] NCCL INFO Using network ";
    line.resize(kLongestLogLine, 'n');
    directory.write("nccl.0.log", line + "\n");
    CHECK(read_log_directory(directory.path()).summary().cut == 0);
    directory.write("nccl.0.log", line + "n\n");
    CHECK(read_log_directory(directory.path()).summary().cut == 1);
}

TEST_CASE("what cannot be read is a note and does not hang") {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() / "nccl.0.log");
    REQUIRE(mkfifo((directory.path() / "nccl.1.log").c_str(), 0600) == 0);
    std::filesystem::create_symlink("absent", directory.path() / "nccl.2.log");
    directory.write("nccl.3.log", "a:1:1 [0] NCCL INFO Using network IB\n");
    const LogSummary summary = read_log_directory(directory.path()).summary();
    CHECK(summary.lines == 1);
    REQUIRE(summary.notes.size() == 3);
    CHECK(summary.notes[0].find("not a regular file") != std::string::npos);
    CHECK(summary.notes[1].find("not a regular file") != std::string::npos);
    CHECK(summary.notes[2].find("No such file") != std::string::npos);

    const LogSummary absent = read_log_directory(directory.path() / "absent").summary();
    CHECK_FALSE(absent.started());
    REQUIRE(absent.notes.size() == 1);
    CHECK(absent.notes[0].find("No such file") != std::string::npos);
}

TEST_CASE("of logs beyond the limit the beginnings are read, whole lines of them") {
    const TemporaryDirectory directory;
    const std::string socket = "a:1:1 [0] NCCL INFO Using network Socket\n";
    const std::string ib = "a:2:2 [1] NCCL INFO Using network IB\n";
    directory.write("nccl.0.log", socket + socket + socket + socket);
    directory.write("nccl.1.log", ib);
    const std::uint64_t all = 4 * socket.size() + ib.size();
    const LogSummary whole = read_log_directory(directory.path(), all).summary();
    CHECK(whole.lines == 5);
    CHECK(whole.notes.empty());
    const LogSummary part = read_log_directory(directory.path(), all - 2).summary();
    CHECK(part.lines == 4);
    CHECK(part.networks == std::vector<std::string>{"Socket", "IB"});  // not "Sock"
    REQUIRE(part.notes.size() == 1);
    CHECK(part.notes[0].starts_with("1 of 2 NCCL logs are longer than "));
    CHECK(read_log_directory(directory.path(), 0).summary().lines == 0);
}

TEST_CASE("bytes that are no text are read") {
    const TemporaryDirectory directory;
    std::string bytes;
    for (unsigned i = 0; i < 300000; ++i) bytes += static_cast<char>((i * 7919u) >> 3);
    directory.write("nccl.0.log", bytes + "\na:1:1 [0] NCCL INFO Using network IB\n");
    CHECK(read_log_directory(directory.path()).summary().networks ==
          std::vector<std::string>{"IB"});
}

TEST_CASE("a log of the user's own is found by its name's placeholders") {
    const std::string line = "a:1:1 [0] NCCL INFO Using network ";
    const TemporaryDirectory directory;
    const auto file = [&](const std::string& name, const std::string& network) {
        directory.write(name, line + network + "\n");
        return directory.path() / name;
    };
    file("nccl.node-a.17.log", "IB");
    file("nccl.node-a.18.log", "Socket");
    file("nccl.node-a.log", "one part is missing");
    file("other.node-a.17.log", "another name");
    file("100%[x].17", "percent");
    std::filesystem::create_directory(directory.path() / "nccl.dir.1.log");
    REQUIRE(mkfifo((directory.path() / "nccl.fifo.1.log").c_str(), 0600) == 0);
    std::filesystem::create_symlink("other.node-a.17.log", directory.path() / "nccl.link.1.log");
    const auto networks = [&](const std::string& pattern, std::time_t since) {
        const LogSummary summary =
            read_log_pattern((directory.path() / pattern).string(), since).summary();
        CHECK(summary.notes.empty());
        return summary.networks;
    };
    CHECK(networks("nccl.%h.%p.log", 0) == std::vector<std::string>{"IB", "Socket"});
    CHECK(networks("nccl.%h.17.log", 0) == std::vector<std::string>{"IB"});
    CHECK(networks("100%%[x].%p", 0) == std::vector<std::string>{"percent"});
    CHECK(networks("nccl.*.log", 0).empty());  // NCCL knows no wildcards
    CHECK(networks("absent", 0).empty());
    CHECK(networks("", 0).empty());
    // Only what this run wrote.
    using Clock = std::filesystem::file_time_type::clock;
    std::filesystem::last_write_time(directory.path() / "nccl.node-a.17.log",
                                     Clock::now() - std::chrono::hours(1));
    const std::time_t minutes_ago = std::time(nullptr) - 600;
    CHECK(networks("nccl.%h.%p.log", minutes_ago) == std::vector<std::string>{"Socket"});
}

TEST_CASE("a name that fits very many files is read up to a bound") {
    const TemporaryDirectory directory;
    for (std::size_t i = 0; i <= kMostFollowedFiles; ++i)
        directory.write(std::to_string(i), "a:1:1 [0] NCCL INFO Using network IB\n");
    const LogSummary summary = read_log_pattern((directory.path() / "%p").string(), 0).summary();
    CHECK(summary.lines == kMostFollowedFiles);
    REQUIRE(summary.notes.size() == 1);
    CHECK(summary.notes[0].find("left out") != std::string::npos);
}
