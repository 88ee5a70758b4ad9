// Sources: torch/distributed/run.py, elastic/rendezvous/static_tcp_rendezvous.py and
// c10d_rendezvous_backend.py, 1.13 to 2.9; each option of torchrun is read from PET_<NAME> too.
#include "launcher/fill/fill_in.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "env/filled_in.hpp"
#include "env/inputs.hpp"
#include "launcher/command/families.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

/// The host of an endpoint, as torchrun puts its own together: "[fd00::1]" for IPv6.
std::string host_text(const Rendezvous& rendezvous) {
    return rendezvous.address.find(':') != std::string::npos
               ? fmt::format("[{}]", rendezvous.address)
               : rendezvous.address;
}

/// "10.0.0.1:20001", "[fd00::1]:20001".
std::string endpoint_text(const Rendezvous& rendezvous) {
    return fmt::format("{}:{}", host_text(rendezvous), rendezvous.port);
}

/// In front of srun the step has no number yet.
std::string job_id(const Environment& environment, long long process) {
    const std::string step = variable(environment, "SLURM_STEP_ID");
    return fmt::format("{}.{}", variable(environment, "SLURM_JOB_ID"),
                       step.empty() ? fmt::format("p{}", process) : step);
}

Finding filled_in_finding(const Gaps& gaps, const Rendezvous& rendezvous) {
    return {"rendezvous-filled-in",
            Severity::note,
            fmt::format(
                "torchrun is told of {} nodes that meet at {}{}", gaps.nodes,
                printable(endpoint_text(rendezvous)),
                gaps.rendezvous.c10d ? std::string() : fmt::format(", this is node {}", gaps.node)),
            gaps.evidence,
            "without it each node would be a job of its own, or none would start",
            "--leave rendezvous",
            "",
            "where each node is meant to be a job of its own"};
}

FilledIn fill_in_rendezvous(const Gaps& gaps, const RendezvousFacts& facts,
                            const Rendezvous& rendezvous, const Environment& environment,
                            const FillOptions& options) {
    FilledIn filled;
    const RendezvousGap& gap = gaps.rendezvous;
    const std::string without = "torchrun takes one node, 127.0.0.1:29500 and node rank 0";
    const auto add = [&](bool wanted, const char* name, const std::string& value,
                         const std::string& reason) {
        if (wanted)
            filled.settings.push_back(filled_setting(name, value, reason, gaps.evidence, without,
                                                     false, environment, options));
    };
    add(gap.nodes, "PET_NNODES", std::to_string(gaps.nodes),
        "the nodes of the step, one torchrun on each");
    add(gap.backend, "PET_RDZV_BACKEND", "c10d",
        gaps.by_srun ? "it finds the ranks of nodes by itself"
                     : "workers or nodes may be started again");
    add(gap.node_rank, "PET_NODE_RANK", std::to_string(gaps.node),
        "this node's place in the step: ranks follow Slurm's order of nodes");
    add(gap.address, "PET_MASTER_ADDR", host_text(rendezvous), rendezvous.reason);
    add(gap.port, "PET_MASTER_PORT", std::to_string(rendezvous.port),
        "follows from the job's and the step's number");
    add(gap.endpoint, "PET_RDZV_ENDPOINT", endpoint_text(rendezvous), rendezvous.reason);
    add(gap.id, "PET_RDZV_ID", job_id(environment, facts.process),
        gaps.by_srun ? "the job's number and this process" : "the job's and the step's number");
    // torchrun compares the endpoint with what the host's name resolves to, which is another
    // address on hosts with several (_matches_machine_hostname).
    add(gap.conf, "PET_RDZV_CONF", fmt::format("is_host={}", gaps.task == 0 ? 1 : 0),
        gaps.task == 0 ? "the first node holds the store" : "the first node holds the store alone");
    if (gap.nodes || gap.address || gap.endpoint)
        filled.findings.push_back(filled_in_finding(gaps, rendezvous));
    return filled;
}

/// Two jobs of a host do not fit on torchrun's one default port.
FilledIn fill_in_port(const Gaps& gaps, const RendezvousFacts& facts, const Rendezvous& rendezvous,
                      const Environment& environment, const FillOptions& options) {
    constexpr int kDefaultPort = 29500;
    FilledIn filled;
    if (!facts.listening.contains(kDefaultPort)) return filled;
    filled.settings.push_back(filled_setting(
        "PET_MASTER_PORT", std::to_string(rendezvous.port),
        fmt::format("port {}, torchrun's default, is in use on this host", kDefaultPort),
        gaps.evidence, "torchrun stops: 'Address already in use'", false, environment, options));
    return filled;
}

/// Each host would come to another address, or to none.
Finding ranks_unknown_finding(const Gaps& gaps, const std::string& reason) {
    return {"rank-variables-unknown",
            Severity::note,
            fmt::format("RANK, WORLD_SIZE, MASTER_ADDR and the like are left to the program: {}",
                        reason),
            gaps.evidence,
            "torch.distributed asks for them and stops (env://), unless the program sets them",
            "export MASTER_ADDR=ADDRESS",
            "",
            "with an address of the host of rank 0: the rest is filled in then"};
}

