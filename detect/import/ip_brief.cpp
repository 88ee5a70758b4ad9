#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"
#include "detect/import/pasted_interfaces.hpp"

/// `ip -br addr` and `ip -br link`: one line an interface, no numbers.
namespace toporun::detect {
namespace {

constexpr std::array<std::string_view, 7> kStates = {
    "UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING"};  // RFC 2863

/// "02:00:00:00:00:01", of any length: InfiniBand has 20 bytes.
bool hardware_address(std::string_view word) {
    if (word.size() < 5 || word.size() % 3 != 2) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
        const bool hex = (word[i] >= '0' && word[i] <= '9') || (word[i] >= 'a' && word[i] <= 'f');
        if (i % 3 == 2 ? word[i] != ':' : !hex) return false;
    }
    return true;
}

/// The words behind the state. Nothing for a line that is something else.
bool read_rest(std::span<const std::string_view> rest, PastedInterface& pasted) {
    for (std::size_t i = 0; i < rest.size(); ++i) {
        const std::string_view word = rest[i];
        if ((word == "peer" || word == "metric") && i + 1 < rest.size()) {
            // "10.9.0.1 peer 10.9.0.2/32": the length belongs to both.
            const std::size_t slash = rest[i + 1].find('/');
            if (word == "peer" && slash != std::string_view::npos && !pasted.addresses.empty())
                if (const auto both = address_with_prefix(
                        pasted.addresses.back(), number_in(rest[i + 1].substr(slash + 1), 0, 128)))
                    pasted.addresses.back() = *both;
            ++i;
        } else if (word.starts_with('<')) {
            pasted.flags = split(word.substr(1, word.find('>') - 1), ',');
        } else if (const auto address = address_with_prefix(word)) {
            pasted.addresses.push_back(*address);
        } else if (!hardware_address(word)) {
            return false;
        }
    }
    return true;
}

std::optional<PastedInterface> read_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 2 || std::find(kStates.begin(), kStates.end(), parts[1]) == kStates.end())
        return std::nullopt;
    const auto [name, below] = split_at_sign(parts[0]);
    if (!interface_name(name)) return std::nullopt;
    PastedInterface pasted;
    pasted.name = name;
    pasted.below = below;
    pasted.operstate = parts[1];
    if (!read_rest(std::span(parts).subspan(2), pasted)) return std::nullopt;
    return pasted;
}

/// Addresses that the terminal broke onto a line of their own.
bool read_continuation(std::string_view text, PastedInterface& pasted) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.empty() || !address_with_prefix(parts[0])) return false;
    return read_rest(parts, pasted);
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        const auto pasted = read_line(line.text);
        if (!pasted) return false;
        // "NAME STATE" alone is too little, unless the name is an interface's.
        return words(line.text).size() > 2 || kind_of_name(pasted->name).has_value();
    });
}

Reading read(const Lines& lines) {
    PastedInterfaces list;
    std::vector<bool> understood(lines.lines.size(), false);
    std::optional<PastedInterface> open;
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        auto next = read_line(lines.lines[i].text);
        understood[i] = next || (open && read_continuation(lines.lines[i].text, *open));
        if (open && (next || !understood[i])) {
            list.add(std::move(*open));
            open.reset();
        }
        if (next) open = std::move(next);
    }
    if (open) list.add(std::move(*open));
    return {list.machine(), std::move(understood)};
}

}  // namespace

Importer ip_brief_importer() {
    return {"ip -br addr", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
