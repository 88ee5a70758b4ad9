#include "env/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace toporun::env {
namespace {

constexpr std::size_t kLongestName = 255;  // of DNS
constexpr std::size_t kMostDigits = 18;    // fits in long long

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
    throw Error(fmt::format("'{}' is no list of hosts: {}", printable(part.substr(0, 80)), why), {},
                "write it as Slurm does, for example gpu-[1-3,10]");
}

/// The commas that are not in brackets.
std::vector<std::string_view> outer_parts(std::string_view list) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= list.size(); ++i) {
        const char c = i < list.size() ? list[i] : ',';
        if (i == list.size() && inside) refuse(list.substr(begin), "a bracket is not closed");
        if (c == '[') {
            if (inside) refuse(list.substr(begin), "a bracket inside a bracket");
            inside = true;
        } else if (c == ']') {
            if (!inside) refuse(list.substr(begin), "a bracket was not opened");
            inside = false;
        } else if (c == ',' && !inside) {
            parts.push_back(trim(list.substr(begin, i - begin)));
            begin = i + 1;
        }
    }
    return parts;
}

long long number_of(std::string_view digits, std::string_view part) {
    const bool plain =
        !digits.empty() && digits.size() <= kMostDigits &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = plain ? to_integer(digits) : std::nullopt;
    if (!number) refuse(part, "between brackets stand numbers and ranges");
    return *number;
}

/// "1-3,010": 1, 2, 3, 010.
std::vector<std::string> numbers(std::string_view inside, std::string_view part) {
    std::vector<std::string> found;
    for (const std::string& range : split(inside, ',')) {
        const std::string_view text = trim(range);
        const std::size_t dash = text.find('-');
        const std::string_view low_text = text.substr(0, dash);
        const std::string_view high_text =
            dash == std::string_view::npos ? low_text : text.substr(dash + 1);
        const long long low = number_of(low_text, part), high = number_of(high_text, part);
        if (low > high) refuse(part, "a range runs backwards");
        if (static_cast<unsigned long long>(high - low) >= kMostHosts - found.size())
            refuse(part, fmt::format("more than {} hosts", kMostHosts));
        const bool zeros = low_text.size() > 1 && low_text.front() == '0';
        for (long long i = low; i <= high; ++i)
            found.push_back(zeros ? fmt::format("{:0{}}", i, low_text.size()) : std::to_string(i));
    }
    return found;
}

void check_name(std::string_view name, std::string_view part) {
    const bool printable_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c > 0x20 && c != 0x7f && c != '=' && c != '"' && c != '\'' && c != '\\';
    });
    if (name.empty() || name.size() > kLongestName || !printable_name || name.front() == '-')
        refuse(part, "a host's name has no blanks and at most 255 characters");
}

void expand(std::string_view part, std::vector<std::string>& hosts) {
    std::vector<std::string> names = {""};
    for (std::size_t at = 0; at < part.size();) {
        const std::size_t open = std::min(part.find('[', at), part.size());
        for (std::string& name : names) name += part.substr(at, open - at);
        if (open == part.size()) break;
        const std::size_t close = part.find(']', open);  // outer_parts() has seen it
        const std::vector<std::string> choices =
            numbers(part.substr(open + 1, close - open - 1), part);
        if (names.size() * choices.size() > kMostHosts - hosts.size())
            refuse(part, fmt::format("more than {} hosts", kMostHosts));
        std::vector<std::string> longer;
        longer.reserve(names.size() * choices.size());
        for (const std::string& name : names)
            for (const std::string& choice : choices) longer.push_back(name + choice);
        names = std::move(longer);
        if (names.front().size() > kLongestName) check_name(names.front(), part);
        at = close + 1;
    }
    if (names.size() > kMostHosts - hosts.size())
        refuse(part, fmt::format("more than {} hosts", kMostHosts));
    for (std::string& name : names) {
        check_name(name, part);
        hosts.push_back(std::move(name));
    }
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
    std::vector<std::string> hosts;
    for (const std::string_view part : outer_parts(list))
        if (!part.empty()) expand(part, hosts);
    return hosts;
}

}  // namespace toporun::env
