#include "env/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace toporun::env {
namespace {

using Lines = std::vector<std::string>;

/// Columns of a terminal; of UTF-8 a character each.
std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
}

// --- subjects ---------------------------------------------------------------------------------

enum class Subject { gpus, network, processors, watching, other };

struct Prefix {
    std::string_view name;
    Subject subject;
};

/// The longest prefix decides.
constexpr Prefix kPrefixes[] = {
    {"NCCL_P2P_", Subject::gpus},
    {"NCCL_SHM_", Subject::gpus},
    {"NCCL_NVLS_", Subject::gpus},
    {"NCCL_MNNVL_", Subject::gpus},
    {"NCCL_CUMEM_", Subject::gpus},
    {"NCCL_IGNORE_DISABLED_P2P", Subject::gpus},
    {"CUDA_", Subject::gpus},
    {"HIP_", Subject::gpus},
    {"ROCR_", Subject::gpus},
    {"HSA_", Subject::gpus},
    {"NCCL_SOCKET_", Subject::network},
    {"NCCL_NSOCKS_", Subject::network},
    {"NCCL_IB_", Subject::network},
    {"NCCL_NET", Subject::network},
    {"NCCL_CROSS_NIC", Subject::network},
    {"NCCL_PXN_", Subject::network},
    {"NCCL_DMABUF_", Subject::network},
    {"GLOO_", Subject::network},
    {"TP_", Subject::network},
    {"OMPI_MCA_", Subject::network},
    {"PRTE_MCA_", Subject::network},
    {"UCX_", Subject::network},
    {"FI_", Subject::network},
    {"OFI_", Subject::network},
    {"OMP_", Subject::processors},
    {"MKL_", Subject::processors},
    {"TOPORUN_NUM_WORKERS", Subject::processors},
    {"NCCL_DEBUG", Subject::watching},
    {"NCCL_PROFILER_", Subject::watching},
};

Subject subject_of(std::string_view name) {
    const Prefix* best = nullptr;
    for (const Prefix& prefix : kPrefixes)
        if (name.starts_with(prefix.name) &&
            (best == nullptr || prefix.name.size() > best->name.size()))
            best = &prefix;
    return best == nullptr ? Subject::other : best->subject;
}

std::string_view heading(Subject subject) {
    switch (subject) {
        case Subject::gpus:
            return "between GPUs";
        case Subject::network:
            return "network";
        case Subject::processors:
            return "processors";
        case Subject::watching:
            return "NCCL's log and the measurement";
        case Subject::other:
            break;
    }
    return "other";
}

// --- one decision -----------------------------------------------------------------------------

std::string title(const Setting& setting) {
    if (!setting.value) return fmt::format("{} left alone", setting.name);
    return fmt::format("{}={} ({}{})", setting.name, shell_word(*setting.value),
                       origin_text(setting), setting.per_rank ? ", for each rank" : "");
}

void add_detail(Lines& lines, std::string_view label, const std::string& text) {
    if (text.empty()) return;
    for (std::string& line :
         wrapped(fmt::format("    {:<8} ", label), printable(text), kExplainWidth))
        lines.push_back(std::move(line));
}

/// What happens without each of `group`, told once when it is the same.
std::string without_text(const std::vector<const Setting*>& group) {
    const bool same = std::all_of(group.begin(), group.end(), [&](const Setting* setting) {
        return setting->nccl_default == group.front()->nccl_default;
    });
    if (same) return group.front()->nccl_default;
    Lines parts;
    for (const Setting* setting : group)
        parts.push_back(fmt::format("{}: {}", setting->name, setting->nccl_default));
    return join(parts, "; ");
}

/// Decisions that one reason explains are one paragraph.
void add_group(Lines& lines, const std::vector<const Setting*>& group) {
    for (const Setting* setting : group)
        for (std::string& line : wrapped("  ", printable(title(*setting)), kExplainWidth))
            lines.push_back(std::move(line));
    add_detail(lines, "why", group.front()->reason);
    add_detail(lines, "seen", group.front()->evidence);
    add_detail(lines, "without", without_text(group));
}

void add_settings(Lines& lines, const Plan& plan, Subject subject) {
    std::vector<const Setting*> group;
    const auto flush = [&] {
        if (!group.empty()) add_group(lines, group);
        group.clear();
    };
    for (const Setting& setting : plan.settings) {
        if (subject_of(setting.name) != subject) continue;
        if (!group.empty() && (group.front()->reason != setting.reason ||
                               group.front()->evidence != setting.evidence))
            flush();
        group.push_back(&setting);
    }
    flush();
}

// --- what is no variable ----------------------------------------------------------------------

std::string transports_text(const Plan& plan, std::string Pair::*transport) {
    std::map<std::string, int> counts;
    for (const Pair& pair : plan.pairs) ++counts[pair.*transport];
    Lines parts;
    for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} {}", count, name));
    return join(parts, ", ");
}

void add_pairs(Lines& lines, const Plan& plan) {
    if (plan.pairs.empty()) return;
    const std::string chosen = transports_text(plan, &Pair::transport);
    const std::string usual = transports_text(plan, &Pair::transport_default);
    const std::string pairs = plan.pairs.size() == 1 ? "the pair" : "the pairs";
    lines.push_back(printable(chosen == usual
                                  ? fmt::format("  {}: {}, as by default", pairs, chosen)
                                  : fmt::format("  {}: {}; by default {}", pairs, chosen, usual)));
}

