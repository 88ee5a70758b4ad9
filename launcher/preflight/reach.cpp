// Whether the nodes can meet where they were told to. Nothing is connected to: a connection would
// be one more member of the job's store. Sources: elastic/rendezvous/utils.py
// (_matches_machine_hostname), c10d_rendezvous_backend.py, static_tcp_rendezvous.py, 1.13 to 2.9.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/families.hpp"
#include "launcher/preflight/endpoint.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

constexpr const char* kNodesMeet = "the nodes never meet, the start times out";

bool is_own(const std::string& text, const detect::Machine& machine) {
    const auto address = env::parse_ip(text);
    if (!address || env::loopback(*address)) return address.has_value();
    for (const detect::Nic& nic : machine.nics)
        for (const std::string& own : nic.addresses)
            if (const auto mine = env::parse_ip(own);
                mine && mine->v6 == address->v6 && mine->bytes == address->bytes)
                return true;
    return false;
}

/// The addresses of the place: its own, or those of its name; empty = not known.
std::vector<std::string> addresses_of(const MeetingPlace& place, const LineFacts& facts) {
    if (env::parse_ip(place.endpoint.host)) return {place.endpoint.host};
    const auto found = facts.addresses.find(place.endpoint.host);
    return found == facts.addresses.end() ? std::vector<std::string>() : found->second;
}

std::string first_address_fix(const LaunchLine& line) {
    return line.job ? "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head "
                      "-n1)"
                    : "getent hosts NAME";
}

void name_findings(const MeetingPlace& place, const LineFacts& facts,
                   std::vector<Finding>& findings) {
    const auto found = facts.addresses.find(place.endpoint.host);
    if (found == facts.addresses.end() || !place.several) return;
    const std::string host = printable(place.endpoint.host);
    if (found->second.empty())
        findings.push_back(
            {"rendezvous-unresolved", Severity::broken,
             fmt::format("{}: the name does not resolve here", host),
             fmt::format("{}; getent ahosts {}: nothing", place.endpoint.words, host),
             "this node cannot connect to it, the start times out", "getent hosts " + host, "",
             "ask for the name in DNS or /etc/hosts of every node, or give an address"});
    else if (place.here == false && all_loopback(found->second) &&
             !is_loopback_name(place.endpoint.host))
        findings.push_back(
            {"rendezvous-loopback", Severity::broken,
             fmt::format("{} is {} here: this node would meet itself", host,
                         join(found->second, ", ")),
             fmt::format("{}; getent ahosts {}", place.endpoint.words, host), kNodesMeet,
             "getent hosts " + host, "",
             "the line of /etc/hosts with 127.x belongs to the host of that name alone"});
}

/// On the node that has to listen the address is another host's.
void not_here(const LaunchLine& line, const MeetingPlace& place, const LineFacts& facts,
              const detect::Machine& machine, std::vector<Finding>& findings) {
    const std::vector<std::string> addresses = addresses_of(place, facts);
    if (!place.several || addresses.empty() || !env::interfaces_known(machine)) return;
    if (std::any_of(addresses.begin(), addresses.end(),
                    [&](const std::string& text) { return is_own(text, machine); }))
        return;
    const bool launch_node =
        place.endpoint.host == variable(line.environment, "SLURM_LAUNCH_NODE_IPADDR");
    // With c10d any node of the job may hold it: only where srun ran is known to be none, often.
    const bool first_task = line.in_step && line.task == 0;
    if (place.fixed_first ? place.here != true : !(launch_node && first_task)) return;
    std::vector<std::string> own;
    for (const detect::Nic& nic : machine.nics)
        for (const std::string& text : nic.addresses)
            if (const auto address = env::parse_ip(text); address && !env::loopback(*address))
                own.push_back(text.substr(0, text.find('/')));
    if (own.empty()) return;
    findings.push_back(
        {"rendezvous-not-here",
         machine.container || !place.fixed_first ? Severity::slow : Severity::broken,
         fmt::format("{}: no address of this node, which has to listen there as the first",
                     printable(place.endpoint.host)),
         fmt::format("{}; this node: {}", place.endpoint.words, join(own, ", ")), kNodesMeet,
         first_address_fix(line), "",
         launch_node ? "SLURM_LAUNCH_NODE_IPADDR is where srun ran, a login node for example"
                     : "the address of the node where rank 0 runs"});
}

void port_taken(const MeetingPlace& place, const LineFacts& facts, std::vector<Finding>& findings) {
    const auto port = to_integer(place.endpoint.port);
    if (!place.fixed_first || place.here != true || !port || *port < 1 || *port > 65535) return;
    if (!facts.listening.contains(static_cast<int>(*port))) return;
    findings.push_back(
        {"rendezvous-port-taken", Severity::broken,
         fmt::format("port {} is in use on this node, which has to listen there", *port),
         fmt::format("{}; /proc/net/tcp: LISTEN", place.endpoint.words),
         "the job stops as it starts: 'Address already in use'",
         fmt::format("export MASTER_PORT={}", *port < 65535 ? *port + 1 : 29501), "",
         "another job of this node may use it: a port for each, the same on all nodes"});
}

void own_name(const LaunchLine& line, const MeetingPlace& place, const LineFacts& facts,
              std::vector<Finding>& findings) {
    if (facts.own_name != false || place.fixed_first || !place.several) return;
    if (line.launcher == nullptr) return;
    findings.push_back({"own-name-unresolved", Severity::broken,
                        "this host's own name does not resolve, which torchrun's c10d asks for",
                        "getent ahosts $(hostname): nothing",
                        "torchrun stops ('Name or service not known'), or the other nodes cannot "
                        "reach rank 0 by it",
                        "hostname -f", "",
                        "enter the name in DNS or /etc/hosts, or --rdzv-backend=static with "
                        "--node-rank and --master-addr"});
}

}  // namespace

LineQuestions questions_on_line(const Command& command, const Environment& environment) {
    LineQuestions questions;
    const LaunchLine line = read_launch_line(command, environment);
    questions.kill_wait = line.torchrun != nullptr && line.in_step;
    const auto place = meeting_place(line);
    if (!place) return questions;
    questions.ports = place->fixed_first && place->here == true;
    if (place->several && !env::parse_ip(place->endpoint.host))
        questions.names = {place->endpoint.host};
    questions.own_name = place->several && !place->fixed_first && line.launcher != nullptr;
    return questions;
}

void reach_findings(const LaunchLine& line, const LineFacts& facts, const detect::Machine& machine,
                    std::vector<Finding>& findings) {
    const auto place = meeting_place(line);
    if (!place) return;
    name_findings(*place, facts, findings);
    not_here(line, *place, facts, machine, findings);
    port_taken(*place, facts, findings);
    own_name(line, *place, facts, findings);
}

}  // namespace toporun::launcher
