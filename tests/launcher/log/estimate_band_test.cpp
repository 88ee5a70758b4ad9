#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/log/call_times.hpp"

/// The estimated in-flight share against a known one: calls last as long as the tuning table of the
/// real library says for the machine, which knows of algorithms and protocols what the estimate
/// does not.
namespace {

namespace fs = std::filesystem;
namespace nccl = toporun::detect::nccl_log;
using toporun::launcher::CallTimes;

struct Cell {
    std::string algorithm;
    std::size_t protocol;  ///< 0 LL, 1 LL128, 2 Simple
    double latency_us, gbytes_per_s;
};

struct Tuning {
    std::map<std::string, std::vector<Cell>> functions;
    double ring_gbytes_per_s = 0;
    int channels = 0, ranks = 0, nodes = 0;
};

/// The first communicator's of a log.
Tuning read_tuning(const fs::path& file) {
    Tuning tuning;
    std::vector<std::string> algorithms;
    std::set<std::pair<std::string, std::string>> seen;
    std::optional<nccl::Pattern> ring;
    std::ifstream in(file);
    for (std::string text; std::getline(in, text);) {
        const nccl::Line line = nccl::parse_line(text);
        constexpr int kRing = 4;
        if (const auto* pattern = std::get_if<nccl::Pattern>(&line.event))
            if (pattern->pattern == kRing && !ring) ring = *pattern;
        if (const auto* names = std::get_if<nccl::TuningAlgorithms>(&line.event))
            algorithms = names->names;
        if (const auto* row = std::get_if<nccl::TuningRow>(&line.event)) {
            if (algorithms.empty() || row->cells.size() != 3 * algorithms.size()) continue;
            // Further communicators have tables of their own.
            if (!seen.emplace(row->function, algorithms.front()).second) continue;
            for (std::size_t i = 0; i < row->cells.size(); ++i)
                if (row->cells[i].second > 0)
                    tuning.functions[row->function].push_back(
                        {algorithms[i / 3], i % 3, row->cells[i].first, row->cells[i].second});
        }
        const std::size_t at = text.find(" nRanks ");
        if (tuning.ranks == 0 && at != text.npos)
            std::sscanf(text.c_str() + at, " nRanks %d nNodes %d", &tuning.ranks, &tuning.nodes);
    }
    if (!ring) return tuning;
    tuning.channels = ring->channels;
    tuning.ring_gbytes_per_s =
        ring->channels * (tuning.nodes > 2 ? ring->inter_gbytes_per_s : ring->intra_gbytes_per_s);
    return tuning;
}

/// Of a tree's bandwidth by log2(bytes / 64) (nccl.md 6.4).
constexpr std::array<std::array<double, 24>, 3> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

/// Seconds of a call of 2^power bytes by NCCL's choice (nccl.md 6.1), on links that give
/// `efficiency` of what the table says.
double call_seconds(const Tuning& tuning, const std::string& function, int power,
                    double efficiency) {
    const double bytes = std::ldexp(1.0, power);
    double best_us = INFINITY, taken_us = 0;
    for (const Cell& cell : tuning.functions.at(function)) {
        double latency = cell.latency_us, rate = cell.gbytes_per_s;
        constexpr int kFirst = 6, kLast = 29;
        if (cell.algorithm == "Tree" && power >= kFirst && power <= kLast)
            rate *= kTreeCorrection[cell.protocol][static_cast<std::size_t>(power - kFirst)];
        if (cell.algorithm == "Ring" && cell.protocol == 2 && tuning.nodes > 1 &&
            function == "AllReduce" && bytes / (tuning.channels * tuning.ranks) >= 64)
            latency *= 1.4;
        const double transfer = bytes / (1000 * rate);
        if (latency + transfer >= best_us) continue;
        best_us = latency + transfer;
        taken_us = latency + transfer / efficiency;
    }
    return taken_us * 1e-6;
}

/// One call at `seconds` past midnight, with a count of elements of a byte.
std::string call_line(const std::string& function, std::uint64_t bytes, const Tuning& tuning,
                      double seconds) {
    const bool parts = function == "AllGather" || function == "ReduceScatter";
    const auto whole = static_cast<long long>(seconds);
    return fmt::format(
        "2026-11-30T{:02}:{:02}:{:02}.{:09}Z node-a:7:7 [0] NCCL INFO {}: opCount 1f sendbuff "
        "0x7f1 recvbuff 0x7f2 count {} datatype 0 op 0 root 0 comm 0x1 [nranks={}] stream 0x56\n",
        whole / 3600, whole / 60 % 60, whole % 60,
        static_cast<long long>((seconds - static_cast<double>(whole)) * 1e9), function,
        parts ? bytes / static_cast<std::uint64_t>(tuning.ranks) : bytes, tuning.ranks);
}

struct Call {
    std::string function;
    int power;  ///< log2 of the size in bytes
};

/// A job that makes these calls by turns and is in flight for `share` of its time; what is
/// estimated of its log.
std::optional<toporun::launcher::FlightEstimate> estimate_of(const Tuning& tuning,
                                                             const std::vector<Call>& calls,
                                                             double efficiency, double share) {
    CallTimes times;
    double now = 0;
    constexpr int kCalls = 60;
    for (int i = 0; i <= kCalls; ++i) {
        const Call& call = calls[static_cast<std::size_t>(i) % calls.size()];
        times.add_lines(call_line(call.function, std::uint64_t{1} << call.power, tuning, now));
        now += call_seconds(tuning, call.function, call.power, efficiency) / share;
    }
    return times.estimate(tuning.ring_gbytes_per_s);
}

std::vector<std::pair<std::string, Tuning>> tunings() {
    const fs::path logs = fs::path(TOPORUN_SHARED) / "logs/rig";
    std::vector<std::pair<std::string, Tuning>> found;
    std::error_code absent;
    for (fs::directory_iterator at(logs, absent), end; !absent && at != end; at.increment(absent)) {
        Tuning tuning = read_tuning(at->path() / "rank-0.log");
        if (tuning.ring_gbytes_per_s > 0 && tuning.ranks > 1 && !tuning.functions.empty())
            found.emplace_back(at->path().filename().string(), std::move(tuning));
    }
    return found;
}

TEST_CASE("the band holds the share that NCCL's own tuning gives, whatever is called") {
    const auto all = tunings();
    if (all.empty()) {
        MESSAGE("skipped: no logs of the real NCCL in " TOPORUN_SHARED "/logs/rig");
        return;
    }
    constexpr double kShare = 0.25;
    int inside = 0;
    for (const auto& entry : all)
        for (const auto& function : entry.second.functions)
            for (const double efficiency : {1.0, 0.9})
                for (int power = 6; power <= 30; ++power) {
                    if (function.first == "Reduce") continue;  // as Broadcast
                    CAPTURE(entry.first);
                    CAPTURE(function.first);
                    CAPTURE(power);
                    CAPTURE(efficiency);
                    const auto estimate =
                        estimate_of(entry.second, {{function.first, power}}, efficiency, kShare);
                    REQUIRE(estimate);
                    CHECK(estimate->low <= kShare);
                    CHECK(estimate->high >= kShare);
                    ++inside;
                }
    CHECK(inside > 1000);
}

TEST_CASE("the band holds the share of jobs on links that give less than NCCL's model") {
    const auto all = tunings();
    if (all.empty()) {
        MESSAGE("skipped: no logs of the real NCCL in " TOPORUN_SHARED "/logs/rig");
        return;
    }
    const std::vector<std::vector<Call>> jobs = {
        // Buckets of DDP, the scalars of a loss, and FSDP's shards.
        {{"AllReduce", 23}, {"AllReduce", 24}, {"AllReduce", 25}, {"AllReduce", 6}},
        {{"AllGather", 26}, {"AllGather", 26}, {"ReduceScatter", 27}, {"AllReduce", 8}},
        {{"Broadcast", 12}, {"AllReduce", 20}, {"AllGather", 18}, {"ReduceScatter", 28}}};
    for (const auto& entry : all)
        for (const std::vector<Call>& job : jobs)
            for (const double efficiency : {1.0, 0.8, 0.7, 0.6})
                for (const double share : {0.05, 0.4}) {
                    CAPTURE(entry.first);
                    CAPTURE(job.front().power);
                    CAPTURE(efficiency);
                    CAPTURE(share);
                    const bool known = std::all_of(job.begin(), job.end(), [&](const Call& call) {
                        return entry.second.functions.contains(call.function);
                    });
                    if (!known) continue;
                    const auto estimate = estimate_of(entry.second, job, efficiency, share);
                    REQUIRE(estimate);
                    CHECK(estimate->low <= share);
                    CHECK(estimate->high >= share);
                }
}

}  // namespace
