#include "profiles/value_grammar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/text.hpp"
#include "profiles/profile.hpp"

/// WordList and ranges as NCCL 2.8 to 2.30 reads them: src/graph/topo.cc and paths.cc (levels),
/// src/transport/net_ib.cc, net_socket.cc, p2p.cc, src/misc/param.cc.
namespace toporun::profiles {
namespace {

using WordList = std::vector<std::string>;

struct LevelName {
    const char* name;
    const char* since;  ///< the first version that knows it; "" = every version from 2.8 on
};
constexpr LevelName kLevels[] = {{"LOC", ""},     {"NVL", ""},      {"NVB", ""}, {"PIX", ""},
                                 {"PXB", ""},     {"PHB", ""},      {"SYS", ""}, {"PXN", "2.12"},
                                 {"C2C", "2.26"}, {"P2C", "2.27.3"}};

struct NumberRange {
    std::string_view name;
    long long low = 0;
    long long high = 0;
    const char* negative_since = "";  ///< the first version to which below 0 means "automatic"
    long long step = 1;
};
constexpr long long kMostBytes = 1LL << 31;
constexpr NumberRange kRanges[] = {
    {"NCCL_BUFFSIZE", 1, kMostBytes},
    {"NCCL_LL_BUFFSIZE", 1, kMostBytes},
    {"NCCL_LL128_BUFFSIZE", 1, kMostBytes},
    {"NCCL_CROSS_NIC", 0, 2},
    {"NCCL_CUMEM_ENABLE", -2, 1},
    {"NCCL_CUMEM_HOST_ENABLE", -1, 1},
    {"NCCL_DMABUF_ENABLE", 0, 1},
    {"NCCL_GDRCOPY_ENABLE", 0, 1},
    {"NCCL_GRAPH_REGISTER", 0, 1},
    {"NCCL_IB_ADAPTIVE_ROUTING", -2, 1},
    {"NCCL_IB_DISABLE", 0, 1},
    {"NCCL_IB_GID_INDEX", -1, 255, "2.21.5"},
    {"NCCL_IB_MERGE_NICS", 0, 1},
    {"NCCL_IB_MERGE_VFS", 0, 1},
    {"NCCL_IB_QPS_PER_CONNECTION", 1, 128},
    {"NCCL_IB_RETRY_CNT", 0, 7},
    {"NCCL_IB_SL", -1, 15, "2.26.2"},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", 0, 1},
    {"NCCL_IB_TC", -1, 255, "2.26.2"},
    {"NCCL_IB_TIMEOUT", 0, 31},
    {"NCCL_IGNORE_CPU_AFFINITY", 0, 1},
    {"NCCL_IGNORE_DISABLED_P2P", 0, 1},
    {"NCCL_LL128_NTHREADS", 160, 640, "", 32},
    {"NCCL_LOCAL_REGISTER", 0, 1},
    {"NCCL_MAX_CTAS", 1, 128},
    {"NCCL_MAX_NCHANNELS", 1, 128},
    {"NCCL_MIN_CTAS", 1, 128},
    {"NCCL_MIN_NCHANNELS", 1, 128},
    {"NCCL_MNNVL_ENABLE", 0, 2},
    {"NCCL_NET_DISABLE_INTRA", 0, 1},
    {"NCCL_NET_GDR_C2C", 0, 1},
    {"NCCL_NET_GDR_READ", -2, 1},
    {"NCCL_NSOCKS_PERTHREAD", -2, 64},
    {"NCCL_NTHREADS", 64, 512, "", 32},
    {"NCCL_NVLS_ENABLE", 0, 2},
    {"NCCL_P2P_PXN_LEVEL", 0, 2},
    {"NCCL_PXN_C2C", 0, 1},
    {"NCCL_PXN_DISABLE", 0, 1},
    {"NCCL_SHM_DISABLE", 0, 1},
    {"NCCL_SOCKET_NTHREADS", -2, 16},
};

/// A whole number in one of strtol's three bases.
std::optional<long long> whole_number(const std::string& text) {
    const std::size_t begin = text.starts_with('-') ? 1 : 0;
    if (begin == text.size() || text[begin] < '0' || text[begin] > '9') return std::nullopt;
    char* end = nullptr;
    const long long number = std::strtoll(text.c_str(), &end, 0);
    return *end == '\0' ? std::optional<long long>(number) : std::nullopt;
}

bool known_from(std::string_view first, std::string_view since) {
    return first.empty() || (!since.empty() && compare_versions(since, first) >= 0);
}

ValueFault no_word(std::string_view name, const std::string& value, const WordList& words) {
    std::string upper = value;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    const auto close = closest_word(upper, words);
    return {
        fmt::format("'{}' is no value of {}", printable(value), name),
        close ? fmt::format("did you mean '{}'?", *close) : "write one of " + join(words, ", ")};
}

std::optional<ValueFault> level_fault(std::string_view name, const std::string& value,
                                      std::string_view since) {
    if (value.size() == 1 && value[0] >= '0' && value[0] <= '9') return std::nullopt;  // old scale
    WordList names;
    for (const LevelName& level : kLevels) {
        names.emplace_back(level.name);
        if (value != level.name) continue;
        if (known_from(level.since, since)) return std::nullopt;
        return ValueFault{fmt::format("NCCL before {} ignores {}={}", level.since, name, value),
                          fmt::format("add since = \"{}\"", level.since)};
    }
    return no_word(name, value, names);
}

std::optional<ValueFault> number_fault(const NumberRange& range, const std::string& value,
                                       std::string_view since) {
    const auto number = whole_number(value);
    if (!number)
        return ValueFault{
            fmt::format("'{}' is no number, which {} must be", printable(value), range.name),
            "NCCL takes other words for 0"};
    const std::string_view first = range.negative_since;
    if (*number < 0 && *number >= range.low && !known_from(range.negative_since, since))
        return ValueFault{
            fmt::format("NCCL before {} does not know {}={}", first, range.name, value),
            fmt::format("add since = \"{}\"", first)};
    if (*number >= range.low && *number <= range.high && *number % range.step == 0)
        return std::nullopt;
    const long long least = first.empty() ? range.low : std::max(range.low, 0LL);
    if (range.name == "NCCL_IGNORE_DISABLED_P2P" && *number == 2)
        return ValueFault{"NCCL_IGNORE_DISABLED_P2P=2 is never set automatically",
                          "it skips the driver's answer: data may never arrive"};
    return ValueFault{
        fmt::format("{}={} is out of range", range.name, printable(value)),
        fmt::format("{} to {}{}", least, range.high,
                    range.step > 1 ? fmt::format(" in steps of {}", range.step) : "")};
}

/// A list of names with `^` and `=` in front, as NCCL reads adapters and interfaces.
std::optional<ValueFault> list_fault(std::string_view name, const std::string& value,
                                     std::size_t shortest, std::size_t most) {
    std::string_view rest = value;
    if (rest.starts_with('^')) rest.remove_prefix(1);
    if (rest.starts_with('=')) rest.remove_prefix(1);
    const WordList entries = split(rest, ',');
    const bool bad = value.size() < shortest || entries.size() > most ||
                     std::any_of(entries.begin(), entries.end(), [](const std::string& entry) {
                         return entry.empty() || entry.find_first_of(" \t^=") != entry.npos;
                     });
    if (!bad) return std::nullopt;
    return ValueFault{fmt::format("'{}' is no list of names for {}", printable(value), name),
                      fmt::format("[^][=]NAME,NAME without blanks, at most {} of them", most)};
}

std::optional<ValueFault> word_fault(std::string_view name, const std::string& value,
                                     const WordList& words) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::nullopt;
    return no_word(name, value, words);
}

}  // namespace