void add_rendezvous_findings(const RendezvousFacts& facts, const Rendezvous& rendezvous,
                             std::vector<Finding>& findings) {
    if (!rendezvous.certain)
        findings.push_back(
            {"rendezvous-unresolved", Severity::broken,
             fmt::format("the name of the first node, {}, does not resolve here",
                         printable(rendezvous.address)),
             facts.addresses.empty()
                 ? fmt::format("{}: nothing", facts.source)
                 : fmt::format("{}: {}", facts.source, join(facts.addresses, ", ")),
             "this node cannot connect to it, the start times out",
             "export MASTER_ADDR=$(ip -4 -o addr show scope global | awk '{print $4; exit}' | cut "
             "-d/ -f1)",
             "",
             "in the job script, which runs on the first node; or enter the nodes' names in "
             "DNS or /etc/hosts"});
    if (rendezvous.port_taken)
        findings.push_back(
            {"rendezvous-port-taken", Severity::broken,
             fmt::format("port {} of the job is in use on this node, the first", rendezvous.port),
             "/proc/net/tcp: LISTEN", "rank 0 cannot listen: 'Address already in use'",
             fmt::format("export MASTER_PORT={}", rendezvous.port + 1), "",
             "in the job script, before the launch: the same on all nodes"});
}

}  // namespace

bool is_left(const FillOptions& options, std::string_view name) {
    return std::find(options.leave.begin(), options.leave.end(), name) != options.leave.end();
}

bool is_left(const FillOptions& options, const Gaps& gaps, const Environment& environment) {
    const RendezvousGap& gap = gaps.rendezvous;
    const bool ranks = gaps.gap == Gap::ranks;
    if (is_left(options, ranks ? env::kRanksGroup : env::kRendezvousGroup)) return true;
    // Without PET_MASTER_PORT, PET_RDZV_ID and PET_RDZV_CONF all nodes take the same defaults.
    const std::pair<bool, const char*> names[] = {{ranks, "RANK"},
                                                  {ranks, "WORLD_SIZE"},
                                                  {ranks, "LOCAL_RANK"},
                                                  {ranks, "LOCAL_WORLD_SIZE"},
                                                  {ranks, "MASTER_ADDR"},
                                                  {ranks, "MASTER_PORT"},
                                                  {gap.nodes, "PET_NNODES"},
                                                  {gap.backend, "PET_RDZV_BACKEND"},
                                                  {gap.node_rank, "PET_NODE_RANK"},
                                                  {gap.address, "PET_MASTER_ADDR"},
                                                  {gap.endpoint, "PET_RDZV_ENDPOINT"}};
    return std::any_of(std::begin(names), std::end(names), [&](const auto& name) {
        return name.first && is_left(options, name.second) && !environment.contains(name.second);
    });
}

env::Setting filled_setting(const std::string& name, const std::string& value,
                            const std::string& reason, const std::string& evidence,
                            const std::string& without, bool per_rank,
                            const Environment& environment, const FillOptions& options) {
    env::Setting setting = env::detected(name, value, reason, evidence, without);
    if (const auto set = environment.find(name); set != environment.end()) {
        setting.value = set->second;
        setting.origin = env::Origin::user;
        setting.reason = "set already, which toporun never changes";
        return setting;
    }
    if (is_left(options, name))
        return env::left_alone(
            name, fmt::format("left alone as asked (--leave); toporun's choice was {}", value),
            evidence, without);
    setting.exported = true;
    setting.per_rank = per_rank;
    return setting;
}

FilledIn fill_in(const Gaps& gaps, const RendezvousFacts& facts, const Environment& environment,
                 const detect::Machine& machine, const env::Plan& plan,
                 const FillOptions& options) {
    if (gaps.gap == Gap::none) return {};
    const bool config = gaps.gap == Gap::ranks && (options.tf_config || !gaps.other_hosts);
    if (is_left(options, gaps, environment) && !config) return {};
    if (!gaps.unknown.empty()) return {{}, {ranks_unknown_finding(gaps, gaps.unknown)}, false};
    // The order of hosts cannot be read: every node has to come to the same.
    if (!gaps.host_file.empty() && facts.first_host.empty()) return {};
    const Rendezvous rendezvous = choose_rendezvous(gaps, facts, environment, machine, plan);
    if (gaps.other_hosts && !rendezvous.known)
        return {{}, {ranks_unknown_finding(gaps, rendezvous.reason)}, false};
    if (gaps.gap == Gap::port) return fill_in_port(gaps, facts, rendezvous, environment, options);
    FilledIn filled = gaps.gap == Gap::rendezvous
                          ? fill_in_rendezvous(gaps, facts, rendezvous, environment, options)
                          : fill_in_ranks(gaps, rendezvous, environment, machine, options);
    filled.meets = std::any_of(
        filled.settings.begin(), filled.settings.end(), [](const env::Setting& setting) {
            return setting.exported && (setting.name.ends_with("MASTER_ADDR") ||
                                        setting.name.ends_with("RDZV_ENDPOINT"));
        });
    if (filled.meets) add_rendezvous_findings(facts, rendezvous, filled.findings);
    return filled;
}

FilledIn fill_in_node(const Gaps& own, const RendezvousFacts& facts, const Environment& environment,
                      const detect::Machine& machine, const env::Plan& plan,
                      const FillOptions& options) {
    FilledIn filled = fill_in(own, facts, environment, machine, plan, options);
    if (!filled.meets) return {};
    Gaps ranks = own;
    ranks.by_shim = ranks.other_hosts = true;
    filled.settings =
        fill_in_ranks(ranks, choose_rendezvous(own, facts, environment, machine, plan), environment,
                      machine, options)
            .settings;
    return filled;
}

}  // namespace toporun::launcher
