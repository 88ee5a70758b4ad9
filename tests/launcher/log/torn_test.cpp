#include "launcher/log/torn.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

using namespace toporun;
using namespace toporun::launcher;
using detect::nccl_log::Level;
using detect::nccl_log::Line;
using detect::nccl_log::parse_line;

namespace {

constexpr int kRanks = 8;
constexpr std::size_t kLines = 2000;  // of one rank

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t end) {
    return random() % end;
}

/// What a rank writes: records and lines of the training.
std::vector<std::string> lines_of_rank(int rank, Random& random, std::size_t count) {
    const std::string node = rank < kRanks / 2 ? "node-a" : "node-b";
    const std::string pid = std::to_string(22558 + rank);
    const std::string prefix =
        node + ":" + pid + ":" + pid + " [" + std::to_string(rank % 4) + "] NCCL INFO ";
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string number = std::to_string(below(random, 1u << 24));
        switch (below(random, 6)) {
            case 0:
            case 1:
            case 2:
                lines.push_back(prefix + "AllReduce: opCount " + std::to_string(i) +
                                " sendbuff 0x7f51f2af7010 recvbuff 0x7f51f2af7010 count " + number +
                                " datatype 7 op 0 root 0 comm 0x5580e41" + pid +
                                " [nranks=8] stream 0x5580e39fb" + pid);
                break;
            case 3:
                lines.push_back(prefix + "Channel " + std::to_string(below(random, 24)) + "/0 : " +
                                std::to_string(rank) + "[" + std::to_string(rank) + "] -> " +
                                std::to_string(below(random, 8)) + "[3] via P2P/CUMEM/read");
                break;
            case 4:
                lines.push_back(prefix + "NCCL_BUFFSIZE set by environment to " + number + ".");
                break;
            default:
                lines.push_back("iteration " + number + " | loss 1.25 | tokens/s 12345.6");
        }
    }
    return lines;
}

struct Pieces {
    std::string text;
    std::vector<std::string> whole;  ///< lines into which no other rank wrote
};

/// The ranks' texts in turns. A turn is whole lines, or some `longest` bytes.
Pieces interleaved(const std::vector<std::vector<std::string>>& ranks, std::size_t longest,
                   Random& random) {
    struct Writer {
        std::string text;
        std::size_t at = 0;
    };
    std::vector<Writer> writers;
    for (const auto& lines : ranks) {
        writers.emplace_back();
        for (const std::string& line : lines) writers.back().text += line + "\n";
    }
    Pieces pieces;
    for (;;) {
        std::vector<Writer*> left;
        for (Writer& writer : writers)
            if (writer.at < writer.text.size()) left.push_back(&writer);
        if (left.empty()) return pieces;
        Writer& writer = *left[below(random, left.size())];
        const std::size_t size = longest == 0 ? writer.text.find('\n', writer.at) + 1 - writer.at
                                              : longest / 4 + below(random, longest);
        const std::string piece = writer.text.substr(writer.at, size);
        std::size_t begin = 0;
        const bool fresh = writer.at == 0 || writer.text[writer.at - 1] == '\n';
        const bool clean = pieces.text.empty() || pieces.text.back() == '\n';
        for (std::size_t end; (end = piece.find('\n', begin)) != piece.npos; begin = end + 1)
            if (begin > 0 || (fresh && clean))
                pieces.whole.push_back(piece.substr(begin, end - begin));
        pieces.text += piece;
        writer.at += piece.size();
    }
}

struct Read {
    std::size_t records = 0;
    std::size_t wrong = 0;
    std::uint64_t lost = 0;
    std::uint64_t repaired = 0;
    std::map<std::string, int> lines;
    std::string example;  ///< of a wrong one
};

std::string shown(const detect::nccl_log::Record& record) {
    return std::string(record.host) + ":" + std::to_string(record.pid) + " " +
           std::string(record.message);
}

