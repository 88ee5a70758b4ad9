#include <fmt/format.h>

#include <algorithm>

#include "launcher/report/judge.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kSteps = 3;

/// The range of what a step can save: at least nothing, at most all of `share` (the exposed part is
/// not known). Lost records make a share too small, so that it bounds nothing from above.
std::string gain_text(const RunFacts& facts, double share) {
    if (facts.measured.lost > 0) return "the gain is unknown, records were lost";
    const bool estimated = facts.measured.label == profiler::Label::estimated;
    return fmt::format("0 to {} less time ({})", share_percent(facts, share),
                       estimated ? "estimated" : "bounded");
}

/// Mean size of an operation in bytes; nothing when no size is known.
std::optional<double> mean_size_bytes(const RunFacts& facts) {
    double bytes = 0;
    double count = 0;
    for (const profiler::OperationRow& row : facts.measured.rows) {
        if (row.size_class == 0) continue;
        bytes += static_cast<double>(row.bytes);
        count += static_cast<double>(row.count);
    }
    if (count <= 0) return std::nullopt;
    return bytes / count;
}

void add_waiting_step(const RunFacts& facts, std::vector<std::string>& steps) {
    const std::string gain = gain_text(facts, facts.measured.waiting.value_or(0));
    if (last_rank_text(facts)) {
        steps.push_back(
            fmt::format("compare {} with the others: clocks, CPU binding, data loading, "
                        "work per step: {}",
                        rank_text(facts, facts.measured.last->key.rank), gain));
    } else {
        steps.push_back(
            fmt::format("even out the work of the ranks (samples of like length together, "
                        "the same garbage collection step everywhere): {}",
                        gain));
    }
}

void add_transfer_step(const RunFacts& facts, std::vector<std::string>& steps) {
    constexpr double kSmall = 1 << 20;  // latency-bound below, remedies R03
    const std::string gain =
        gain_text(facts, facts.measured.transfer.value_or(*facts.measured.in_flight));
    const std::optional<double> mean = mean_size_bytes(facts);
    if (mean && *mean < kSmall) {
        steps.push_back(
            fmt::format("fewer, larger collectives (bucket_cap_mb=100 with DDP, larger FSDP "
                        "units): they are {:.0f} KiB on average: {}",
                        *mean / 1024, gain));
    } else if (facts.log.node_count.value_or(1) > 1) {
        steps.push_back(fmt::format(
            "shard within a node and replicate across, or overlap collectives with compute: {}",
            gain));
    } else {
        steps.push_back(
            fmt::format("overlap collectives with compute, reduce in bf16, or accumulate "
                        "gradients over more micro-batches: {}",
                        gain));
    }
}

void add_share_steps(const RunFacts& facts, std::vector<std::string>& steps) {
    const double waiting = facts.measured.waiting.value_or(0);
    const double transfer = facts.measured.transfer.value_or(*facts.measured.in_flight);
    constexpr double kWorthAStep = 0.02;  // smaller gains are left out, remedies 0.2
    if (waiting > transfer) add_waiting_step(facts, steps);
    if (transfer >= kWorthAStep) add_transfer_step(facts, steps);
    if (waiting <= transfer && waiting >= kWorthAStep) add_waiting_step(facts, steps);
}

void add_fixes(const std::vector<env::Finding>& findings, env::Severity severity,
               std::vector<std::string>& steps) {
    for (const env::Finding& finding : findings) {
        if (finding.severity == severity && !finding.fix.empty())
            steps.push_back(env::fix_text(finding));
    }
}

bool failed(const RunFacts& facts) {
    return facts.exit.status.value_or(0) != 0;
}

void add_failure_step(const RunFacts& facts, std::vector<std::string>& steps) {
    if (facts.failure && !facts.failure->from_status_only) {
        steps = facts.failure->advice;
        return;
    }
    if (!failed(facts) || facts.log.warnings.empty()) return;
    const LogWarning& first = facts.log.warnings.front();
    const std::string who = first.rank ? rank_text(facts, *first.rank)
                                       : fmt::format("process {} on {}", first.pid, first.host);
    steps.push_back(fmt::format("read NCCL's first warning, of {}: {}", who, first.text));
}

void add_unknown_share_step(const RunFacts& facts, std::vector<std::string>& steps) {
    if (facts.measured.in_flight || !facts.plan.measure_on_demand) return;
    steps.push_back("run once with --measure=always to learn how long collectives are in flight");
}

}  // namespace

std::vector<std::string> next_steps(const RunFacts& facts) {
    std::vector<std::string> steps;
    add_failure_step(facts, steps);
    if (nccl_use(facts) != NcclUse::started) return steps;
    const std::vector<env::Finding> found = differences(facts);
    add_fixes(facts.plan.findings, env::Severity::broken, steps);
    add_fixes(found, env::Severity::broken, steps);
    add_fixes(found, env::Severity::slow, steps);
    add_fixes(facts.plan.findings, env::Severity::slow, steps);
    if (share_above_limit(facts)) add_share_steps(facts, steps);
    add_unknown_share_step(facts, steps);
    add_fixes(found, env::Severity::note, steps);
    constexpr double kNotTheLimit = 0.15;  // whatever limit the user asked to be warned at
    const profiler::Measured& measured = facts.measured;
    const double most = measured.label == profiler::Label::estimated
                            ? measured.in_flight_largest.value_or(1)
                            : measured.in_flight.value_or(1);
    if (steps.empty() && most < kNotTheLimit && facts.measured.lost == 0) {
        steps.push_back("communication is not the limit here: look at compute and data loading");
    }
    if (steps.empty()) steps.push_back("read the report for what NCCL chose and why");
    if (steps.size() > kSteps) steps.resize(kSteps);
    return steps;
}

}  // namespace toporun::launcher