void add_ranks(Lines& lines, const Plan& plan) {
    std::size_t cpu_width = 4;
    bool any = false, near = false;
    for (const RankPlacement& rank : plan.ranks) {
        any = any || rank.gpu || !rank.cpus.empty();
        near = near || !rank.nics.empty();
        cpu_width = std::max(cpu_width, rank.cpus.text().size());
    }
    if (!any) return;
    cpu_width = near ? std::min<std::size_t>(cpu_width, 40) : 0;
    // Not bound, they are where the ranks best run: for those who bind them by other means.
    const std::string heading = plan.binds ? "CPUs" : "CPUs that fit";
    cpu_width = near ? std::max(cpu_width, heading.size()) : 0;
    lines.push_back(fmt::format("  rank  GPU  NUMA  {:<{}}{}", heading, cpu_width,
                                near ? "  adapters near it" : ""));
    const auto number = [](const std::optional<int>& value) {
        return value ? std::to_string(*value) : std::string("-");
    };
    for (const RankPlacement& rank : plan.ranks) {
        const std::string cpus = rank.cpus.empty() ? "any" : rank.cpus.text();
        const std::string start = fmt::format("  {:>4}  {:>3}  {:>4}  ", rank.local_rank,
                                              number(rank.gpu), number(rank.numa_node));
        const std::string rest =
            near ? fmt::format("{:<{}}  {}", cpus, cpu_width, printable(join(rank.nics, ", ")))
                 : cpus;
        lines.push_back(start + std::string(rest.substr(0, rest.find_last_not_of(' ') + 1)));
    }
}

void add_stage(Lines& lines, std::string_view name, bool on, const std::string& reason) {
    const std::string text =
        (on ? "yes" : "no") + (reason.empty() ? std::string() : ", " + printable(reason));
    for (std::string& line : wrapped(fmt::format("  {}: ", name), text, kExplainWidth))
        lines.push_back(std::move(line));
}

std::string binding_text(const Plan& plan) {
    const bool memory = std::any_of(plan.ranks.begin(), plan.ranks.end(),
                                    [](const auto& rank) { return rank.memory_node.has_value(); });
    const std::string how = plan.bind == Bind::numa   ? "NUMA nodes shared: "
                            : plan.bind == Bind::core ? "a share of cores each: "
                                                      : "";
    return how + plan.bind_reason +
           (plan.binds && memory ? "; memory is taken from the rank's NUMA node where it can be"
                                 : "");
}

void add_findings(Lines& lines, const Plan& plan) {
    std::vector<Finding> findings = plan.findings;
    std::stable_sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
        return static_cast<int>(a.severity) < static_cast<int>(b.severity);
    });
    if (!findings.empty()) lines.emplace_back("findings");
    for (const Finding& finding : findings) {
        const std::string text =
            fmt::format("{}: {} [{}]", severity_text(finding.severity), finding.what, finding.id);
        for (std::string& line : wrapped("  ", printable(text), kExplainWidth))
            lines.push_back(std::move(line));
        add_detail(lines, "where", finding.where);
        add_detail(lines, "seen", finding.evidence);
        add_detail(lines, "effect", finding.effect);
        add_detail(lines, "fix", fix_text(finding));
    }
}

void add_subject(Lines& lines, const Plan& plan, Subject subject) {
    const std::size_t before = lines.size();
    lines.emplace_back(heading(subject));
    add_settings(lines, plan, subject);
    if (subject == Subject::gpus) add_pairs(lines, plan);
    if (subject == Subject::processors) {
        add_stage(lines, "ranks bound to CPUs", plan.binds, binding_text(plan));
        add_ranks(lines, plan);
    }
    if (subject == Subject::watching) {
        add_stage(lines, "NCCL's log taken", plan.takes_log, plan.log_reason);
        add_stage(lines, "communication measured", plan.measures, plan.measure_reason);
    }
    if (lines.size() == before + 1) lines.pop_back();
}

}  // namespace

std::vector<std::string> wrapped(std::string_view first, std::string_view text, std::size_t width) {
    Lines lines;
    const std::string indent(columns(first), ' ');
    std::string line(first);
    bool empty = true;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string_view word = text.substr(at, end - at);
        at = end + 1;
        if (word.empty()) continue;
        if (!empty && columns(line) + 1 + columns(word) > width) {
            lines.push_back(std::move(line));
            line = indent;
            empty = true;
        }
        if (!empty) line += ' ';
        line += word;
        empty = false;
    }
    lines.push_back(std::move(line));
    return lines;
}

std::vector<std::string> explain_lines(const Plan& plan) {
    Lines lines;
    for (const UsedProfile& profile : plan.profiles)
        for (std::string& line : wrapped("profile: ", profile_text(profile), kExplainWidth))
            lines.push_back(std::move(line));
    for (const Subject subject :
         {Subject::gpus, Subject::network, Subject::processors, Subject::watching, Subject::other})
        add_subject(lines, plan, subject);
    add_findings(lines, plan);
    return lines;
}

}  // namespace toporun::env
