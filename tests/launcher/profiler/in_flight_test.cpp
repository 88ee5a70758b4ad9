#include <doctest/doctest.h>

#include <algorithm>

#include "launcher/profiler/in_flight.hpp"

namespace toporun::profiler {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

RankKey key(int rank) {
    return {rank, 0, 100 + rank};
}

Collective all_reduce(int rank, int ranks, std::uint64_t sequence, std::uint64_t start_ns,
                      std::uint64_t stop_ns) {
    Collective result;
    result.communicator = 0xabc;
    result.rank = rank;
    result.ranks = ranks;
    result.function = kAllReduce;
    result.datatype = kFloat32;
    result.sequence = sequence;
    result.count = 1 << 20;
    result.start_ns = start_ns;
    result.stop_ns = stop_ns;
    return result;
}

/// `steps` steps of 10 ms; rank r is in the collective from `start[r]` to 10 ms of each.
InFlight steps(std::uint64_t count, const std::vector<std::uint64_t>& start_ms) {
    InFlight sum;
    const int ranks = static_cast<int>(start_ms.size());
    for (std::uint64_t step = 0; step < count; ++step) {
        for (int rank = 0; rank < ranks; ++rank) {
            const std::uint64_t clock = 1 + static_cast<std::uint64_t>(rank) * 77'777 * kMs;
            const std::uint64_t begin = clock + step * 10 * kMs;
            sum.add(key(rank), all_reduce(rank, ranks, step,
                                          begin + start_ms[static_cast<std::size_t>(rank)] * kMs,
                                          begin + 10 * kMs));
        }
    }
    return sum;
}

}  // namespace

TEST_CASE("Without records everything is unknown") {
    const Measured nothing = InFlight().measured();
    CHECK(nothing.label == Label::unknown);
    CHECK(nothing.parts_label == Label::unknown);
    CHECK_FALSE(nothing.in_flight);
    CHECK_FALSE(nothing.transfer);
    CHECK(nothing.rows.empty());
    CHECK(label_text(nothing.label) == "unknown");
    CHECK(label_text(Label::measured) == "measured");
    CHECK(label_text(Label::bounded) == "bounded");
    CHECK(label_text(Label::estimated) == "estimated");
}

TEST_CASE("In-flight share with transfer and waiting parts of two ranks") {
    // rank 0 waits 4 ms for rank 1 in each step of 10 ms; GPU clocks differ
    const Measured result = steps(1000, {5, 9}).measured();
    CHECK(result.label == Label::measured);
    CHECK(result.parts_label == Label::measured);
    CHECK(result.warm_up_left_out);
    CHECK(*result.in_flight == doctest::Approx(0.3).epsilon(0.01));
    CHECK(*result.in_flight_smallest == doctest::Approx(0.1).epsilon(0.01));
    CHECK(*result.in_flight_largest == doctest::Approx(0.5).epsilon(0.01));
    CHECK(*result.transfer == doctest::Approx(0.1).epsilon(0.01));
    CHECK(*result.transfer + *result.waiting == doctest::Approx(*result.in_flight));
    CHECK(result.window_seconds == doctest::Approx(9.9).epsilon(0.01));
    CHECK(result.operations == 2000);
    REQUIRE(result.ranks.size() == 2);
    CHECK(*result.ranks[0].waiting == doctest::Approx(0.4).epsilon(0.01));
    CHECK(*result.ranks[1].waiting == doctest::Approx(0.0));
    REQUIRE(result.last);
    CHECK(result.last->key.rank == 1);
    CHECK(result.last->share == doctest::Approx(1));
    CHECK(result.last->behind_seconds == doctest::Approx(0.004));
    REQUIRE(result.rows.size() == 1);
    CHECK(result.rows[0].function == "AllReduce");
    CHECK(result.rows[0].size_class == 1 << 22);
    CHECK(result.rows[0].count == 2000);
    CHECK(result.rows[0].bytes == 2000ull << 22);
    // 4 MiB in 1 ms, times 2(n-1)/n = 1
    CHECK(*result.rows[0].busbw_gbytes_per_s == doctest::Approx(4.194304));
    CHECK(result.notes.empty());
}

TEST_CASE("The first ten operations are left out when there are more than forty") {
    for (const std::uint64_t count : {40u, 41u}) {
        CAPTURE(count);
        InFlight sum;
        for (std::uint64_t i = 0; i < count; ++i) {  // the first ten are in flight all the time
            sum.add(key(0), all_reduce(0, 2, i, 1 + i * 100, 1 + i * 100 + (i < 10 ? 100 : 10)));
        }
        const Measured result = sum.measured();
        CHECK(result.warm_up_left_out == (count > 40));
        CHECK(*result.in_flight == doctest::Approx(count > 40 ? 310.0 / 3010 : 1300.0 / 3910));
        CHECK(result.operations == count);
    }
}

