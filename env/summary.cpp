#include "env/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "env/inputs.hpp"
#include "env/matrix.hpp"

namespace toporun::env {
namespace {

constexpr std::size_t kWidth = 159 - 9;  // "toporun: " stands before each line

const Setting* find(const Plan& plan, std::string_view name) {
    for (const Setting& setting : plan.settings)
        if (setting.name == name) return &setting;
    return nullptr;
}

/// `text` in at most `width` columns, cut at the end with "...".
std::string cut(std::string text, std::size_t width) {
    if (text.size() <= width) return text;
    std::size_t end = width - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    // Between two words, unless the last one is very long.
    if (const std::size_t blank = text.rfind(' ', end); blank != std::string::npos)
        if (blank > width / 2) end = blank;
    return text.substr(0, end) + "...";
}

/// "NCCL_P2P_LEVEL=NVL", with "(yours)" for the user's own; "" when nothing is set.
std::string assignment(const Setting* setting) {
    if (setting == nullptr || !setting->value) return "";
    const std::string text =
        fmt::format("{}={}", setting->name, cut(printable(*setting->value), 24));
    if (setting->origin == Origin::user) return text + " (yours)";
    if (setting->origin == Origin::conf) return text + " (conf file)";
    return text;
}

std::string pairs_text(const Plan& plan) {
    std::map<std::string, int> transports;
    bool all_nvl = !plan.pairs.empty();
    for (const Pair& pair : plan.pairs) {
        ++transports[pair.transport];
        all_nvl = all_nvl && pair.path == detect::PathType::NVL && pair.transport == "P2P";
    }
    if (all_nvl) return plan.pairs.size() == 1 ? "the pair NVL" : "every pair NVL";
    std::vector<std::string> parts;
    for (const auto& [transport, count] : transports)
        parts.push_back(transports.size() == 1
                            ? "every pair " + transport
                            : fmt::format("{} pair{} {}", count, count == 1 ? "" : "s", transport));
    return join(parts, ", ");
}

std::string p2p_text(const detect::Machine& machine, const Plan& plan) {
    if (machine.gpus.empty()) return "P2P: nothing to choose";
    std::string text = "P2P: ";
    std::string pairs = pairs_text(plan);
    const PairMatrix matrix(machine);
    if (std::any_of(plan.pairs.begin(), plan.pairs.end(),
                    [&](const Pair& pair) { return !matrix.links_told(pair.a, pair.b); }))
        pairs += " where no NVLink joins them";
    if (!pairs.empty()) text += pairs + ", ";
    const std::string disable = assignment(find(plan, kP2pDisable));
    const std::string level = assignment(find(plan, kP2pLevel));
    if (!disable.empty()) return text + disable;
    return text + (level.empty() ? "left to NCCL" : level);
}

/// Which GPU each rank gets where toporun chose them, by nvidia-smi's numbers; "" elsewhere.
std::string gpus_text(const detect::Machine& machine, const Plan& plan) {
    const auto chosen = [&](const char* name) {
        const Setting* setting = find(plan, name);
        return setting != nullptr && setting->exported;
    };
    if (!chosen(kCudaVisibleDevices) && !chosen("HIP_VISIBLE_DEVICES")) return "";
    std::vector<std::string> numbers;
    for (const RankPlacement& rank : plan.ranks)
        if (rank.gpu)
            numbers.push_back(
                std::to_string(machine.gpus[static_cast<std::size_t>(*rank.gpu)].index));
    return fmt::format("ranks 0 to {} on GPUs {} ({})", numbers.size() - 1, join(numbers, ","),
                       chosen(kCudaVisibleDevices) ? kCudaVisibleDevices : "HIP_VISIBLE_DEVICES");
}

std::string interface_text(const Plan& plan) {
    const std::string own = assignment(find(plan, kSocketIfname));
    if (!own.empty()) return "interface: " + own;
    if (plan.interfaces.empty()) return "interface: left to NCCL";
    return fmt::format("interface: left to NCCL ({})",
                       cut(printable(join(plan.interfaces, ", ")), 32));
}

std::size_t cores_in(const detect::Machine& machine, const detect::CpuSet& cpus) {
    if (machine.cpu.cores.empty()) return static_cast<std::size_t>(cpus.count());
    return static_cast<std::size_t>(
        std::count_if(machine.cpu.cores.begin(), machine.cpu.cores.end(),
                      [&](const detect::Core& core) { return !(core.pus & cpus).empty(); }));
}

std::string binding_text(const detect::Machine& machine, const Plan& plan) {
    if (!plan.binds) {
        if (plan.bind_reason.empty()) return "";
        return "ranks not bound to CPUs: " + plan.bind_reason;
    }
    int bound = 0;
    std::size_t least = 0, most = 0;
    for (const RankPlacement& rank : plan.ranks) {
        if (rank.cpus.empty()) continue;
        const std::size_t cores = cores_in(machine, rank.cpus);
        least = bound == 0 ? cores : std::min(least, cores);
        most = std::max(most, cores);
        ++bound;
    }
    const bool by_numa = machine.cpu.numa_nodes.size() > 1 &&
                         std::all_of(plan.ranks.begin(), plan.ranks.end(), [](const auto& rank) {
                             return rank.cpus.empty() || rank.numa_node;
                         });
    const bool shared = plan.bind == Bind::numa;
    const std::string_view tail = shared ? " shared" : " each";
    const std::string cores =
        least == most ? fmt::format("{} core{}{}", least, least == 1 ? "" : "s", tail)
                      : fmt::format("{} to {} cores{}", least, most, shared ? tail : "");
    return fmt::format("{} ranks bound{}, {}", bound, by_numa ? " by NUMA" : "", cores);
}

std::string threads_text(const Plan& plan) {
    const std::string own = assignment(find(plan, "OMP_NUM_THREADS"));
    return own.empty() ? "OMP_NUM_THREADS left alone" : own;
}

std::string loaders_text(const Plan& plan) {
    const Setting* setting = find(plan, "TOPORUN_NUM_WORKERS");
    if (setting != nullptr && setting->origin == Origin::user) return assignment(setting);
    if (!plan.ranks_per_node || !plan.workers.loader_workers) return "no advice on loader workers";
    const int most = *plan.workers.loader_workers;
    return most == 0 ? "no core to spare for loader workers"
                     : fmt::format("up to {} loader worker{} per rank", most, most == 1 ? "" : "s");
}

std::string shares_unknown_text(const Job& job) {
    std::string reason = "how many ranks will run is not known";
    if (!job.same_host && !job.why_not_here.empty())
        reason = job.why_not_here;
    else if (!job.ranks_word.empty())
        reason = fmt::format("how many ranks '{}' means here is not known", job.ranks_word);
    return "CPU binding, threads and loader workers: left as they are, " + printable(reason);
}

/// Nothing can be divided and nothing of it is the user's: one line says that better than three.
bool shares_unknown(const Plan& plan) {
    if (plan.ranks_per_node || plan.binds) return false;
    return assignment(find(plan, "OMP_NUM_THREADS")).empty() &&
           assignment(find(plan, "TOPORUN_NUM_WORKERS")).empty();
}

}  // namespace

std::string profile_text(const UsedProfile& profile) {
    return printable(
        fmt::format("{} ({}), known by {}", profile.name, profile.title, profile.evidence));
}

std::vector<std::string> plan_lines(const Job& job, const detect::Machine& machine,
                                    const Plan& plan) {
    std::string first = fmt::format("{}; {}", p2p_text(machine, plan), interface_text(plan));
    if (shares_unknown(plan))
        return {cut(std::move(first), kWidth), cut(shares_unknown_text(job), kWidth)};
    std::vector<std::string> lines = {
        std::move(first), fmt::format("{}, {}", threads_text(plan), loaders_text(plan))};
    const std::string binding = printable(binding_text(machine, plan));
    const auto room = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.size() + 2 + binding.size() <= kWidth;
    });
    if (room != lines.end() && !binding.empty())
        *room += "; " + binding;
    else if (!binding.empty())
        lines.insert(lines.begin() + 1, binding);
    if (const std::string gpus = gpus_text(machine, plan); !gpus.empty())
        lines.insert(lines.begin() + 1, gpus);
    for (std::string& line : lines) line = cut(std::move(line), kWidth);
    return lines;
}

}  // namespace toporun::env
