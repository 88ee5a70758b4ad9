#include "launcher/log/call_times.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace toporun::launcher;

namespace {

/// One call of 8 ranks with 4-byte elements at `seconds` past ten o'clock.
std::string call(const std::string& function, std::uint64_t count, int seconds, int pid = 7,
                 int communicator = 1) {
    return fmt::format(
        "[2026-11-30 10:{:02}:{:02}] node-a:{}:{} [0] NCCL INFO {}: opCount 1f sendbuff 0x7f1 "
        "recvbuff "
        "0x7f2 count {} datatype 7 op 0 root 0 comm 0x{:x} [nranks=8] stream 0x56\n",
        seconds / 60, seconds % 60, pid, pid, function, count, communicator);
}

double seconds_of(const std::string& text) {
    double step = 0;
    return stamp_seconds(text, step).value_or(-1);
}

}  // namespace

TEST_CASE("time stamps of NCCL, containers and loggers") {
    double step = 0;
    const double first = seconds_of("[2026-11-30 10:20:30] node-a:1:1");
    CHECK(seconds_of("2026-11-30T10:20:31.5Z stdout F node-a") - first == doctest::Approx(1.5));
    CHECK(seconds_of("[rank3]: 2026-12-01 10:20:30,250 INFO") - first == doctest::Approx(86400.25));
    REQUIRE(stamp_seconds("2026-11-30T10:20:31.123456789Z ", step));
    CHECK(step == doctest::Approx(1e-9));
    for (const char* none :
         {"", "node-a:1:1 [0] NCCL INFO ", "2026-13-30 10:20:30", "2026-02-30 10:20:30",
          "2026-11-30 25:20:30", "2026-11-30", "10:20:30 node-a:1:1", "a-b-c-d-e"})
        CHECK(seconds_of(none) == -1);
}

TEST_CASE("the share is sizes through the model over the time between the calls") {
    CallTimes times;
    // 1.75 GB of bus traffic a second: 1e9 bytes x 2 x 7 / 8.
    for (int second = 0; second <= 100; ++second)
        times.add_lines(call("AllReduce", 250000000, second));
    const auto estimate = times.estimate(10);
    REQUIRE(estimate);
    CHECK(estimate->calls == 101);
    CHECK(estimate->processes == 1);
    CHECK(estimate->window_seconds == doctest::Approx(100));
    CHECK(estimate->low == doctest::Approx(0.175 / 2).epsilon(0.01));
    CHECK(estimate->share == doctest::Approx(0.175 / 0.8 * 1.01).epsilon(0.01));
    CHECK(estimate->high == doctest::Approx(0.175 / 0.4 * 1.01 / 0.99).epsilon(0.01));
    const auto slow = times.estimate(1.7);
    REQUIRE(slow);
    CHECK(slow->high == 1);
    CHECK(times.estimate(0.9));
    CHECK_FALSE(times.estimate(0.1));  // these calls could not have been made
    CHECK_FALSE(times.estimate(0));
}

TEST_CASE("communicators in flight together count once at the least") {
    CallTimes times;
    for (int second = 0; second <= 100; ++second)
        times.add_lines(call("Reduce", 100000, second) + call("Broadcast", 50000000, second, 7, 2));
    const auto estimate = times.estimate(1);
    REQUIRE(estimate);
    CHECK(estimate->low == doctest::Approx(0.2 / 1.1).epsilon(0.02));  // the broadcast alone
    CHECK(estimate->share == doctest::Approx(0.2505).epsilon(0.02));
}

TEST_CASE("sends, receives and AlltoAll have no estimate: they share kernels and take other ways") {
    for (const char* function : {"Send", "Recv", "AlltoAll"}) {
        CallTimes times;
        for (int second = 0; second <= 100; ++second)
            times.add_lines(call("AllReduce", 25000000, second) + call(function, 1000, second));
        CHECK_FALSE(times.estimate(10));
    }
}

TEST_CASE("stamps that go back, two runs in one file and impossible rates give no estimate") {
    const auto estimated = [](const auto& second_of) {
        CallTimes times;
        for (int i = 0; i <= 100; ++i) times.add_lines(call("AllReduce", 25000000, second_of(i)));
        return times.estimate(10).has_value();
    };
    CHECK(estimated([](int i) { return i; }));
    CHECK_FALSE(estimated([](int i) { return 200 - i * 3 / 2; }));            // ends with 50
    CHECK_FALSE(estimated([](int i) { return i < 50 ? i + 100 : i - 50; }));  // set back
    CHECK_FALSE(estimated([](int i) { return i < 50 ? i : i + 1000; }));      // two runs
    CHECK_FALSE(estimated([](int i) { return i / 50 * 11; }));                // two bursts
}

TEST_CASE("without times, with few calls or a short window nothing is estimated") {
    CallTimes times;
    for (int second = 0; second <= 100; ++second) {
        const std::string line = call("AllReduce", 1000, second);
        times.add_lines(line.substr(line.find("node-a")));
    }
    CHECK_FALSE(times.estimate(10));
    for (int second = 0; second < 10; ++second)
        times.add_lines(call("AllReduce", 1000, 10 * second));
    CHECK_FALSE(times.estimate(10));
    CallTimes brief;
    for (int second = 0; second < 100; ++second)
        brief.add_lines(call("AllReduce", 1000, second % 5) + "a line\n");
    CHECK_FALSE(brief.estimate(10));
    CHECK_FALSE(CallTimes().estimate(10));
}
