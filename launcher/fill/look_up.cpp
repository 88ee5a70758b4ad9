#include "launcher/fill/look_up.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/text.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/helper.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kProcBytes = 4u << 20;
constexpr std::size_t kHostFileBytes = 4096;
constexpr std::size_t kConfBytes = 1u << 20;

/// Host names as RFC 1123 has them, and addresses: never an option of the program that is asked.
bool is_host_name(const std::string& name) {
    return !name.empty() && name.size() < 256 && name.front() != '-' &&
           name.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               "0123456789-_.:") == std::string::npos;
}

std::string output_of(const Host& host, std::vector<std::string> words) {
    words.front() = host.find_executable(words.front());
    return words.front().empty() ? std::string() : helper_output(words);
}

bool all_loopback(const std::vector<std::string>& addresses) {
    return std::all_of(addresses.begin(), addresses.end(), [](const std::string& text) {
        const auto address = env::parse_ip(text);
        return !address || env::loopback(*address);
    });
}

std::vector<std::string> resolve(const Host& host, const std::string& name) {
    return ahosts_addresses(output_of(host, {"getent", "ahosts", name}));
}

std::set<int> ports_in_use(const Host& host) {
    std::set<int> ports;
    for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"})
        ports.merge(listening_ports(host.read_file(file, kProcBytes).value_or("")));
    return ports;
}

/// `known_here`: a loopback address is the right one, of this host's own name.
void look_up_name(MeetingFacts& facts, const std::string& name, bool known_here,
                  const Environment& environment, const Host& host) {
    if (!is_host_name(name)) return;
    const std::string alias = alias_address(variable(environment, "SLURM_NODE_ALIASES"), name);
    if (!alias.empty()) {
        facts.addresses = {alias};
        facts.source = "SLURM_NODE_ALIASES";
        facts.from_slurm = true;
        return;
    }
    facts.addresses = resolve(host, name);
    facts.source = "getent ahosts " + name;
    if (!all_loopback(facts.addresses) || (known_here && !facts.addresses.empty())) return;
    // No name service knows it: Slurm has an address by which it reaches the node.
    const std::string address =
        node_address(output_of(host, {"scontrol", "-o", "show", "node", name}));
    if (address.empty()) return;
    facts.addresses = {address};
    facts.source = "scontrol show node " + name;
    facts.from_slurm = true;
}

}  // namespace

MeetingFacts look_up_meeting(const Gaps& gaps, const Environment& environment, const Host& host) {
    MeetingFacts facts;
    if (gaps.gap == Gap::none) return facts;
    facts.process = ::getpid();
    facts.listening = ports_in_use(host);
    if (gaps.nodes < 2) return facts;
    std::string name = gaps.first_host;
    if (!gaps.host_file.empty()) {
        const std::string text = host.read_file(gaps.host_file, kHostFileBytes).value_or("");
        name = facts.first_host = std::string(trim(text.substr(0, text.find('\n'))));
        if (std::find(gaps.hosts.begin(), gaps.hosts.end(), name) == gaps.hosts.end())
            name = facts.first_host = "";
    }
    const bool here = gaps.host_file.empty() ? gaps.first_node : gaps.task == 0;
    if (!here || gaps.by_srun) look_up_name(facts, name, here, environment, host);
    return facts;
}

LineFacts look_up_line(const LineQuestions& questions, const Environment& environment,
                       const Host& host) {
    LineFacts facts;
    if (questions.ports) facts.listening = ports_in_use(host);
    const bool can_ask = !host.find_executable("getent").empty();
    for (const std::string& name : questions.names)
        if (can_ask && is_host_name(name)) facts.addresses[name] = resolve(host, name);
    std::array<char, HOST_NAME_MAX + 1> own{};
    if (can_ask && questions.own_name && ::gethostname(own.data(), own.size() - 1) == 0 &&
        is_host_name(own.data()))
        facts.own_name = !resolve(host, own.data()).empty();
    if (questions.kill_wait) {
        const std::string conf = variable(environment, "SLURM_CONF");
        facts.kill_wait_s = kill_wait(
            host.read_file(conf.empty() ? "/etc/slurm/slurm.conf" : conf, kConfBytes).value_or(""));
    }
    return facts;
}

}  // namespace toporun::launcher
