#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"

using namespace toporun::detect::nccl_log;

namespace {

const std::vector<std::string> kSeeds = {
    "n1:4242:4250 [3] NCCL INFO Channel 00/0 : 7[b7000] -> 8[1a000] [send] via NET/IB/0/GDRDMA",
    "[2026-02-03 04:05:06] n1:1:2 [0] init.cc:904 (checkPeers) NCCL WARN Duplicate GPU",
    "n1:1:2 [0] NCCL INFO ncclCommSplit comm 0x7f02 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId "
    "1c000 parent 0x7f01 splitCount 3 color 0 key 5- Init START",
    "n1:1:2 [0] NCCL INFO comm 0x7f01 rank 5 nRanks 16 nNodes 2 localRanks 8 localRank 5 MNNVL 0",
    "n1:1:2 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}; OOB e:1::2<0>",
    "n1:1:2 [0] NCCL INFO Bootstrap : Using [0]ib0:10.1.0.1<0> [1]ib1:10.2.0.1<0>",
    "n1:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v8)",
    "n1:1:2 [0] NCCL INFO NCCL_PXN_DISABLE set by environment to 1.",
    "[1,0]<stdout>:NCCL version 2.19.1rc1+cuda12.2",
    "RCCL version : 2.27.7-HEAD:0d2c4fd",
};

/// One small damage: a byte changed, removed, doubled, or the line cut or joined with another.
std::string mutated(std::string line, std::mt19937& random) {
    const auto below = [&](std::size_t n) { return random() % n; };
    const std::size_t at = line.empty() ? 0 : below(line.size());
    switch (below(6)) {
        case 0:
            line.resize(at);
            break;
        case 1:
            line += kSeeds[below(kSeeds.size())];
            break;
        case 2:
            line.insert(at, std::string(below(30), static_cast<char>(below(256))));
            break;
        case 3:
            line.insert(at, "99999999999999999999");
            break;
        case 4:
            if (!line.empty()) line.erase(at, 1 + below(4));
            break;
        default:
            if (!line.empty()) line[at] = static_cast<char>(below(256));
    }
    return line;
}

}  // namespace

TEST_CASE("damaged lines never break the reader and never give impossible ranks") {
    std::mt19937 random(20240229);  // fixed seed: the same lines in every run
    int understood = 0;
    for (int i = 0; i < 60000; ++i) {
        std::string text = kSeeds[random() % kSeeds.size()];
        for (std::size_t n = random() % 4; n > 0; --n) text = mutated(text, random);
        const Line line = parse_line(text);
        if (const Init* init = std::get_if<Init>(&line.event)) {
            REQUIRE(init->rank >= 0);
            REQUIRE(init->rank < init->ranks);
        }
        if (const Connection* connection = std::get_if<Connection>(&line.event)) {
            REQUIRE(connection->from >= 0);
            REQUIRE(connection->to >= 0);
        }
        if (line.event.index() != 0) ++understood;
    }
    CHECK(understood > 20000);  // undamaged and lightly damaged lines are still read
    CHECK(understood < 60000);
}

TEST_CASE("every byte sequence of up to two bytes is a line") {
    for (int a = 0; a < 256; ++a) {
        for (int b = 0; b < 256; ++b) {
            const std::string text{static_cast<char>(a), static_cast<char>(b)};
            REQUIRE_FALSE(parse_line(text).from_nccl());
        }
    }
}

TEST_CASE("very long lines of near matches are read") {
    std::string text;
    while (text.size() < 300000) text += "a:1:1 [0] NCCL INF x:22:22 ";
    CHECK_FALSE(parse_line(text).from_nccl());
    std::string records;
    while (records.size() < 300000) records += "a:1:1 [0] NCCL INFO ";
    const Line line = parse_line(records);
    CHECK(line.torn);
    CHECK(line.record.message.empty());
    CHECK_FALSE(parse_line(std::string(300000, '1') + ":1:1 [0] NCCL INFO").from_nccl());
    std::string buffer;
    CHECK(plain_line("\x1b[" + std::string(300000, ';'), buffer).empty());
}
