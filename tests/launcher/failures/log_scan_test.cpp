#include "launcher/failures/log_scan.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "launcher/failures/line_ends.hpp"

using namespace toporun::launcher;
using namespace toporun::launcher::failures;

namespace {

using Random = std::mt19937;

/// Lines of which each takes another way through the scan.
std::vector<std::string> line_pool() {
    const std::string a = "node-a:22558:22558 [0] NCCL INFO ";
    const std::string b = "node-b:22559:22561 [1] NCCL INFO ";
    const std::string call =
        "AllReduce: opCount 1f sendbuff 0x7f51f2af7010 recvbuff 0x7f51f2af7010 count 1024 datatype "
        "7 op 0 root 0 "
        "comm 0x5580e412a0 [nranks=8] stream 0x5580e39fb0";
    const std::string channel = "Channel 00/0 : 5[5] -> 6[6] via P2P/CUMEM/read";
    std::vector<std::string> pool = {
        a + call,
        b + call,
        a + channel,
        b + channel,
        "[rank0]: " + a + call,
        "0: " + a + call,
        "[1,3]<stdout>:" + b + call,
        "2026-03-01T12:00:07.123Z " + a + channel,
        a + call + " extra 7",
        a + call.substr(0, 60),
        a + call.substr(0, 60) + b + call,
        a + "AllGather: opCount 1 sendbuff (nil) recvbuff 0x... count 3 datatype 9 op 0 root 0 "
            "comm 0x1",
        a + "init.cc:1358 -> 6 [Async thread]",
        a + "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1a000 - Destroy COMPLETE",
        a + "NCCL_BUFFSIZE set by environment to 4194304.",
        a + "ncclCommInitRank comm 0x10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0x7 "
            "- Init START",
        b + "ncclCommInitRank comm 0x20 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1b000 commId 0x7 "
            "- Init COMPLETE",
        "node-a:22558:22558 [0] NCCL WARN Cuda failure 'out of memory'",
        "node-a:22558:22558 [0] misc/socket.cc:49 NCCL WARN Connection closed by remote peer "
        "node-b",
        "node-a:22558:22558 [0] INFO Using network IB",
        "\x1b[31m" + a + call + "\x1b[0m",
        a + call + "\r",
        "12% done\r50% done\r" + a + channel,
        "[rank0]: iteration 7 | loss 1.25",
        "[rank5]: iteration 7 | loss 1.25",
        "[default3]:loading",
        "[3] loading",
        "3: loading",
        "   4: [rank9]: loading",
        "2026-03-01 12:00:07,123 INFO trainer: epoch 3 step 7",
        "2026-03-01 12:00:07,123 [rank11]: epoch 3",
        "2026-03-01 12:00:07 [rank12]: epoch 3 of a longer line",
        "2026-03-01 12:00:07 [rank13]: epoch 3 of a longer line",
        "2026-03-01T12:00:07.123+00:00 [rank14]: epoch 3",
        "2026-03-01 12:00:07 [rank15]: e",
        "[rank16]: ERROR:torch.x: of a logger behind a rank",
        "  0.125 0.25 0.5",
        "",
        "Traceback (most recent call last):",
        "[rank1]: Traceback (most recent call last):",
        "[rank1]:   File \"/home/u/train.py\", line 7, in main",
        "[rank1]: KeyError: 'labels'",
        "KeyError: 'labels'",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "Memory cgroup out of memory: Killed process 709 (python)",
        "#  Rank  0 Group  0 Pid  22558 on     node-a device  0 [0x1a] NVIDIA H100",
        "NCCL version 2.28.9+cuda13.0",
        "srun: error: node-b: task 1: Exited with exit code 1",
        "node-a: ssh node-a cd /w; python",
        "this DataLoader line has the device word",
        "2026-03-01 12:00:07 INFO Using network IB",
        "[2026-03-01 12:00:07] INFO Using network IB",
        call.substr(60),
        "Killed",
        " iteration        7/  500000 | lm loss: 1.234568E+00 | number of nan iterations:   0 |",
    };
    return pool;
}

struct Read {
    LogModel model;
    FailureLog failures;
};

void read_long(const std::string& text, Read& read) {
    LogStream stream(read.model);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        read.failures.add(line, &stream.add(line));
        at = end + 1;
    }
}

/// In blocks of `size` lines.
void read_short(const std::string& text, std::size_t size, Read& read) {
    LogScan scan(read.model, read.failures);
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        for (std::size_t i = 0; i < size && end < text.size(); ++i)
            end = std::min(text.find('\n', end), text.size() - 1) + 1;
        scan.add(std::string_view(text).substr(at, end - at), false);
        at = end;
    }
}