TEST_CASE("Fused operations share their time") {
    InFlight sum;
    for (std::uint64_t i = 0; i < 10; ++i) {
        for (std::uint64_t fused = 0; fused < 5; ++fused) {
            for (int rank = 0; rank < 2; ++rank) {
                sum.add(key(rank), all_reduce(rank, 2, 5 * i + fused, 1 + i * 100, 51 + i * 100));
            }
        }
    }
    const Measured result = sum.measured();
    CHECK(*result.in_flight == doctest::Approx(400.0 / 750));  // warm-up: two groups
    CHECK(*result.transfer == doctest::Approx(*result.in_flight));
    CHECK(*result.waiting == doctest::Approx(0));
    CHECK_FALSE(result.last);
}

TEST_CASE("Impossible stamps are dropped, counted and said") {
    InFlight sum = steps(50, {5, 5});
    sum.add(key(0), all_reduce(0, 2, 50, UINT64_MAX, 0));
    sum.add(key(0), all_reduce(0, 2, 51, 100, 100));
    sum.add(key(0), all_reduce(0, 2, 52, 1, UINT64_MAX));
    sum.add(key(0), all_reduce(0, 2, 53, 0, 100));
    const Measured result = sum.measured();
    CHECK(result.implausible == 4);
    CHECK(result.label == Label::bounded);
    CHECK(result.parts_label == Label::bounded);
    CHECK(*result.in_flight == doctest::Approx(0.5).epsilon(0.02));
    REQUIRE(result.notes.size() == 1);
    CHECK(result.notes[0] == "4 operations left out: GPU time stamps missing or impossible");
}

TEST_CASE("Lost records make the share bounded") {
    InFlight sum = steps(50, {5, 5});
    sum.lost(key(1), 7);
    const Measured result = sum.measured();
    CHECK(result.lost == 7);
    CHECK(result.label == Label::bounded);
    CHECK(result.parts_label == Label::bounded);
    CHECK(result.notes[0] == "7 operations were overwritten before they were read");
}

TEST_CASE("Ranks on other nodes make the parts bounded and the share stays measured") {
    InFlight sum;
    for (std::uint64_t i = 0; i < 5000; ++i) {  // more than can wait for a match
        for (int rank = 0; rank < 2; ++rank) {
            const std::uint64_t start = 1 + i * 10 * kMs;
            const std::uint64_t stop = start + (rank == 0 ? 4 : 6) * kMs;
            sum.add(key(rank), all_reduce(rank, 4, i, start, stop));
        }
    }
    const Measured result = sum.measured();
    CHECK(result.label == Label::measured);
    CHECK(result.parts_label == Label::bounded);
    CHECK(*result.in_flight == doctest::Approx(0.5).epsilon(0.01));
    CHECK(*result.transfer == doctest::Approx(0.4).epsilon(0.01));
    REQUIRE(result.last);
    CHECK(result.last->key.rank == 0);
}

TEST_CASE("One rank alone has a share and no parts") {
    InFlight sum;
    for (std::uint64_t i = 0; i < 50; ++i) {
        sum.add(key(0), all_reduce(0, 16, i, 1 + i * 100, 31 + i * 100));
    }
    const Measured result = sum.measured();
    CHECK(result.label == Label::measured);
    CHECK(*result.in_flight == doctest::Approx(0.3).epsilon(0.02));
    CHECK(result.parts_label == Label::unknown);
    CHECK_FALSE(result.transfer);
    CHECK(*result.rows[0].busbw_gbytes_per_s > 0);
}

TEST_CASE("A rank that declared itself and never reported is waited for") {
    InFlight sum;
    sum.member(key(0), {0xabc, 0, 2, 1, false, ""});
    sum.member(key(1), {0xabc, 1, 2, 1, false, ""});
    for (std::uint64_t i = 0; i < 50; ++i) sum.add(key(0), all_reduce(0, 2, i, 1 + i, 2 + i));
    const Measured result = sum.measured();
    CHECK_FALSE(result.transfer);
    CHECK(result.ranks.size() == 1);
}

TEST_CASE("A replayed graph repeats sequence numbers and is matched in order") {
    InFlight sum;
    for (std::uint64_t i = 0; i < 60; ++i) {  // rank 0 runs ahead by all of it
        sum.add(key(0), all_reduce(0, 2, i % 3, 1 + i * 100, 51 + i * 100));
    }
    for (std::uint64_t i = 0; i < 60; ++i) {
        sum.add(key(1), all_reduce(1, 2, i % 3, 1 + i * 100, 21 + i * 100));
    }
    const Measured result = sum.measured();
    CHECK(result.parts_label == Label::measured);
    CHECK(*result.ranks[0].transfer / result.ranks[0].in_flight == doctest::Approx(0.4));
    CHECK(*result.ranks[1].waiting == doctest::Approx(0));
}

