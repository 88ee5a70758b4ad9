#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "env/interface_model.hpp"
#include "launcher/report/judge.hpp"

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
    if (facts.logs.empty()) return found;
    add_interfaces(facts, found);
    add_torn(facts, found);
    return found;
}

}  // namespace toporun::launcher