void check_same(const Read& a, const Read& b) {
    const LogSummary one = a.model.summary(), other = b.model.summary();
    CHECK(one.lines == other.lines);
    CHECK(one.unknown == other.unknown);
    CHECK(one.kinds.lines == other.kinds.lines);
    CHECK(one.torn == other.torn);
    CHECK(one.nodes == other.nodes);
    CHECK(one.versions == other.versions);
    CHECK(one.warning_count == other.warning_count);
    CHECK(one.variables.size() == other.variables.size());
    CHECK(one.setup.error_trails == other.setup.error_trails);
    CHECK(one.other_connections == other.other_connections);
    CHECK(one.transports.size() == other.transports.size());
    REQUIRE(one.collectives.size() == other.collectives.size());
    for (std::size_t i = 0; i < one.collectives.size(); ++i) {
        CHECK(one.collectives[i].count == other.collectives[i].count);
        CHECK(one.collectives[i].bytes == other.collectives[i].bytes);
    }
    const Evidence &first = a.failures.evidence(), &second = b.failures.evidence();
    CHECK(first.file_lines == second.file_lines);
    CHECK(first.ranks_seen == second.ranks_seen);
    CHECK(first.local_ranks_seen == second.local_ranks_seen);
    CHECK(first.slurm_agents == second.slurm_agents);
    CHECK(first.variables == second.variables);
    REQUIRE(first.events.size() == second.events.size());
    for (std::size_t i = 0; i < first.events.size(); ++i) {
        CHECK(first.events[i].evidence == second.events[i].evidence);
        CHECK(first.events[i].count == second.events[i].count);
        CHECK(first.events[i].place.line == second.events[i].place.line);
        CHECK(first.events[i].origin.host == second.events[i].origin.host);
    }
    REQUIRE(first.nccl.size() == second.nccl.size());
    for (auto x = first.nccl.begin(), y = second.nccl.begin(); x != first.nccl.end(); ++x, ++y) {
        CHECK(x->first == y->first);
        CHECK(x->second.rank == y->second.rank);
        CHECK(x->second.ended == y->second.ended);
        CHECK(x->second.failed == y->second.failed);
        CAPTURE(x->first.first);
        CHECK(x->second.last.line == y->second.last.line);
    }
}

}  // namespace

TEST_CASE("the short way through a log has the same results as the long one") {
    const std::vector<std::string> pool = line_pool();
    for (unsigned seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        // Some streams are of few kinds of lines, as real ones are, some of all.
        const std::size_t kinds = seed % 4 == 0 ? pool.size() : 1 + random() % 12;
        std::vector<std::string> lines;
        for (std::size_t i = 0; i < kinds; ++i) lines.push_back(pool[random() % pool.size()]);
        std::string text;
        for (int i = 0; i < 300; ++i) text += lines[random() % lines.size()] + "\n";
        if (seed % 3 == 0) text.pop_back();
        Read one, other;
        read_long(text, one);
        read_short(text, 1 + random() % 50, other);
        check_same(one, other);
    }
}

TEST_CASE("lines with the head of one that tells no rank tell none either") {
    FailureLog failures;
    failures.add("[rank3]: loading");
    std::vector<std::string> lines = line_pool();
    for (const char* line :
         {"[rank3]: iteration 7 | loss 1.25 | grad norm 0.5 | lr 1e-4", "12", "1", "1: loading",
          "       12", "2026-03-01 12:00:07.123456789012345 x", "[rank3]: I", "[rank3]: INF",
          "2026-03-01 12:00:07 W", "ERR"})
        lines.emplace_back(line);
    const char* const tails[] = {
        "", "7", ": x", "] x", " [rank5]: x", "O:torch.x: y", "Z [rank5]: x"};
    Random random(1);
    int told = 0;
    for (const std::string& line : lines) {
        const std::string common(LineHeads::common(line));
        if (!failures.tells_no_rank(common, true)) continue;
        ++told;
        CHECK(failures.tells_no_rank(line));
        for (const char* tail : tails) {
            std::string other = common + tail;
            if (!other.starts_with('['))
                for (char& c : other)
                    if (c >= '0' && c <= '9') c = static_cast<char>('0' + random() % 10);
            CAPTURE(other);
            CHECK(failures.tells_no_rank(other));
        }
    }
    CHECK(told > 10);
}

