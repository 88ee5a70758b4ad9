#include "detect/network/routes.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned long kRouteUp = 0x1;  // linux/route.h
constexpr unsigned long kRouteReject = 0x200;

std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : line + " ") {
        if (c != ' ' && c != '\t') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(std::move(word));
            word.clear();
        }
    }
    return words;
}

std::optional<unsigned long> number(const std::string& text, int base) {
    unsigned long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

bool all_zero(const std::string& text) {
    return text.find_first_not_of('0') == std::string::npos;
}

struct Columns {
    std::size_t interface, destination, mask, flags, metric, count;
    int metric_base;
};
constexpr Columns kIpv4{0, 1, 7, 3, 6, 8, 10};
constexpr Columns kIpv6{9, 0, 1, 8, 5, 10, 16};

std::string best_default(const std::string& table, const Columns& columns) {
    std::string best;
    unsigned long best_metric = UINT64_MAX;
    for (const std::string& line : split(table, '\n')) {
        const std::vector<std::string> words = words_of(line);
        if (words.size() < columns.count || !all_zero(words[columns.destination]) ||
            !all_zero(words[columns.mask]))
            continue;
        const auto flags = number(words[columns.flags], 16);
        const auto metric = number(words[columns.metric], columns.metric_base);
        if (!flags || !metric || (*flags & kRouteUp) == 0 || (*flags & kRouteReject) != 0) continue;
        const std::string& interface = words[columns.interface];
        if (interface == "lo" || *metric >= best_metric) continue;
        best = interface;
        best_metric = *metric;
    }
    return best;
}

}  // namespace

std::string default_route_interface(const Files& files) {
    std::string best = best_default(files.read("/proc/net/route").value_or(""), kIpv4);
    if (best.empty()) best = best_default(files.read("/proc/net/ipv6_route").value_or(""), kIpv6);
    return printable(best);
}

}  // namespace toporun::detect
