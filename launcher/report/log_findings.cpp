#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "env/interface_model.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/tests_view.hpp"

/// What a log alone says of the run, without a plan to compare it with.
namespace toporun::launcher {
namespace {

using Findings = std::vector<env::Finding>;

/// Names of interfaces that containers, virtual machines, tunnels and VPNs make.
bool is_virtual(const std::string& name) {
    constexpr std::array<std::string_view, 17> kBeginnings = {
        "veth", "docker", "br-", "virbr", "cni", "flannel",   "cali", "lxc",           "vmnet",
        "tun",  "tap",    "wg",  "zt",    "gpd", "tailscale", "ppp",  "CloudflareWARP"};
    return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                       [&](std::string_view beginning) { return name.starts_with(beginning); });
}

bool is_link_local(const std::string& address) {
    const auto ip = env::parse_ip(address);
    return ip && env::link_local(*ip);
}

void add_interfaces(const RunFacts& facts, Findings& found) {
    std::string usable;
    for (const auto& [name, address] : facts.interfaces)
        if (usable.empty() && name != "lo" && !is_virtual(name) && !is_link_local(address))
            usable = name;
    const bool several = facts.log.node_count.value_or(1) > 1 || facts.log.nodes.size() > 1;
    for (const auto& [name, address] : facts.interfaces) {
        const bool loopback = name == "lo";
        const bool unrouted = !loopback && is_link_local(address);
        if (!loopback && !unrouted && !is_virtual(name)) continue;
        env::Finding finding;
        finding.id = loopback   ? "log-interface-loopback"
                     : unrouted ? "log-interface-link-local"
                                : "log-interface-virtual";
        finding.severity = several ? env::Severity::slow : env::Severity::note;
        finding.what =
            loopback   ? std::string("NCCL announces lo, the loopback interface")
            : unrouted ? fmt::format("NCCL announces {}, which has a link-local address only", name)
                       : fmt::format(
                             "NCCL announces {}, an interface of a container, tunnel or VPN", name);
        finding.evidence = fmt::format("{}:{}", name, address);
        finding.effect =
            "other nodes do not reach the rank through it; on one node it does no harm";
        finding.fix = usable.empty() ? std::string(
                                           "NCCL_SOCKET_IFNAME with an interface that "
                                           "reaches the other nodes: ip -br addr")
                                     : fmt::format("NCCL_SOCKET_IFNAME={}", usable);
        found.push_back(std::move(finding));
    }
}

void add_torn(const RunFacts& facts, Findings& found) {
    if (facts.log.torn == 0) return;
    env::Finding finding;
    finding.id = "log-torn";
    finding.severity = env::Severity::note;
    finding.what = fmt::format(
        "{} lines of the log are torn: several processes wrote into one file", facts.log.torn);
    finding.effect = "what they said is not known";
    finding.fix = "NCCL_DEBUG_FILE=nccl.%h.%p.log gives each process a file of its own";
    found.push_back(std::move(finding));
}

/// Ranks wait in the initialisation of a communicator until all have come. A rank that is missing
/// in a log of several nodes may have its own log elsewhere.
void add_incomplete(const LogSummary& log, Findings& found) {
    constexpr std::size_t kMostNamed = 8;
    const auto size = static_cast<std::size_t>(log.rank_count.value_or(0));
    const auto complete = [](const LogRank& rank) { return rank.complete; };
    if (log.ranks.empty() || log.ranks.size() >= size || size > 65536 || !log.transports.empty() ||
        log.other_connections > 0 || std::any_of(log.ranks.begin(), log.ranks.end(), complete))
        return;
    std::vector<int> missing;
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
        if (next < log.ranks.size() && log.ranks[next].rank == static_cast<int>(rank))
            ++next;
        else
            missing.push_back(static_cast<int>(rank));
    }
    const std::size_t count = missing.size();
    missing.resize(std::min(count, kMostNamed));
    env::Finding finding;
    finding.id = "log-init-incomplete";
    finding.severity = env::Severity::note;
    finding.what = fmt::format(
        "in these logs a communicator of {} ranks never came about: {} of them began, none was "
        "done; missing: rank{} {}{}",
        size, log.ranks.size(), count == 1 ? "" : "s", fmt::join(missing, ", "),
        count > kMostNamed ? fmt::format(" and {} more", count - kMostNamed) : "");
    finding.effect = "the ranks that began wait for those, until a time-out";
    finding.fix =
        "what did these ranks do: did they start, end before, or call another communicator? Their "
        "logs may be missing here";
    found.push_back(std::move(finding));
}

