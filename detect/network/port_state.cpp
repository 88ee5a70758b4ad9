#include "detect/network/port_state.hpp"

#include <cctype>
#include <utility>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// Words of Linux drivers/infiniband/core/sysfs.c, of libibverbs (ibv_port_state_str, without
/// "PORT_"), of infiniband-diags and of iproute2.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"down", "down"},         {"init", "init"},
    {"initializing", "init"}, {"armed", "armed"},
    {"active", "active"},     {"active_defer", "down"},
    {"activedefer", "down"},  {"nop", ""},
    {"unknown", ""},          {"???", ""},
    {"invalid state", ""},
};

/// "4: ACTIVE": "ACTIVE". "PORT_ACTIVE (4)": "PORT_ACTIVE".
std::string_view without_number(std::string_view text) {
    if (const std::size_t colon = text.find(':'); colon != std::string_view::npos)
        return trim(text.substr(colon + 1));
    if (const std::size_t bracket = text.find('('); bracket != std::string_view::npos)
        return trim(text.substr(0, bracket));
    return text;
}

}  // namespace

std::optional<std::string> port_state_of(std::string_view text) {
    std::string word(without_number(trim(text)));
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string_view bare =
        word.starts_with("port_") ? std::string_view(word).substr(5) : std::string_view(word);
    for (const auto& [known, state] : kWords)
        if (bare == known) return std::string(state);
    return std::nullopt;
}

}  // namespace toporun::detect
