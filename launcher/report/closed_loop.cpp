#include "launcher/report/closed_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

using Findings = std::vector<env::Finding>;
using Ports = std::vector<std::string>;

bool several_nodes(const RunFacts& facts) {
    return facts.log.node_count.value_or(1) > 1 || facts.log.nodes.size() > 1;
}

/// What of `from` is not in `other`.
Ports missing_ports(const Ports& from, const Ports& other) {
    Ports missing;
    for (const std::string& port : from)
        if (std::find(other.begin(), other.end(), port) == other.end()) missing.push_back(port);
    return missing;
}

/// The list that most hosts have; of several the one of the first host.
Ports usual_ports(const std::map<std::string, Ports>& adapters) {
    std::map<Ports, int> hosts;
    for (const auto& [host, ports] : adapters) ++hosts[ports];
    const Ports* best = nullptr;
    for (const auto& [host, ports] : adapters)
        if (best == nullptr || hosts[ports] > hosts[*best]) best = &ports;
    return best == nullptr ? Ports{} : *best;
}

void add_adapters(const RunFacts& facts, Findings& found) {
    std::map<std::string, Ports> adapters = facts.log.setup.fabric.adapters;
    for (auto& [host, ports] : adapters) std::sort(ports.begin(), ports.end());
    const Ports usual = usual_ports(adapters);
    Ports odd;
    std::string example;
    for (const auto& [host, ports] : adapters) {
        if (ports == usual) continue;
        odd.push_back(host);
        if (!example.empty()) continue;
        const Ports missing = missing_ports(usual, ports), extra = missing_ports(ports, usual);
        example =
            fmt::format("{}:{}{}{}{}", host, missing.empty() ? "" : " without ",
                        join(missing, ", "), extra.empty() ? "" : " with ", join(extra, ", "));
    }
    if (odd.empty()) return;
    env::Finding finding;
    finding.id = "adapter-sets-differ";
    finding.severity = env::Severity::slow;
    finding.what = fmt::format("{} of {} nodes use{} other RDMA ports than the rest", odd.size(),
                               adapters.size(), odd.size() == 1 ? "s" : "");
    finding.evidence = example;
    finding.effect = kAdaptersDifferEffect;
    finding.fix = kAdaptersDifferFix;
    found.push_back(std::move(finding));
}

void add_efa(const RunFacts& facts, Findings& found) {
    const auto& nics = facts.machine.nics;
    const auto efa = std::count_if(nics.begin(), nics.end(), [](const detect::Nic& nic) {
        return nic.kind == detect::NicKind::efa;
    });
    if (efa == 0 || !several_nodes(facts)) return;
    if (facts.log.networks != std::vector<std::string>{"Socket"}) return;
    env::Finding finding;
    finding.id = "efa-not-used";
    finding.severity = env::Severity::slow;
    finding.what =
        fmt::format("NCCL used TCP between nodes although this node has {} EFA adapter{}", efa,
                    efa == 1 ? "" : "s");
    finding.evidence = facts.log.plugins.contains("NET")
                           ? "Using network Socket"
                           : "Using network Socket; no network plugin was loaded";
    finding.effect = "bandwidth between nodes is a fraction of the adapters'";
    finding.fix = "export LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:$LD_LIBRARY_PATH";
    finding.remark =
        "libnccl-net.so of aws-ofi-nccl must be in the container, in a directory that the ranks "
        "search";
    found.push_back(std::move(finding));
}

void add_channel_limit(const RunFacts& facts, Findings& found) {
    constexpr std::array<std::string_view, 3> kLimits = {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS",
                                                         "NCCL_MAX_NRINGS"};
    if (!facts.log.setup.channels) return;
    const int channels = facts.log.setup.channels->coll;
    for (const LogVariable& variable : facts.log.variables) {
        if (std::find(kLimits.begin(), kLimits.end(), variable.name) == kLimits.end()) continue;
        if (variable.values != std::vector<std::string>{fmt::format("{}", channels)}) continue;
        env::Finding finding;
        finding.id = "channels-limited";
        finding.severity = env::Severity::note;
        finding.what =
            fmt::format("{}={} is as many channels as NCCL uses", variable.name, channels);
        finding.evidence = "NCCL's lines on variables and channels";
        finding.effect = "without it NCCL may use more, which are faster and take more of the GPU";
        found.push_back(std::move(finding));
        return;
    }
}

