#include "launcher/report/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace toporun::launcher {
namespace {

/// Without a log or a ring, was the log at least written where it would have been seen?
bool log_was_watched(const RunFacts& facts) {
    if (!facts.plan.takes_log || !facts.log.notes.empty()) return false;
    if (facts.job.other_hosts && facts.ranks.empty()) return false;
    const auto set = [](const RankRecord& record) { return record.log == "set"; };
    return facts.ranks.empty() || std::any_of(facts.ranks.begin(), facts.ranks.end(), set);
}

std::string percent(double share, int decimals) {
    return fmt::format("{:.{}f} %", share * 100, decimals);
}

/// Decimals that keep the share apart from the limit: 30.4 % is not "30 %, limit 30 %".
int decimals_against(double share, double limit) {
    return std::lround(share * 100) == std::lround(limit * 100) && share != limit ? 1 : 0;
}

std::string unknown_share_reason(const RunFacts& facts) {
    if (!facts.plan.measures) {
        return facts.plan.measure_reason.empty() ? "it was not measured"
                                                 : facts.plan.measure_reason;
    }
    if (!facts.measured.notes.empty()) return facts.measured.notes.front();
    if (facts.measured.operations > 0) return "too few collectives after the warm-up";
    if (facts.log.started() && !facts.log.plugins.contains("PROFILER")) {
        return "NCCL did not load the profiler plugin";
    }
    return "the profiler plugin recorded no collective";
}

std::string parts_text(const RunFacts& facts, int decimals) {
    const profiler::Measured& measured = facts.measured;
    if (!measured.transfer || !measured.waiting) return "transfer and waiting parts unknown";
    std::string text = fmt::format("transfer {}, waiting {}", percent(*measured.transfer, decimals),
                                   percent(*measured.waiting, decimals));
    if (measured.parts_label != measured.label) {
        text += fmt::format(" ({})", profiler::label_text(measured.parts_label));
    }
    return text;
}

/// A number in NCCL's log means a GPU unless this machine is known to have none.
bool may_have_gpu(const RunFacts& facts, const std::string& host) {
    const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
    return !facts.machine.gpus.empty() || first_label(host) != first_label(facts.machine.hostname);
}

}  // namespace

NcclUse nccl_use(const RunFacts& facts) {
    const profiler::Measured& measured = facts.measured;
    if (facts.log.started() || measured.operations > 0 || !measured.ranks.empty()) {
        return NcclUse::started;
    }
    return log_was_watched(facts) ? NcclUse::no_sign : NcclUse::unknown;
}

std::string duration_text(double seconds) {
    if (!(seconds >= 0) || seconds > 1e12) return "an unknown time";
    if (seconds < 10) return fmt::format("{:.2f} s", seconds);
    if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<long long>(std::llround(seconds));
    const long long minutes = whole / 60 % 60;
    if (whole < 3600) return fmt::format("{} min {:02} s", minutes, whole % 60);
    return fmt::format("{} h {:02} min {:02} s", whole / 3600, minutes, whole % 60);
}

std::string end_text(const RunFacts& facts) {
    std::string text = "ended";
    if (facts.exit.signal) {
        const char* name = sigabbrev_np(*facts.exit.signal);
        text += name != nullptr ? fmt::format(" by SIG{}", name)
                                : fmt::format(" by signal {}", *facts.exit.signal);
    } else if (facts.exit.status) {
        text += fmt::format(" with {}", *facts.exit.status);
    } else {
        text += " with an unknown status";
    }
    if (facts.duration_s) text += " after " + duration_text(*facts.duration_s);
    return text;
}

bool share_above_limit(const RunFacts& facts) {
    const profiler::Measured& measured = facts.measured;
    const bool estimated = measured.label == profiler::Label::estimated;
    const auto& certain = estimated ? measured.in_flight_smallest : measured.in_flight;
    return certain && *certain > facts.comm_limit;
}

std::string share_percent(const RunFacts& facts, double share) {
    return percent(share,
                   decimals_against(facts.measured.in_flight.value_or(share), facts.comm_limit));
}

std::string share_text(const RunFacts& facts) {
    const profiler::Measured& measured = facts.measured;
    if (!measured.in_flight) {
        return "collectives in flight: unknown, " + unknown_share_reason(facts);
    }
    const int decimals = decimals_against(*measured.in_flight, facts.comm_limit);
    std::string text =
        fmt::format("collectives in flight {}{} of the time ({}, limit {}): {}",
                    measured.lost > 0 ? "at least " : "", percent(*measured.in_flight, decimals),
                    profiler::label_text(measured.label), percent(facts.comm_limit, 0),
                    parts_text(facts, decimals));
    if (share_above_limit(facts)) return "warning: " + text + ", exposed share unknown";
    return text;
}

std::string rank_text(const RunFacts& facts, int rank) {
    std::string place;
    for (const LogRank& known : facts.log.ranks) {
        if (known.rank != rank) continue;
        place = known.host;
        if (known.gpu_index && may_have_gpu(facts, known.host))
            place += fmt::format(", GPU {}", *known.gpu_index);
    }
    for (const RankRecord& record : facts.ranks) {
        if (!place.empty() || record.rank != rank) continue;
        place = record.host;
    }
    return place.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, place);
}

std::optional<std::string> last_rank_text(const RunFacts& facts) {
    constexpr double kMostly = 0.6;       // remedies R09: last in more than 60 % of collectives
    constexpr double kWorthALine = 0.05;  // of the time spent waiting
    const profiler::Measured& measured = facts.measured;
    if (!measured.last || measured.last->share <= kMostly) return std::nullopt;
    if (!measured.waiting || *measured.waiting < kWorthALine) return std::nullopt;
    return fmt::format("{} arrives last in {} of collectives, the others wait {:.3g} ms each time",
                       rank_text(facts, measured.last->key.rank), percent(measured.last->share, 0),
                       measured.last->behind_seconds * 1e3);
}

}  // namespace toporun::launcher
