#include "detect/import/host_text.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "detect/import/interface_text.hpp"

namespace toporun::detect {
namespace {

constexpr int kLargestCpu = 65535;  // Linux: CONFIG_NR_CPUS is at most 8192
char upper(char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

constexpr std::size_t kMostNodes = 1024;  // Linux: CONFIG_NODES_SHIFT is at most 10

/// A list of CPUs, "0-7,64-71" or "0 1 2": nothing for anything else, and for more than 65536.
std::optional<CpuSet> pasted_cpus(std::string_view list) {
    std::vector<bool> seen;
    for (std::size_t at = 0; (at = list.find_first_not_of(", \t", at)) != std::string_view::npos;) {
        const std::size_t end = std::min(list.find_first_of(", \t", at), list.size());
        const std::string_view part = list.substr(at, end - at);
        const std::size_t dash = part.find('-');
        const auto first = number_in(part.substr(0, dash), 0, kLargestCpu);
        const auto last = dash == std::string_view::npos
                              ? first
                              : number_in(part.substr(dash + 1), 0, kLargestCpu);
        if (!first || !last || *last < *first) return std::nullopt;
        if (seen.size() <= static_cast<std::size_t>(*last))
            seen.resize(static_cast<std::size_t>(*last) + 1);
        std::fill(seen.begin() + *first, seen.begin() + *last + 1, true);
        at = end;
    }
    std::vector<int> indices;
    for (std::size_t i = 0; i < seen.size(); ++i)
        if (seen[i]) indices.push_back(static_cast<int>(i));
    return CpuSet(std::move(indices));
}

}  // namespace

NumaNode* PastedNodes::find(int os_index) {
    for (NumaNode& node : nodes_)
        if (node.os_index == os_index) return &node;
    if (nodes_.size() == kMostNodes) return nullptr;
    nodes_.emplace_back();
    nodes_.back().os_index = os_index;
    return &nodes_.back();
}

bool PastedNodes::set_cpus(int os_index, std::string_view list) {
    if (tried_.size() == kMostNodes || !tried_.insert(os_index).second) return false;
    const auto cpus = pasted_cpus(list);
    if (!cpus || !(all_ & *cpus).empty()) return false;
    NumaNode* node = find(os_index);
    if (node == nullptr) return false;
    node->cpus = *cpus;
    all_ = all_ | *cpus;
    return true;
}

bool PastedNodes::set_memory(int os_index, std::uint64_t bytes) {
    NumaNode* node = find(os_index);
    if (node == nullptr || node->memory_bytes) return false;
    node->memory_bytes = bytes;
    return true;
}

std::optional<std::uint64_t> pasted_size(std::string_view word, std::uint64_t unit) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || !(value >= 0)) return std::nullopt;
    const std::string_view rest = word.substr(static_cast<std::size_t>(end - word.data()));
    if (!rest.empty()) {
        const std::size_t power = std::string_view("KMGTP").find(upper(rest[0]));
        const bool tail = rest.size() == 1 || rest.substr(1) == "i" || rest.substr(1) == "B" ||
                          rest.substr(1) == "iB";
        if (power == std::string_view::npos || !tail) return std::nullopt;
        unit = std::uint64_t{1} << (10 * (power + 1));
    }
    value *= static_cast<double>(unit);
    if (value > 9e18) return std::nullopt;
    return static_cast<std::uint64_t>(value);
}

}  // namespace toporun::detect
