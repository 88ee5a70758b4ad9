#include "launcher/fill/look_up.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/helper_process.hpp"
#include "base/text.hpp"
#include "detect/detect.hpp"
#include "launcher/command/families.hpp"
#include "launcher/preflight/endpoint.hpp"

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

struct ProgramAnswer {
    std::string text;
    std::optional<int> status;
};

/// What the program answers, which ranks that share ask once. Nothing where it is not installed.
std::optional<ProgramAnswer> ask(const Host& host, const NodeShare& share,
                                 std::vector<std::string> words) {
    words.front() = host.find_executable(words.front());
    if (words.front().empty()) return std::nullopt;
    // Another container's name service may answer otherwise.
    const std::string key = join(words, " ") + "\n" + detect::sight_of_process();
    const std::string told = share.once("answer", key, [&] {
        const HelperResult answer = run_program(words);
        return fmt::format("{}\n{}", answer.status.value_or(-1), answer.bytes);
    });
    const std::size_t line_end = told.find('\n');
    if (line_end == std::string::npos) return ProgramAnswer{};
    ProgramAnswer answer{told.substr(line_end + 1), std::nullopt};
    if (const auto status = to_integer(told.substr(0, line_end)); status && *status >= 0)
        answer.status = static_cast<int>(*status);
    return answer;
}

/// The addresses of a name, none where there is no such name; nothing where nobody has told in
/// time, which says nothing about the name.
std::optional<std::vector<std::string>> resolve(const Host& host, const NodeShare& share,
                                                const std::string& name) {
    constexpr int kNotFound = 2;  // getent(1)
    const auto answer = ask(host, share, {"getent", "ahosts", name});
    if (!answer) return std::nullopt;
    std::vector<std::string> addresses = ahosts_addresses(answer->text);
    if (addresses.empty() && answer->status != kNotFound) return std::nullopt;
    return addresses;
}

std::set<int> ports_in_use(const Host& host) {
    std::set<int> ports;
    for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"})
        ports.merge(listening_ports(host.read_file(file, kProcBytes).value_or("")));
    return ports;
}

/// `known_here`: a loopback address is the right one, of this host's own name.
void look_up_name(RendezvousFacts& facts, const std::string& name, bool known_here,
                  const Environment& environment, const Host& host, const NodeShare& share) {
    if (!is_host_name(name)) return;
    const std::string alias = alias_address(variable(environment, "SLURM_NODE_ALIASES"), name);
    if (!alias.empty()) {
        facts.addresses = {alias};
        facts.source = "SLURM_NODE_ALIASES";
        facts.from_slurm = true;
        return;
    }
    facts.source = "getent ahosts " + name;
    const auto found = resolve(host, share, name);
    facts.unanswered = !found;
    if (!found && !host.find_executable("getent").empty()) return;  // only late
    facts.addresses = found.value_or(std::vector<std::string>());
    if (!all_loopback(facts.addresses) || (known_here && !facts.addresses.empty())) return;
    // No name service knows it: Slurm has an address by which it reaches the node.
    const auto answer = ask(host, share, {"scontrol", "-o", "show", "node", name});
    const std::string address = answer ? node_address(answer->text) : "";
    if (address.empty()) return;
    facts.addresses = {address};
    facts.source = "scontrol show node " + name;
    facts.from_slurm = true;
    facts.unanswered = false;
}

}  // namespace

RendezvousFacts look_up_rendezvous(const Gaps& gaps, const Environment& environment,
                                   const Host& host, const NodeShare& share) {
    RendezvousFacts facts;
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
    if (!here || gaps.by_srun) look_up_name(facts, name, here, environment, host, share);
    return facts;
}

LineFacts look_up_line(const LineQuestions& questions, const Environment& environment,
                       const Host& host, const NodeShare& share) {
    LineFacts facts;
    if (questions.ports) facts.listening = ports_in_use(host);
    for (const std::string& name : questions.names) {
        if (!is_host_name(name)) continue;
        if (const auto found = resolve(host, share, name)) facts.addresses[name] = *found;
    }
    std::array<char, HOST_NAME_MAX + 1> own{};
    if (questions.own_name && ::gethostname(own.data(), own.size() - 1) == 0 &&
        is_host_name(own.data()))
        if (const auto found = resolve(host, share, own.data())) facts.own_name = !found->empty();
    if (questions.kill_wait) {
        const std::string conf = variable(environment, "SLURM_CONF");
        facts.kill_wait_s = kill_wait(
            host.read_file(conf.empty() ? "/etc/slurm/slurm.conf" : conf, kConfBytes).value_or(""));
    }
    return facts;
}

}  // namespace toporun::launcher
