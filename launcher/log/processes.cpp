#include "launcher/log/processes.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kHosts = 4096;
constexpr std::size_t kProcesses = 1 << 16;
constexpr std::size_t kLongestHost = 256;  // POSIX HOST_NAME_MAX is 64, a DNS name has 253

}  // namespace

std::size_t Processes::Hash::operator()(const Key& key) const {
    constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;  // Fibonacci hashing, Knuth TAOCP 6.4
    const std::uint64_t hash = (static_cast<std::uint64_t>(key.pid) << 12 ^ key.host) * kMix;
    return static_cast<std::size_t>(hash ^ hash >> 32);
}

std::optional<std::size_t> Processes::count_line(std::string_view host, std::int64_t pid) {
    std::uint32_t& recent = recent_[static_cast<std::size_t>(pid) % kRecent];
    if (recent == kNone || processes_[recent].pid != pid ||
        hosts_[processes_[recent].host] != host) {
        const auto number = number_of(host, pid);
        if (!number) return std::nullopt;
        recent = static_cast<std::uint32_t>(*number);
    }
    ++processes_[recent].lines;
    return recent;
}

std::optional<std::size_t> Processes::number_of(std::string_view host, std::int64_t pid) {
    const auto host_index = host_number(host.substr(0, kLongestHost));
    if (!host_index) return std::nullopt;
    const Key key{*host_index, pid};
    if (const auto found = at_.find(key); found != at_.end()) return found->second;
    if (processes_.size() >= kProcesses) return std::nullopt;
    at_.emplace(key, processes_.size());
    processes_.push_back({*host_index, pid, 0});
    return processes_.size() - 1;
}

std::optional<std::uint32_t> Processes::host_number(std::string_view host) {
    const std::string name(host);
    if (const auto found = host_at_.find(name); found != host_at_.end()) return found->second;
    if (name.empty() || hosts_.size() >= kHosts) return std::nullopt;
    host_at_.emplace(name, static_cast<std::uint32_t>(hosts_.size()));
    hosts_.push_back(name);
    return static_cast<std::uint32_t>(hosts_.size() - 1);
}

const std::string& Processes::host(std::size_t process) const {
    return hosts_[processes_[process].host];
}

std::vector<std::uint64_t> Processes::lines_of_hosts() const {
    std::vector<std::uint64_t> lines(hosts_.size());
    for (const Process& process : processes_) lines[process.host] += process.lines;
    return lines;
}

}  // namespace toporun::launcher
