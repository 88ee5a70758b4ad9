#include "launcher/fill/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/interface.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/families.hpp"

namespace toporun::launcher {
namespace {

constexpr int kFirstPort = 20000, kPorts = 9000;
constexpr int kStepsOfJob = 16;  ///< steps of one job that run side by side do not share a port

/// The address without its prefix length and zone; "" for the interface that has none to offer.
std::string address_text(const detect::Nic& nic, const std::string& family) {
    const auto wanted = env::announced_address(nic, family);
    for (const std::string& text : nic.addresses) {
        const auto address = env::parse_ip(text);
        if (wanted && address && address->v6 == wanted->v6 && address->bytes == wanted->bytes)
            return text.substr(0, text.find_first_of("/%"));
    }
    return {};
}

std::string setting_value(const env::Plan& plan, const std::string& name) {
    for (const env::Setting& setting : plan.settings)
        if (setting.name == name && setting.value) return *setting.value;
    return {};
}

/// Interfaces in the order in which NCCL's bootstrap would take them, the choice first, then the
/// others of this host, those with the default route first.
std::vector<int> by_preference(const detect::Machine& machine, const env::Plan& plan,
                               const env::SearchContext& context) {
    std::vector<int> order;
    const env::IfnameList list = env::parse_ifname(setting_value(plan, env::kSocketIfname));
    if (!list.ignored) order = env::listed_search(machine, context, list);
    const auto add = [&](int position) {
        if (std::find(order.begin(), order.end(), position) == order.end())
            order.push_back(position);
    };
    const auto at = [&](int position) -> const detect::Nic& {
        return machine.nics[static_cast<std::size_t>(position)];
    };
    for (const std::string& name : plan.interfaces)
        for (int i = 0; i < static_cast<int>(machine.nics.size()); ++i)
            if (at(i).name == name) add(i);
    for (const bool routed : {true, false})
        for (int i = 0; i < static_cast<int>(machine.nics.size()); ++i)
            if (at(i).default_route == routed) add(i);
    return order;
}

struct Address {
    std::string text;
    std::string reason;
};

Address own_address(const detect::Machine& machine, const env::Plan& plan,
                    const env::SearchContext& context) {
    for (const int position : by_preference(machine, plan, context)) {
        const detect::Nic& nic = machine.nics[static_cast<std::size_t>(position)];
        if (!env::interface_flaw(machine, nic, context.family).empty()) continue;
        const std::string text = address_text(nic, context.family);
        if (!text.empty())
            return {text, fmt::format("the address of {} on this node, the first", nic.name)};
    }
    return {};
}

/// A name service's loopback is the host's own name (127.0.1.1), Slurm's is a node on this machine.
bool usable(const std::string& text, bool from_slurm) {
    const auto address = env::parse_ip(text);
    return address && (from_slurm || !env::loopback(*address)) && !env::link_local(*address);
}

/// Of several addresses the one that this node reaches without a router.
Address address_of_first(const RendezvousFacts& facts, const detect::Machine& machine,
                         const env::Plan& plan, const env::SearchContext& context) {
    for (const int position : by_preference(machine, plan, context)) {
        const detect::Nic& nic = machine.nics[static_cast<std::size_t>(position)];
        if (!env::interface_flaw(machine, nic, context.family).empty()) continue;
        for (const std::string& own : nic.addresses)
            for (const std::string& text : facts.addresses) {
                const auto mine = env::parse_ip(own);
                const auto address = env::parse_ip(text);
                if (mine && address && usable(text, facts.from_slurm) &&
                    env::same_subnet(*mine, *address))
                    return {text, fmt::format("the first node's address in the network of {} ({})",
                                              nic.name, facts.source)};
            }
    }
    for (const std::string& text : facts.addresses)
        if (usable(text, facts.from_slurm))
            return {text, fmt::format("the first node's address ({})", facts.source)};
    return {};
}

/// For torchrun's c10d, which compares the endpoint with each node's own name and with what that
/// resolves to: the name, unless no name service has it.
Address address_for_all(const std::string& host, const RendezvousFacts& facts) {
    if (facts.addresses.empty()) return {};
    if (!facts.from_slurm) return {host, "the name of the first node of the allocation"};
    return {facts.addresses.front(), fmt::format("the first node's address ({})", facts.source)};
}

/// Rank 0 runs on this node.
bool on_first_node(const Gaps& gaps, const RendezvousFacts& facts, const Environment& environment) {
    if (gaps.host_file.empty()) return gaps.first_node;
    return gaps.task == 0 || variable(environment, "SLURMD_NODENAME") == facts.first_host;
}

std::optional<int> port_of(const Environment& environment) {
    const auto port = to_integer(trim(variable(environment, "MASTER_PORT")));
    if (!port || *port < 1 || *port > 65535) return std::nullopt;
    return static_cast<int>(*port);
}

}  // namespace

std::set<int> listening_ports(std::string_view proc_net_tcp) {
    std::set<int> ports;
    for (const std::string& line : split(proc_net_tcp, '\n')) {
        std::vector<std::string> fields;
        for (std::string& field : split(line, ' '))
            if (!field.empty()) fields.push_back(std::move(field));
        if (fields.size() < 4 || fields[3] != "0A") continue;
        const std::size_t colon = fields[1].rfind(':');
        if (colon == std::string::npos || fields[1].size() != colon + 5) continue;
        int port = 0;
        for (const char digit : fields[1].substr(colon + 1)) {
            const std::size_t value = std::string_view("0123456789ABCDEF").find(digit);
            if (value == std::string_view::npos) port = -1 << 20;
            port = port * 16 + static_cast<int>(value & 15);
        }
        if (port > 0) ports.insert(port);
    }
    return ports;
}

std::vector<std::string> ahosts_addresses(std::string_view text) {
    std::vector<std::string> addresses;
    for (const std::string& line : split(text, '\n')) {
        const std::string word = line.substr(0, line.find_first_of(" \t%"));
        if (env::parse_ip(word) && word.find('/') == std::string::npos &&
            std::find(addresses.begin(), addresses.end(), word) == addresses.end())
            addresses.push_back(word);
    }
    return addresses;
}

std::string node_address(std::string_view scontrol_text) {
    constexpr std::string_view kKey = "NodeAddr=";
    const std::size_t at = scontrol_text.find(kKey);
    if (at == std::string_view::npos) return {};
    scontrol_text.remove_prefix(at + kKey.size());
    const std::string word(scontrol_text.substr(0, scontrol_text.find_first_of(" \t\n")));
    return env::parse_ip(word) ? word : "";
}

std::string alias_address(std::string_view aliases, const std::string& host) {
    for (const std::string& entry : split(aliases, ',')) {
        if (!entry.starts_with(host + ":")) continue;
        const std::string rest = entry.substr(host.size() + 1);
        const bool bracketed = rest.starts_with('[');
        const std::string word =
            bracketed ? rest.substr(1, rest.find(']') - 1) : rest.substr(0, rest.find(':'));
        if (env::parse_ip(word)) return word;
    }
    return {};
}

int job_port(const Environment& environment, long long otherwise) {
    const auto job = to_integer(variable(environment, "SLURM_JOB_ID"));
    const auto step = to_integer(variable(environment, "SLURM_STEP_ID"));
    // The batch script and srun's special steps count as step 0.
    const long long number =
        job && *job >= 0 ? (*job % kPorts) * kStepsOfJob +
                               (step && *step > 0 && *step < 1 << 24 ? *step % kStepsOfJob : 0)
                         : std::max(0LL, otherwise);
    return kFirstPort + static_cast<int>(number % kPorts);
}

Rendezvous choose_rendezvous(const Gaps& gaps, const RendezvousFacts& facts,
                             const Environment& environment, const detect::Machine& machine,
                             const env::Plan& plan) {
    Rendezvous rendezvous;
    const env::SearchContext context{{}, variable(environment, "NCCL_SOCKET_FAMILY"), {}};
    const std::string host = gaps.host_file.empty() ? gaps.first_host : facts.first_host;
    const std::string users(trim(variable(environment, "MASTER_ADDR")));
    const auto users_address = env::parse_ip(users);
    const bool users_loopback =
        users == "localhost" || (users_address && env::loopback(*users_address));
    const bool first = on_first_node(gaps, facts, environment);
    Address address;
    if (!users.empty() && !(gaps.nodes > 1 && users_loopback))
        address = {users, "MASTER_ADDR, as it is set"};
    else if (gaps.nodes == 1)
        address = {"127.0.0.1",
                   gaps.other_hosts ? "all ranks are on one host" : "all ranks are on this host"};
    else if (gaps.by_srun)
        address = address_for_all(host, facts);
    else if (first)
        address = own_address(machine, plan, context);
    else
        address = address_of_first(facts, machine, plan, context);
    if (address.text.empty()) {
        rendezvous.known = false;
        rendezvous.certain = facts.unanswered || (first && !gaps.by_srun);
        address = {host, facts.unanswered
                             ? "the name of the first node; no name service has told in time"
                         : first ? "the name of this node, which has no address to offer"
                                 : "the name of the first node, which does not resolve here"};
    }
    rendezvous.address = address.text;
    rendezvous.reason = address.reason;
    if (const auto port = port_of(environment)) {
        rendezvous.port = *port;
        return rendezvous;
    }
    rendezvous.port = job_port(environment, facts.process);
    // Where each task decides for itself, what this node alone knows cannot count.
    const bool one_decides = gaps.by_shim || gaps.by_srun;
    for (int tried = 0; one_decides && tried < kPorts && facts.listening.contains(rendezvous.port);
         ++tried)
        rendezvous.port =
            rendezvous.port + 1 < kFirstPort + kPorts ? rendezvous.port + 1 : kFirstPort;
    rendezvous.port_taken =
        !gaps.by_shim && first && gaps.task == 0 && facts.listening.contains(rendezvous.port);
    return rendezvous;
}

}  // namespace toporun::launcher
