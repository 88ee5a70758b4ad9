#include "launcher/process/rank_ends.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "files.hpp"

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;
using tests::TemporaryDirectory;

std::size_t open_descriptors() {
    const fs::directory_iterator entries("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST_CASE("ranks that have ended hold no descriptors, however often they are restarted") {
    constexpr int kRanks = 8;
    constexpr int kStarts = 80;  // more than are watched at once
    const TemporaryDirectory directory;
    const std::string records = (directory.path() / "ranks").string();
    RankEnds ends(records);
    ends.start(::getpid());
    const std::size_t before = open_descriptors();
    std::vector<RankRecord> last(kRanks);
    for (int restart = 0; restart < kStarts; ++restart) {
        std::ofstream file(records, std::ios::app);
        for (int rank = 0; rank < kRanks; ++rank) {
            const pid_t pid = ::fork();
            if (pid == 0) ::_exit(rank);
            last[static_cast<std::size_t>(rank)].pid = pid;
            last[static_cast<std::size_t>(rank)].restart = restart;
            file << fmt::format("rank-record\trank={}\trestart={}\tpid={}\tend=1\n", rank, restart,
                                pid);
        }
        file.close();
        ends.look();
        while (ends.running()) {
            std::vector<pollfd> waits;
            ends.add_waits(waits);
            ::poll(waits.data(), waits.size(), 1000);
            ends.look();
        }
        for (const RankRecord& record : last) ::waitpid(record.pid, nullptr, 0);
        ends.look();
    }
    CHECK(ends.started() == kRanks * kStarts);
    CHECK(open_descriptors() == before);
    ends.fill(last);
    for (int rank = 0; rank < kRanks; ++rank) {
        const RankRecord& record = last[static_cast<std::size_t>(rank)];
        CHECK(record.ended_after_s);
        REQUIRE(record.wait_status);
        CHECK(WEXITSTATUS(*record.wait_status) == rank);
    }
}

}  // namespace
}  // namespace toporun::launcher
