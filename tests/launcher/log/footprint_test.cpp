#include "launcher/log/footprint.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "files.hpp"

using namespace toporun::launcher;
using toporun::tests::TemporaryDirectory;

TEST_CASE("a node's files may take 64 MiB and one percent of the memory") {
    constexpr std::uint64_t kMiB = 1 << 20;
    CHECK(footprint_budget(std::nullopt) == 64 * kMiB);
    CHECK(footprint_budget(UINT64_MAX) == 64 * kMiB);
    CHECK(footprint_budget(6400 * kMiB) == 64 * kMiB);
    CHECK(footprint_budget(1000 * kMiB) == 10 * kMiB);
    CHECK(footprint_budget(0) == 0);
}

TEST_CASE("the bytes of a directory are those of its files, whatever else lies there") {
    const TemporaryDirectory directory;
    const TemporaryDirectory outside;
    CHECK(directory_bytes(directory.path()) == 0);
    CHECK(directory_bytes(directory.path() / "absent") == 0);
    outside.write("large", std::string(4096, 'x'));
    directory.write("a.ring", std::string(1000, 'x'));
    directory.write("below/it/nccl.0.log", std::string(30, 'x'));
    directory.write("empty", "");
    std::filesystem::create_symlink(outside.path() / "large", directory.path() / "link");
    std::filesystem::create_directory_symlink(outside.path(), directory.path() / "links");
    std::filesystem::create_symlink("absent", directory.path() / "nowhere");
    REQUIRE(mkfifo((directory.path() / "fifo").c_str(), 0600) == 0);
    CHECK(directory_bytes(directory.path()) == 1030);
    CHECK(directory_bytes(directory.path() / "a.ring") == 0);
}

TEST_CASE("one warning says how much there is, and only above the budget") {
    CHECK_FALSE(footprint_warning("/tmp/x", 0, 0));
    CHECK_FALSE(footprint_warning("/tmp/x", 64 << 20, 64 << 20));
    const auto warning = footprint_warning("/tmp/\x1b[2J", (96 << 20), 64 << 20);
    REQUIRE(warning);
    CHECK(
        *warning ==
        "the files of this run take 96 MiB in /tmp/\\x1b[2J, more than the 64 MiB meant for them; "
        "NCCL's log grows with what NCCL has to say, --no-log does without it");
}

TEST_CASE("the largest part of each log that keeps all of them within the budget") {
    struct Row {
        const char* name;
        std::vector<std::uint64_t> sizes;
        std::uint64_t budget;
        std::uint64_t cap;
    };
    const std::vector<Row> rows = {
        {"no log", {}, 0, UINT64_MAX},
        {"all whole", {10, 20, 30}, 60, UINT64_MAX},
        {"empty ones need nothing", {0, 0}, 0, UINT64_MAX},
        {"a byte too many", {10, 20, 30}, 59, 29},
        {"short ones leave theirs to the long", {1000, 10, 20}, 100, 70},
        {"all equal", {50, 50, 50, 50}, 100, 25},
        {"nothing to share", {50, 50}, 0, 0},
        {"less than a byte each", {5, 5, 5}, 2, 0},
        {"one that is endless", {UINT64_MAX, UINT64_MAX, 7}, 107, 50},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const std::uint64_t cap = log_cap(row.sizes, row.budget);
        CHECK(cap == row.cap);
        std::uint64_t all = 0;
        for (const std::uint64_t size : row.sizes) all += std::min(size, cap);
        CHECK(all <= row.budget);
    }
}