std::optional<ValueFault> value_fault(std::string_view name, const std::string& value,
                                      std::string_view since) {
    constexpr std::size_t kMostAdapters = 32, kMostInterfaces = 16;
    if (name == "NCCL_P2P_LEVEL" || name == "NCCL_NET_GDR_LEVEL")
        return level_fault(name, value, since);
    if (name == "NCCL_NET_MERGE_LEVEL")
        return word_fault(name, value, {"LOC", "PORT", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"});
    if (name == "NCCL_SOCKET_FAMILY") return word_fault(name, value, {"AF_INET", "AF_INET6"});
    if (name == "NCCL_IB_HCA") return list_fault(name, value, 1, kMostAdapters);
    if (name == "NCCL_SOCKET_IFNAME") return list_fault(name, value, 2, kMostInterfaces);
    if (name == "GLOO_SOCKET_IFNAME" && value.find_first_of(" \t^=") != std::string::npos)
        return ValueFault{fmt::format("'{}' is no list of names for {}", printable(value), name),
                          "whole names, joined by commas, nothing else"};
    if (name == "NCCL_NETDEVS_POLICY" &&
        !(value.starts_with("MAX:") && whole_number(value.substr(4))))
        return word_fault(name, value, {"AUTO", "ALL", "MAX:1"});
    for (const NumberRange& range : kRanges)
        if (range.name == name) return number_fault(range, value, since);
    if (name.starts_with("NCCL_") && (name.ends_with("_ENABLE") || name.ends_with("_DISABLE")) &&
        !whole_number(value))
        return ValueFault{
            fmt::format("'{}' is no number, which {} must be", printable(value), name),
            "NCCL takes other words for 0"};
    return std::nullopt;
}

}  // namespace toporun::profiles