/// Every record that is understood, against those that were written.
Read read(const std::string& text, const std::vector<std::vector<std::string>>& written) {
    std::map<std::string, int> truth;
    for (const auto& lines : written)
        for (const std::string& line : lines) {
            const Line parsed = parse_line(line);
            if (parsed.record.level != Level::bare) ++truth[shown(parsed.record)];
        }
    Read result;
    TornLines torn([&](const Line& line) {
        if (line.record.level == Level::bare) return;
        if (std::holds_alternative<detect::nccl_log::Unknown>(line.event)) return;
        ++result.records;
        const std::string record = shown(line.record);
        ++result.lines[record];
        if (--truth[record] >= 0) return;
        ++result.wrong;
        result.example = record;
    });
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        Line parsed = parse_line(line);
        torn.add(line, parsed);
        at = end + 1;
    }
    torn.finish();
    result.lost = torn.lost();
    result.repaired = torn.repaired();
    return result;
}

std::size_t records_in(const std::vector<std::string>& lines) {
    std::size_t records = 0;
    for (const std::string& line : lines) records += parse_line(line).record.level != Level::bare;
    return records;
}

std::vector<std::vector<std::string>> written_by_all(Random& random, std::size_t lines = kLines) {
    std::vector<std::vector<std::string>> ranks;
    for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(lines_of_rank(rank, random, lines));
    return ranks;
}

}  // namespace

TEST_CASE("of whole lines that are written in turns every record is read") {
    for (unsigned seed = 1; seed <= 5; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const auto ranks = written_by_all(random);
        const Pieces pieces = interleaved(ranks, 0, random);
        const Read result = read(pieces.text, ranks);
        CHECK(result.records == records_in(pieces.whole));
        CHECK(result.wrong == 0);
        CHECK(result.lost == 0);
    }
}

TEST_CASE("of pieces of lines no record is read wrong and what is whole is read") {
    constexpr unsigned kSeeds = 6;
    for (const std::size_t longest : {400, 700, 1500, 2500, 4096, 8192, 65536}) {
        std::size_t whole = 0, records = 0, wrong = 0;
        std::string example;
        for (unsigned seed = 1; seed <= kSeeds; ++seed) {
            Random random(seed * 7919 + static_cast<unsigned>(longest));
            const auto ranks = written_by_all(random);
            const Pieces pieces = interleaved(ranks, longest, random);
            const Read result = read(pieces.text, ranks);
            whole += records_in(pieces.whole);
            records += result.records;
            wrong += result.wrong;
            if (result.wrong > 0) example = result.example;
        }
        CAPTURE(longest);
        CAPTURE(example);
        CHECK(wrong == 0);
        CHECK(records * 10 >= whole * 9);
    }
}

TEST_CASE("no record has a name to which the end of another one is glued") {
    // Streams in which the first records of processes are so: the short pieces show it most.
    std::size_t records = 0;
    for (unsigned seed = 1; seed <= 100; ++seed) {
        for (const std::size_t longest : {400, 700}) {
            CAPTURE(seed);
            CAPTURE(longest);
            Random random(seed * 7919 + static_cast<unsigned>(longest));
            const auto ranks = written_by_all(random, 200);
            const Read result = read(interleaved(ranks, longest, random).text, ranks);
            records += result.records;
            CAPTURE(result.example);
            CHECK(result.wrong == 0);
        }
    }
    CHECK(records > 100'000);
}

TEST_CASE("no record has a piece of a row of paths or of trees within") {
    const std::string one =
        "node-a:1:1 [0] NCCL INFO comm 0x7f7c164f7010 rank 1 nRanks 8 nNodes 2 "
        "localRanks 4 localRank 1 MNNVL 0";
    const std::string trees = "node-a:1:1 [0] NCCL INFO Trees [0] 6/-1/-1->5->4 [1] 6/-1/-1->5->1";
    const std::string other = "node-b:2:2 [0] NCCL INFO Using network IB";
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 10; ++i) {
        text += one + "\n" + trees + "\n" + other + "\n";
        lines.insert(lines.end(), {one, trees, other});
    }
    // A piece of a line that begins and ends elsewhere in the line.
    text += one.substr(0, 60) + ") GPU/0-13000 (6/22.0/SYS) NET/0-2 (7/" + one.substr(60) + "\n" +
            trees.substr(0, 54) + "1/-1->4->0 [1] -1/-1/-1->" + trees.substr(54) + "\n" + other +
            "\n";
    lines.push_back(other);
    const Read result = read(text, {lines});
    CHECK(result.wrong == 0);
    CHECK(result.records == lines.size());
    CHECK(result.lost >= 1);
}

