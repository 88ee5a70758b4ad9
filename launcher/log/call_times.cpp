#include "launcher/log/call_times.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "detect/nccl_log/line.hpp"

namespace toporun::launcher {
namespace {

using namespace detect::nccl_log;

constexpr std::size_t kMostTimedProcesses = 4096;
constexpr std::size_t kLongestTimedHost = 256;
constexpr std::string_view kCall = ": opCount ";
constexpr std::size_t kMostSums = 64;  // communicators of a process

/// Digits at `at`, nothing when one is none.
std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
    if (at + count > text.size()) return std::nullopt;
    int value = 0;
    for (std::size_t i = at; i < at + count; ++i) {
        if (text[i] < '0' || text[i] > '9') return std::nullopt;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/// memmem() is many times quicker here than std::string_view::find(), for most lines have colons.
std::size_t find_call(std::string_view text, std::size_t from) {
    const void* const found =
        ::memmem(text.data() + from, text.size() - from, kCall.data(), kCall.size());
    return found == nullptr
               ? std::string_view::npos
               : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

/// `2026-11-30 10:20:30.123` at the beginning of `text`.
std::optional<double> stamp_at(std::string_view text, double& step) {
    constexpr std::size_t kSize = 19;
    if (text.size() < kSize || text[4] != '-' || text[7] != '-' || text[13] != ':' ||
        text[16] != ':' || (text[10] != ' ' && text[10] != 'T'))
        return std::nullopt;
    const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
    const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2),
               second = digits(text, 17, 2);
    if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
    using namespace std::chrono;
    const year_month_day date{std::chrono::year(*year) / *month / *day};
    constexpr int kLastHour = 23, kLastMinute = 59, kLeapSecond = 60;
    if (!date.ok() || *hour > kLastHour || *minute > kLastMinute || *second > kLeapSecond)
        return std::nullopt;
    double seconds = static_cast<double>(sys_days(date).time_since_epoch().count()) * 86400 +
                     *hour * 3600 + *minute * 60 + *second;
    step = 1;
    if (text.size() > kSize && (text[kSize] == '.' || text[kSize] == ',')) {
        for (std::size_t i = kSize + 1; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
            step /= 10;
            seconds += step * (text[i] - '0');
        }
    }
    return seconds;
}

bool goes_by_ring(Function function) {
    return function == Function::all_reduce || function == Function::all_gather ||
           function == Function::reduce_scatter || function == Function::broadcast ||
           function == Function::reduce;
}

/// How much more than the ring's the bus bandwidth of a call can be. Sums inside NVSwitches or the
/// network's switches (NVLS, CollNet) move half of a ring's bytes, and trees have more channels on
/// some machines (nccl.md 6.2); measured figures of rings are up to 10 % above the model's.
double best_over_ring(Function function) {
    constexpr double kSumInSwitch = 2, kRing = 1.1;
    return function == Function::all_reduce ? kSumInSwitch : kRing;
}

struct Latency {
    double likely, most;  ///< s
};

/// What a call takes beside its transfer: within 8 ranks the protocols' constants and hops; an
/// AllReduce of more goes by a tree, whose depth is a logarithm, all else step by step along the
/// ring (nccl.md 6.3).
Latency latency_of(const Collective& call) {
    constexpr double kNear = 8;  // ranks
    constexpr double kLikely = 25e-6, kMost = 120e-6;
    constexpr double kLikelyLevel = 8e-6, kMostLevel = 20e-6;
    constexpr double kLikelyStep = 1.2e-6, kMostStep = 6e-6;
    const double ranks = std::max(kNear, static_cast<double>(call.ranks.value_or(0)));
    if (call.function == Function::all_reduce) {
        const double levels = std::log2(ranks / kNear);
        return {kLikely + levels * kLikelyLevel, kMost + levels * kMostLevel};
    }
    return {kLikely + (ranks - kNear) * kLikelyStep, kMost + (ranks - kNear) * kMostStep};
}

}  // namespace

std::optional<double> stamp_seconds(std::string_view text, double& step) {
    constexpr std::size_t kFarthest = 128;
    text = text.substr(0, kFarthest);
    for (std::size_t at = text.find('-'); at != text.npos; at = text.find('-', at + 1)) {
        constexpr std::size_t kYear = 4;
        if (at < kYear) continue;
        if (const auto seconds = stamp_at(text.substr(at - kYear), step)) return seconds;
    }
    return std::nullopt;
}

std::optional<double> bus_factor(const Collective& call) {
    switch (call.function) {
        case Function::broadcast:
        case Function::reduce:
        case Function::send:
        case Function::recv:
            return 1;
        default:
            break;
    }
    if (!call.ranks || *call.ranks < 1) return std::nullopt;
    const double ranks = *call.ranks;
    return (call.function == Function::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
}

void CallTimes::add_lines(std::string_view lines) {
    std::size_t at = find_call(lines, 0);
    bool first = true;
    while (at != lines.npos) {
        const std::size_t before = lines.rfind('\n', at);
        const std::size_t begin = before == lines.npos ? 0 : before + 1;
        const std::size_t end = std::min(lines.find('\n', at), lines.size());
        const std::string_view line = lines.substr(begin, end - begin);
        double step = 1;
        if (std::exchange(first, false) && !stamp_seconds(line.substr(0, at - begin), step)) return;
        add(line);
        at = find_call(lines, end);
    }
}

void CallTimes::add(std::string_view line) {
    const std::size_t call_at = line.find(kCall);
    if (call_at == line.npos) return;
    double step = 1;
    const auto time = stamp_seconds(line.substr(0, call_at), step);
    if (!time) return;
    const Line read = parse_line(line);
    const auto* call = std::get_if<Collective>(&read.event);
    if (call == nullptr || read.torn || read.record.host.size() > kLongestTimedHost) return;
    const std::pair key(std::string(read.record.host), read.record.pid);
    auto found = processes_.find(key);
    if (found == processes_.end()) {
        if (processes_.size() >= kMostTimedProcesses) return;
        found = processes_.emplace(key, Process()).first;
        found->second.first = found->second.last = found->second.previous = *time;
    }
    Process& process = found->second;
    constexpr double kOutOfOrder = 2;  // s
    process.goes_back |= *time < process.last - kOutOfOrder;
    process.longest_gap = std::max(process.longest_gap, *time - process.previous);
    process.previous = *time;
    process.first = std::min(process.first, *time);
    process.last = std::max(process.last, *time);
    process.step = std::max(process.step, step);
    ++process.calls;
    const auto size = size_bytes(*call);
    const auto factor = bus_factor(*call);
    // Those of further communicators are added to the first one's.
    const bool room = process.sums.size() < kMostSums || process.sums.contains(call->communicator);
    Process::Sum& sum = room ? process.sums[call->communicator] : process.sums.begin()->second;
    ++sum.calls;
    const Latency latency = latency_of(*call);
    sum.likely_latency += latency.likely;
    sum.most_latency += latency.most;
    if (!size || !factor || !goes_by_ring(call->function)) {
        ++process.unsized;
        return;
    }
    const double bytes = static_cast<double>(*size) * *factor;
    sum.bus_bytes += bytes;
    sum.best_bytes += bytes / best_over_ring(call->function);
}

std::optional<FlightEstimate> CallTimes::estimate(double gbytes_per_s) const {
    constexpr std::uint64_t kLeastCalls = 20;
    constexpr double kLeastSteps = 10;  // of the stamps: their own error is 10 % then
    constexpr double kMostUnsized = 0.1;
    // NCCL's figures are peaks, and real links give down to half of them (nccl.md 6.6); protocols
    // for short messages have less again. The shortest call: 2.8's base of LL and a hop (6.3).
    constexpr double kLikely = 0.8, kWorst = 0.4;
    constexpr double kLeastLatency = 4e-6;
    constexpr double kGigabyte = 1e9;
    constexpr double kLongestGap = 0.5, kImpossible = 1.05;
    if (!(gbytes_per_s > 0)) return std::nullopt;
    FlightEstimate out;
    for (const auto& entry : processes_) {
        const Process& process = entry.second;
        const double window = process.last - process.first;
        if (process.calls < kLeastCalls || window < kLeastSteps * process.step) continue;
        if (static_cast<double>(process.unsized) >
            kMostUnsized * static_cast<double>(process.calls))
            return std::nullopt;
        double least = 0, likely = 0, most = 0;
        for (const auto& row : process.sums) {
            const Process::Sum& sum = row.second;
            const double rate = gbytes_per_s * kGigabyte;
            // Communicators may be in flight at the same time: at the least the longest alone.
            least = std::max(
                least, sum.best_bytes / rate + static_cast<double>(sum.calls) * kLeastLatency);
            likely += sum.bus_bytes / rate / kLikely + sum.likely_latency;
            most += sum.bus_bytes / rate / kWorst + sum.most_latency;
        }
        if (process.goes_back || process.longest_gap >= kLongestGap * window ||
            least > kImpossible * (window + process.step))
            return std::nullopt;
        out.share += std::min(1.0, likely / window);
        out.low += std::min(1.0, least / (window + process.step));
        out.high += std::min(1.0, most / (window - process.step));
        out.window_seconds += window;
        out.calls += process.calls;
        ++out.processes;
    }
    if (out.processes == 0) return std::nullopt;
    for (double* mean : {&out.share, &out.low, &out.high, &out.window_seconds})
        *mean /= out.processes;
    return out;
}

}  // namespace toporun::launcher