void add_graph(const LogFabric& fabric, Findings& found) {
    if (fabric.patterns_without_graph.empty()) return;
    env::Finding finding;
    finding.id = "log-no-graph";
    finding.severity = env::Severity::slow;
    finding.what =
        "NCCL found no way through this machine's links and joins its GPUs in simple order";
    finding.evidence = fmt::format("Could not find a path for pattern {}",
                                   fmt::join(fabric.patterns_without_graph, ", "));
    finding.effect = "rings may cross links that are slow or shared";
    finding.fix = "NCCL_TOPO_DUMP_FILE=topology.xml, then toporun doctor --from topology.xml";
    found.push_back(std::move(finding));
}

std::string queue_pairs_text(const LogFabric& fabric) {
    constexpr std::size_t kMostNamed = 4;
    std::string text;
    for (std::size_t i = 0; i < fabric.queue_pairs.size() && i < kMostNamed; ++i) {
        const LogQueuePairs& row = fabric.queue_pairs[i];
        text += fmt::format("{}Dev {} Port {}: {} bytes", i == 0 ? "" : ", ", row.device, row.port,
                            row.mtu_bytes);
    }
    return fabric.queue_pairs.size() > kMostNamed ? text + ", ..." : text;
}

/// RoCE takes the largest of 256, 512, 1024, 2048 and 4096 bytes that the interface's MTU holds:
/// 1024 with 1500.
void add_path_mtu(const LogFabric& fabric, Findings& found) {
    constexpr int kOfEthernet = 1024;
    int least = 0, most = 0;
    bool roce = false;
    for (const LogQueuePairs& row : fabric.queue_pairs) {
        least = least == 0 ? row.mtu_bytes : std::min(least, row.mtu_bytes);
        most = std::max(most, row.mtu_bytes);
        roce = roce || (row.gid_index && row.mtu_bytes <= kOfEthernet);
    }
    if (least == most && !(roce && least <= kOfEthernet)) return;
    env::Finding finding;
    finding.id = least != most ? "log-path-mtu-differs" : "log-path-mtu-small";
    finding.severity = least != most ? env::Severity::slow : env::Severity::note;
    finding.what =
        least != most
            ? fmt::format("RDMA connections have path MTUs from {} to {} bytes", least, most)
            : fmt::format("RoCE connections have a path MTU of {} bytes", least);
    finding.evidence = queue_pairs_text(fabric);
    finding.effect = "more packets, and more headers, for the same data";
    finding.fix = "ip link set dev INTERFACE mtu 9000, on all nodes and their switches";
    found.push_back(std::move(finding));
}

void add_verbs(const RunFacts& facts, Findings& found) {
    const bool several = facts.log.node_count.value_or(1) > 1 || facts.log.nodes.size() > 1;
    if (!facts.log.setup.fabric.no_verbs || !several) return;
    env::Finding finding;
    finding.id = "log-no-libibverbs";
    finding.severity = env::Severity::note;
    finding.what = "NCCL could not open libibverbs.so: InfiniBand and RoCE are not used";
    finding.evidence = "Failed to open libibverbs.so";
    finding.effect = "where the nodes have RDMA adapters the data goes over TCP, much slower";
    finding.fix = "apt-get install libibverbs1 ibverbs-providers";
    found.push_back(std::move(finding));
}

env::Severity severity_of(const std::string& text) {
    if (text == "broken") return env::Severity::broken;
    return text == "slow" ? env::Severity::slow : env::Severity::note;
}

}  // namespace

std::vector<env::Finding> log_findings(const RunFacts& facts) {
    Findings found;
    for (const failures::LineFinding& line : facts.line_findings) {
        env::Finding finding;
        finding.id = line.known->id;
        finding.severity = severity_of(line.known->severity);
        finding.what = line.what;
        finding.evidence = line.count > 1 ? fmt::format("{} ({} times)", line.evidence, line.count)
                                          : line.evidence;
        finding.effect = line.known->effect;
        finding.fix = line.known->fix;
        found.push_back(std::move(finding));
    }
    for (env::Finding& finding : test_findings(facts)) found.push_back(std::move(finding));
    if (facts.logs.empty()) return found;
    add_interfaces(facts, found);
    add_torn(facts, found);
    add_incomplete(facts.log, found);
    add_graph(facts.log.setup.fabric, found);
    add_path_mtu(facts.log.setup.fabric, found);
    add_verbs(facts, found);
    return found;
}

}  // namespace toporun::launcher