TEST_CASE("heads of lines are equal but for digits, behind a bracket they are equal") {
    const auto same = [](std::string one, std::string other) {
        one.resize(LineHeads::kBytes + 8, '.');
        other.resize(LineHeads::kBytes + 8, '.');
        LineHeads heads;
        heads.add(one.data());
        CHECK(heads.contains(one.data()));
        return heads.contains(other.data());
    };
    CHECK(same("2026-03-01 12:00:07,123 INFO x", "2027-11-30 23:59:59,999 INFO x"));
    CHECK(same("  0.125 0.25", "  9.876 5.43"));
    CHECK(same(std::string(32, 'x') + "1", std::string(32, 'x') + "y"));
    CHECK(same("[rank3]: iteration 1", "[rank3]: iteration 2"));
    CHECK_FALSE(same("[rank3]: iteration 1", "[rank4]: iteration 1"));
    CHECK_FALSE(same("  0.125 0.25", "  0,125 0.25"));
    CHECK_FALSE(same("0:", "00"));
    CHECK_FALSE(same("0/", "00"));
    CHECK_FALSE(same(std::string(31, 'x') + "y", std::string(32, 'x')));
    const std::string zeros(LineHeads::kBytes, '.');
    CHECK_FALSE(LineHeads().contains(zeros.data()));
}

TEST_CASE("every text of the catalogue is found through its anchor, wherever it stands") {
    const Catalogue& catalogue = Catalogue::builtin();
    const auto check = [&](const Pattern& pattern) {
        if (const std::string_view line = pattern.whole_line(); catalogue.is_short_line(line)) {
            CHECK(catalogue.ends_in_short_line("3: " + std::string(line)));
            return;
        }
        REQUIRE(pattern.anchor().size() == Anchors::kBytes);
        for (std::size_t shift = 0; shift < 8; ++shift)
            for (std::size_t behind = 0; behind < 4; ++behind)
                CHECK(catalogue.anchors().any_in(std::string(shift, '#') + pattern.anchor() +
                                                 std::string(behind, '#')));
    };
    for (const KnownLine& line : catalogue.lines()) check(line.pattern);
    for (const KnownFinding& finding : catalogue.findings())
        for (const Pattern& pattern : finding.patterns) check(pattern);
    CHECK_FALSE(catalogue.anchors().any_in("  0.613512 0.925513 0.116111 0.741230"));
}

TEST_CASE("levels of old versions are told from those of loggers") {
    Anchors anchors;
    anchors.add_level(" INFO ");
    for (const char* line :
         {"n:1:22 [0] INFO x", "n:1:22 INFO x", "n:1:22 [0] init.cc:7 INFO x",
          "n:1:22 [0] 1.25 INFO x", "n:1:22 [0] (f) INFO x", "n:1:22 [0]  INFO x"})
        CHECK(anchors.any_in(line));
    for (const char* line : {"n:1:22 [-1] INFO x", "n:1:2:07 INFO x", "12:00:7 INFO x"})
        CHECK(anchors.any_in(line));
    for (const char* line :
         {"2026-03-01 12:00:07,123 INFO x", "2026-03-01 12:00:07 INFO x", "INFO x", "an INFO x",
          "[2026-03-01 12:00:07] INFO x", "[main] INFO x", "123 INFO"})
        CHECK_FALSE(anchors.any_in(line));
}

TEST_CASE("ends of lines and control characters are found at every place of a block") {
    for (std::size_t size = 1; size < 200; ++size) {
        for (const char c : {'\n', '\r', '\x1b', '\0'}) {
            std::string block(size, 'x');
            block[size * 7 % size] = 'y';
            block[size - 1 - size / 3] = c;
            std::vector<std::uint32_t> ends;
            CHECK(find_line_ends(block, ends) == (c != '\n'));
            CHECK(ends.size() == (c == '\n' ? 1 : 0));
            if (c == '\n') CHECK(ends.front() == size - 1 - size / 3);
        }
    }
}

TEST_CASE("a record that was broken in two counts for the failures") {
    const std::string one = "node-a:1:1 [0] NCCL INFO Using network IB\n";
    const std::string other = "node-b:2:2 [0] NCCL INFO Using network IB\n";
    const std::string begin =
        "node-a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x10 rank 0 nranks 2 cudaDev 0 "
        "nvmlDev 0 busId 1a000 commId 0x7 - Ini";
    std::string text;
    for (int i = 0; i < 20; ++i) text += one + other;
    text += begin + other + "t START\n" + one + other;
    Read read;
    read_short(text, 8, read);
    CHECK(read.failures.evidence().world_size == 2);
    CHECK(read.failures.evidence().file_lines.back() == 44);
}
