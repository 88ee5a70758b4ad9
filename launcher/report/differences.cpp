#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "env/interface_model.hpp"
#include "launcher/report/closed_loop.hpp"
#include "launcher/report/judge.hpp"

namespace toporun::launcher {
namespace {

using Findings = std::vector<env::Finding>;

std::string short_host(const std::string& host) {
    return host.substr(0, host.find('.'));
}

const env::Setting* find_setting(const RunFacts& facts, std::string_view name) {
    for (const env::Setting& setting : facts.plan.settings) {
        if (setting.name == name && setting.value) return &setting;
    }
    return nullptr;
}

/// What NCCL said it took for the variable; nothing when it did not say.
const LogVariable* seen_variable(const RunFacts& facts, std::string_view name) {
    for (const LogVariable& variable : facts.log.variables) {
        if (variable.name == name) return &variable;
    }
    return nullptr;
}

/// The rank that NCCL ran on the GPU at `position` of this machine.
std::optional<int> rank_on_gpu(const RunFacts& facts, int position) {
    const auto& gpus = facts.machine.gpus;
    if (position < 0 || static_cast<std::size_t>(position) >= gpus.size()) return std::nullopt;
    const detect::Gpu& gpu = gpus[static_cast<std::size_t>(position)];
    const std::string host = short_host(facts.machine.hostname);
    for (const LogRank& rank : facts.log.ranks) {
        if (!host.empty() && rank.host != host) continue;
        const bool same = gpu.pci && !rank.pci.empty() ? rank.pci == gpu.pci->text()
                                                       : rank.gpu_index == gpu.index;
        if (same) return rank.rank;
    }
    return std::nullopt;
}

using Transports = std::map<std::pair<int, int>, std::set<std::string>>;

Transports observed_transports(const RunFacts& facts) {
    Transports result;
    for (const LogTransport& row : facts.log.transports) {
        const auto pair = std::minmax(row.from, row.to);
        result[{pair.first, pair.second}].emplace(transport_name(row.transport));
    }
    return result;
}

struct Deviation {
    int pairs = 0;
    std::string planned;
    std::string seen;
    std::string example;  ///< "GPU 0 and GPU 1"
};

/// Pairs of this machine that were connected in another way only, grouped by how.
std::vector<Deviation> deviations(const RunFacts& facts) {
    const Transports observed = observed_transports(facts);
    std::map<std::pair<std::string, std::string>, Deviation> groups;
    for (const env::Pair& pair : facts.plan.pairs) {
        const auto a = rank_on_gpu(facts, pair.a);
        const auto b = rank_on_gpu(facts, pair.b);
        if (!a || !b) continue;
        const auto seen = observed.find(std::minmax(*a, *b));
        if (seen == observed.end() || seen->second.contains(pair.transport)) continue;
        const std::vector<std::string> names(seen->second.begin(), seen->second.end());
        Deviation& group = groups[{pair.transport, join(names, " and ")}];
        if (group.pairs++ == 0) group.example = fmt::format("GPU {} and GPU {}", pair.a, pair.b);
    }
    std::vector<Deviation> result;
    for (auto& [key, group] : groups) {
        group.planned = key.first;
        group.seen = key.second;
        result.push_back(std::move(group));
    }
    return result;
}

std::string p2p_cause(const RunFacts& facts) {
    for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"}) {
        if (const LogVariable* seen = seen_variable(facts, name)) {
            return fmt::format("NCCL saw {}={}", name, join(seen->values, " and "));
        }
    }
    return "the cause is not visible in NCCL's log";
}

void add_transports(const RunFacts& facts, Findings& found) {
    for (const Deviation& row : deviations(facts)) {
        const bool lost = row.planned.starts_with("P2P");
        const std::string more =
            row.pairs > 1 ? fmt::format(" and {} more pairs", row.pairs - 1) : "";
        env::Finding finding;
        finding.id = lost ? "p2p-not-used" : "transport-differs";
        finding.severity = lost ? env::Severity::slow : env::Severity::note;
        finding.what = fmt::format("{} was expected between {}{}, NCCL used {}", row.planned,
                                   row.example, more, row.seen);
        finding.evidence = p2p_cause(facts);
        finding.effect = lost ? "copies go through host memory" : "";
        finding.fix = lost ? "run once without NCCL_P2P_DISABLE and NCCL_P2P_LEVEL and compare the "
                             "results of the training; then look for ACS and IOMMU on the host"
                           : "";
        found.push_back(std::move(finding));
    }
}

void add_interface(const RunFacts& facts, Findings& found) {
    const env::Setting* setting = find_setting(facts, "NCCL_SOCKET_IFNAME");
    if (setting == nullptr) return;
    for (const std::string& name : facts.log.bootstrap_interfaces) {
        if (interface_allowed(*setting->value, name)) continue;
        const LogVariable* seen = seen_variable(facts, "NCCL_SOCKET_IFNAME");
        env::Finding finding;
        finding.id = "bootstrap-interface-differs";
        finding.severity = env::Severity::note;
        finding.what = fmt::format("NCCL_SOCKET_IFNAME={} was set, the bootstrap used {}",
                                   *setting->value, name);
        finding.evidence = seen == nullptr ? "NCCL does not mention the variable in its log"
                                           : fmt::format("NCCL saw NCCL_SOCKET_IFNAME={}",
                                                         join(seen->values, " and "));
        finding.effect = "other nodes may not be reachable through it";
        finding.fix = "see that no script sets NCCL_SOCKET_IFNAME or NCCL_COMM_ID for the ranks";
        found.push_back(std::move(finding));
        return;
    }
}

/// Exported variables that NCCL took with another value. The two before have lines of their own.
void add_overridden(const RunFacts& facts, Findings& found) {
    for (const env::Setting& setting : facts.plan.settings) {
        if (!setting.exported || setting.per_rank || !setting.value) continue;
        if (setting.name == "NCCL_SOCKET_IFNAME") continue;
        const LogVariable* seen = seen_variable(facts, setting.name);
        if (seen == nullptr || seen->values == std::vector<std::string>{*setting.value}) continue;
        env::Finding finding;
        finding.id = "setting-overridden";
        finding.severity = env::Severity::note;
        finding.what = fmt::format("{}={} was exported, NCCL saw {}", setting.name, *setting.value,
                                   join(seen->values, " and "));
        finding.evidence = "NCCL's log";
        finding.effect = "the choice did not take effect on every rank";
        finding.fix = "look for the variable in the scripts between toporun and the program";
        found.push_back(std::move(finding));
    }
}

/// Exported variables that a rank shim found with another value: something between toporun and the
/// rank sets them.
void add_changed(const RunFacts& facts, Findings& found) {
    std::map<std::string, std::vector<int>> ranks_by_name;
    for (const RankRecord& record : facts.ranks)
        for (const std::string& name : record.differs)
            ranks_by_name[name].push_back(record.rank.value_or(0));
    for (const auto& [name, ranks] : ranks_by_name) {
        env::Finding finding;
        finding.id = "variable-changed";
        finding.severity = env::Severity::note;
        finding.what = fmt::format("{} reached {} rank{} with another value than was exported",
                                   printable(name), ranks.size(), ranks.size() == 1 ? "" : "s");
        finding.evidence =
            fmt::format("seen in front of the program, first on rank {}", ranks.front());
        finding.effect = "the choice did not take effect there";
        finding.fix = "look for the variable in the launcher's options and configuration";
        found.push_back(std::move(finding));
    }
}

void add_versions(const RunFacts& facts, Findings& found) {
    const std::vector<std::string>& versions = facts.log.versions;
    env::Finding finding;
    finding.evidence = "version lines of NCCL's log";
    if (versions.size() > 1 && facts.log.versions_in_one) {
        finding.id = "nccl-versions-in-one-process";
        finding.severity = env::Severity::note;
        finding.what =
            fmt::format("one process uses several NCCL libraries: {}", join(versions, ", "));
        finding.effect = "each has communicators of its own: variables and memory count twice";
        finding.fix = "one library where that is not wanted: LD_LIBRARY_PATH, VLLM_NCCL_SO_PATH";
        found.push_back(std::move(finding));
    } else if (versions.size() > 1) {
        finding.id = "nccl-versions-mixed";
        finding.severity = env::Severity::broken;
        finding.what = fmt::format("ranks use different NCCL versions: {}", join(versions, ", "));
        finding.effect = "versions are not made to work together: hangs and wrong sizes";
        finding.fix = "use one container image or environment on every node";
        found.push_back(std::move(finding));
    } else if (versions.size() == 1 && facts.machine.software.nccl_version &&
               versions.front() != *facts.machine.software.nccl_version) {
        finding.id = "nccl-version-differs";
        finding.severity = env::Severity::note;
        finding.what = fmt::format("NCCL {} was found before the start, the program used {}",
                                   *facts.machine.software.nccl_version, versions.front());
        finding.effect = "defaults were judged by another version";
        finding.fix = fmt::format(
            "toporun --dry-run --nccl-version {} COMMAND shows what that version would get",
            versions.front());
        found.push_back(std::move(finding));
    }
}

void add_profiler(const RunFacts& facts, Findings& found) {
    const bool recorded = facts.measured.operations > 0 || !facts.measured.ranks.empty();
    if (!facts.plan.measures || recorded || !facts.log.started()) return;
    if (!facts.plan.takes_log) return;  // the user's own log may leave out the plugins
    if (facts.log.plugins.contains("PROFILER")) return;
    env::Finding finding;
    finding.id = "profiler-not-loaded";
    finding.severity = env::Severity::note;
    finding.what = "NCCL did not load the profiler plugin";
    finding.evidence = "no record of it, and NCCL's log names no profiler plugin";
    finding.effect = "the in-flight share is unknown";
    finding.fix =
        "NCCL 2.23 or later loads NCCL_PROFILER_PLUGIN; see that the ranks can read the file";
    found.push_back(std::move(finding));
}

void add_network(const RunFacts& facts, Findings& found) {
    const bool several_nodes = facts.log.node_count.value_or(1) > 1;
    const auto& networks = facts.log.networks;
    if (!several_nodes || networks != std::vector<std::string>{"Socket"}) return;
    const auto& nics = facts.machine.nics;
    const auto nic = std::find_if(nics.begin(), nics.end(), detect::rdma_usable);
    if (nic == nics.end()) return;
    env::Finding finding;
    finding.id = "socket-despite-rdma";
    finding.severity = env::Severity::slow;
    finding.what = fmt::format("NCCL used TCP between nodes although {} is up", *nic->rdma_device);
    finding.evidence = "Using network Socket";
    finding.effect = "bandwidth between nodes is a fraction of the adapter's";
    finding.fix =
        "see that the container has rdma-core and /dev/infiniband and that NCCL_IB_DISABLE, "
        "NCCL_NET and NCCL_IB_HCA are not set";
    found.push_back(std::move(finding));
}

}  // namespace

bool interface_allowed(const std::string& value, const std::string& name) {
    const env::IfnameList list = env::parse_ifname(value);
    return list.ignored || list.entries.empty() || list.matches(name);
}

std::vector<env::Finding> differences(const RunFacts& facts) {
    Findings found = log_findings(facts);
    add_changed(facts, found);
    if (!facts.log.started()) return found;
    add_versions(facts, found);
    add_transports(facts, found);
    add_network(facts, found);
    add_interface(facts, found);
    add_overridden(facts, found);
    add_profiler(facts, found);
    add_closed_loop(facts, found);
    return found;
}

}  // namespace toporun::launcher