TEST_CASE("a record that another one breaks in two is put together again") {
    const std::string one = "node-a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM";
    const std::string other = "node-b:2:2 [0] NCCL INFO Using network IB";
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 20; ++i) {
        text += one + "\n" + other + "\n";
        lines.insert(lines.end(), {one, other});
    }
    text += one.substr(0, 45) + other + "\n" + one.substr(45) + "\n" + one + "\n" + other + "\n";
    lines.insert(lines.end(), {one, other, one, other});
    const Read result = read(text, {lines});
    CHECK(result.wrong == 0);
    CHECK(result.repaired == 1);
    CHECK(result.lost == 0);
    CHECK(result.records == lines.size());
}

TEST_CASE("a record of which two readings are possible is not put together") {
    const std::string call = "node-a:1:1 [0] NCCL INFO NCCL_BUFFSIZE set by environment to ";
    const std::string other = "node-b:2:2 [0] NCCL INFO Using network IB";
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 20; ++i) {
        text += call + "1.\n" + other + "\n";
        lines.insert(lines.end(), {call + "1.", other});
    }
    // 4194304, or 41 and the end of what another process had begun.
    text += call + "41" + other + "\n94304.\n" + call + "2.\n" + other + "\n";
    lines.insert(lines.end(), {other, call + "2.", other});
    const Read result = read(text, {lines});
    CHECK(result.wrong == 0);
    CHECK(result.repaired == 0);
    CHECK(result.records == lines.size());
}

TEST_CASE("a line that may end in another's rest is counted and not read") {
    const std::string call = " NCCL INFO NCCL_BUFFSIZE set by environment to ";
    const std::string a = "node-a:1:1 [0]" + call, b = "node-b:2:2 [0]" + call;
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 20; ++i) {
        text += a + "1.\n" + b + "1.\n";
        lines.insert(lines.end(), {a + "1.", b + "1."});
    }
    // The rest of a's 4194304 is the end of b's line; b's own rest never comes.
    text += a + "4194" + b + "2.\n" + b + "7" + "304.\n" + a + "3.\n" + b + "4.\n";
    lines.insert(lines.end(), {b + "2.", a + "3.", b + "4."});
    const Read result = read(text, {lines});
    CHECK(result.wrong == 0);
    CHECK(result.records == lines.size());
    CHECK(result.lost == 1);
}

TEST_CASE("names of hosts that are ends of others are not mixed in a stream that is whole") {
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 9; ++i)
        for (const char* host : {"node-a", "big-node-a"})
            lines.push_back(std::string(host) + ":7:7 [0] NCCL INFO Using network IB");
    for (const std::string& line : lines) text += line + "\n";
    const Read result = read(text, {lines});
    CHECK(result.wrong == 0);
    CHECK(result.records == lines.size());
}

TEST_CASE("values with blanks are read where nothing is torn") {
    const std::string begin = "node-a:1:1 [0] NCCL INFO ";
    const std::vector<std::string> lines = {
        begin + "NCCL_SOCKET_IFNAME set by environment to eth0, eth1.",
        begin + "NCCL_NET set by environment to AWS Libfabric.", begin + "Using network IB"};
    const Read result = read(lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n", {lines});
    CHECK(result.records == lines.size());
    CHECK(result.wrong == 0);
    CHECK(result.lost == 0);
}