TEST_CASE("Sends and receives count in the share and leave the parts bounded") {
    InFlight sum = steps(50, {9, 9});
    for (int rank = 0; rank < 2; ++rank) {
        for (std::uint64_t i = 0; i < 50; ++i) {
            Collective send = all_reduce(rank, 2, 0, 0, 0);
            send.function = kSend;
            send.count = 100;
            send.start_ns = 1 + static_cast<std::uint64_t>(rank) * 77'777 * kMs + i * 10 * kMs;
            send.stop_ns = send.start_ns + 4 * kMs;
            sum.add(key(rank), send);
        }
    }
    const Measured result = sum.measured();
    CHECK(*result.in_flight == doctest::Approx(0.5).epsilon(0.02));
    CHECK(result.parts_label == Label::bounded);
    REQUIRE(result.rows.size() == 2);
    CHECK(result.rows[1].function == "Send");
    CHECK(result.rows[1].size_class == 512);
}

TEST_CASE("Several GPUs in one process are ranks of their own") {
    InFlight sum;
    const RankKey process = {0, 0, 7};
    for (int rank = 0; rank < 2; ++rank) sum.member(process, {0xabc, rank, 2, 1, false, ""});
    for (std::uint64_t i = 0; i < 50; ++i) {
        sum.add(process, all_reduce(0, 2, i, 1 + i * 100, 31 + i * 100));
        sum.add(process, all_reduce(1, 2, i, 5'000'001 + i * 100, 5'000'051 + i * 100));
    }
    const Measured result = sum.measured();
    REQUIRE(result.ranks.size() == 2);
    CHECK(result.ranks[0].in_flight == doctest::Approx(0.3).epsilon(0.02));
    CHECK(result.ranks[1].in_flight == doctest::Approx(0.5).epsilon(0.02));
    CHECK(result.parts_label == Label::measured);
}

TEST_CASE("Sizes and bus bandwidth factors are those of nccl-tests") {
    const struct {
        std::uint8_t function, datatype;
        std::uint64_t size;
        double factor;
    } rows[] = {{kAllReduce, kFloat32, 400, 1.5},      {kAllGather, kInt8, 400, 0.75},
                {kReduceScatter, kFloat16, 800, 0.75}, {kAllToAll, kFloat64, 3200, 0.75},
                {kBroadcast, kInt8, 100, 1},           {kReduce, kBfloat16, 200, 1},
                {kSend, kFloat8e4m3, 100, 1},          {kGather, kUint32, 1600, 0.75},
                {kAllReduce, kUnknownCode, 0, 1.5},    {kUnknownCode, kInt32, 400, 1}};
    for (const auto& row : rows) {
        CAPTURE(function_name(row.function));
        Collective collective;
        collective.function = row.function;
        collective.datatype = row.datatype;
        collective.count = 100;
        collective.ranks = 4;
        CHECK(size_bytes(collective) == row.size);
        CHECK(bus_factor(row.function, 4) == doctest::Approx(row.factor));
    }
    Collective huge = all_reduce(0, 4, 0, 1, 2);
    huge.count = UINT64_MAX / 2;
    CHECK(size_bytes(huge) == 0);
    CHECK(bus_factor(kAllReduce, 0) == 1);
    CHECK(function_name(200) == "Unknown");
}

TEST_CASE("Any records whatever give shares between nought and one") {
    std::uint64_t random = 1;
    const auto next = [&] { return random = random * 6364136223846793005u + 1442695040888963407u; };
    InFlight sum;
    for (int i = 0; i < 20000; ++i) {
        Collective collective;
        collective.communicator = next() >> 61;
        collective.rank = static_cast<int>(next() >> 60) - 2;
        collective.ranks = static_cast<int>(next() >> 60) - 2;
        collective.function = static_cast<std::uint8_t>(next() >> 59);
        collective.datatype = static_cast<std::uint8_t>(next() >> 59);
        collective.sequence = next() >> 60;
        collective.count = next() >> (next() >> 58);
        collective.start_ns = next() >> (next() >> 58);
        collective.stop_ns = collective.start_ns + (next() >> (next() >> 58));
        sum.add(key(static_cast<int>(next() >> 62)), collective);
    }
    const Measured result = sum.measured();
    for (const RankInFlight& rank : result.ranks) {
        CHECK(rank.in_flight >= 0);
        CHECK(rank.in_flight <= 1.000001);
    }
    CHECK(*result.in_flight <= 1.000001);
    CHECK(result.operations == 20000);
}

}  // namespace toporun::profiler