void add_cpus(const RunFacts& facts, Findings& found) {
    const LogAffinity* first = nullptr;
    int gpus = 0;
    for (const LogAffinity& row : facts.log.setup.affinity) {
        if (!row.cpus.empty()) continue;
        if (first == nullptr) first = &row;
        ++gpus;
    }
    if (first == nullptr) return;
    env::Finding finding;
    finding.id = "gpu-cpus-outside-mask";
    finding.severity = env::Severity::slow;
    finding.what =
        fmt::format("{} rank{} no CPU near the GPU", gpus, gpus == 1 ? " may use" : "s may use");
    finding.evidence =
        fmt::format("{}, GPU {}: its CPUs are {}, those of the process {}", first->host,
                    first->device, first->gpu_cpus, first->process_cpus);
    finding.effect = "NCCL's threads and the loaders work across the link between sockets";
    finding.fix =
        "see what binds the ranks: taskset, numactl, the launcher's binding, the job's CPUs";
    found.push_back(std::move(finding));
}

/// The record of the process of that rank, of its last start.
const RankRecord* record_of(const RunFacts& facts, const LogRank& rank) {
    const RankRecord* found = nullptr;
    for (const RankRecord& record : facts.ranks)
        if (record.rank == rank.rank && record.pid == rank.pid &&
            (found == nullptr || record.restart >= found->restart))
            found = &record;
    return found;
}

/// CPUs of a rank when NCCL started against those that the shim started it with.
void add_masks(const RunFacts& facts, Findings& found) {
    for (const LogAffinity& row : facts.log.setup.affinity) {
        if (row.process_cpus.empty()) continue;
        for (const LogRank& rank : facts.log.ranks) {
            if (rank.host != row.host || rank.gpu_index != row.device) continue;
            const RankRecord* record = record_of(facts, rank);
            if (record == nullptr || record->bind != "bound") continue;
            if (record->cpus.text() == row.process_cpus) continue;
            env::Finding finding;
            finding.id = "binding-changed";
            finding.severity = env::Severity::note;
            finding.what = fmt::format("rank {} was started on CPUs {} and used {} when NCCL began",
                                       rank.rank, record->cpus.text(), row.process_cpus);
            finding.evidence = "NCCL's line on CPU affinity";
            finding.effect = "the program binds itself: toporun's binding did not last";
            finding.fix = "toporun --no-bind";
            found.push_back(std::move(finding));
            return;
        }
    }
}

/// A variable that NCCL reads in every run of that kind and did not mention.
void add_unread(const RunFacts& facts, Findings& found) {
    if (!facts.plan.takes_log || facts.log.variables.empty()) return;
    const auto& networks = facts.log.networks;
    const bool ib = std::find(networks.begin(), networks.end(), "IB") != networks.end();
    for (const env::Setting& setting : facts.plan.settings) {
        if (!setting.exported || setting.per_rank || !setting.value) continue;
        const bool reads = (setting.name == "NCCL_P2P_LEVEL" && !facts.log.transports.empty()) ||
                           setting.name == "NCCL_SOCKET_IFNAME" ||
                           (setting.name == "NCCL_IB_HCA" && ib);
        if (!reads) continue;
        const auto same = [&](const LogVariable& seen) { return seen.name == setting.name; };
        if (std::any_of(facts.log.variables.begin(), facts.log.variables.end(), same)) continue;
        env::Finding finding;
        finding.id = "setting-not-read";
        finding.severity = env::Severity::note;
        finding.what = fmt::format("{}={} was exported, NCCL does not say that it read it",
                                   setting.name, *setting.value);
        finding.evidence =
            fmt::format("NCCL's log names {} other variables", facts.log.variables.size());
        finding.effect = "NCCL's default may have held";
        finding.fix = "see that the launcher hands the environment on to the ranks";
        found.push_back(std::move(finding));
    }
}

}  // namespace

void add_closed_loop(const RunFacts& facts, std::vector<env::Finding>& found) {
    add_adapters(facts, found);
    add_efa(facts, found);
    add_channel_limit(facts, found);
    add_cpus(facts, found);
    add_masks(facts, found);
    add_unread(facts, found);
}

}  // namespace toporun::launcher
