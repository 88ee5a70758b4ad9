#include "detect/nccl_log/line.hpp"

#include <fmt/format.h>

#include "detect/nccl_log/cursor.hpp"
#include "detect/nccl_log/events.hpp"
#include "detect/nccl_log/record.hpp"

namespace toporun::detect::nccl_log {
namespace {

/// What may stand before NCCL's own text in a line: nothing, or a launcher's prefix (`0: `,
/// `[rank0]:`, `[1,0]<stdout>:`).
bool is_launcher_prefix(std::string_view text) {
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text.empty() || std::string_view(":>])|").find(text.back()) != std::string_view::npos;
}

/// The version line, which has no record prefix (NCCL src/init.cc showVersion).
Event bare_event(std::string_view line) {
    const std::size_t at = line.find("CCL version");
    if (at == line.npos || at == 0 || !is_launcher_prefix(line.substr(0, at - 1))) return Unknown{};
    return parse_version(line.substr(at - 1)).value_or(Event{Unknown{}});
}

Event record_event(const Record& record) {
    if (record.level == Level::warn) return Warning{record.source, record.message};
    if (record.level != Level::info) return Unknown{};
    return parse_message(record.message);
}

}  // namespace

Line parse_line(std::string_view raw) {
    const std::string line = without_escapes(raw);
    Line result;
    std::optional<FoundRecord> found = find_record(line);
    if (!found) {
        result.record.message = line;
        result.event = bare_event(line);
        return result;
    }
    std::size_t start = found->message_at;
    while (const std::optional<FoundRecord> next =
               find_record(std::string_view(line).substr(start))) {
        result.torn = true;
        found = next;
        start += next->message_at;
    }
    result.record = std::move(found->record);
    result.event = record_event(result.record);
    return result;
}

std::string_view transport_name(Transport transport) {
    switch (transport) {
        case Transport::p2p:
            return "P2P";
        case Transport::p2p_indirect:
            return "P2P-indirect";
        case Transport::shm:
            return "SHM";
        case Transport::net:
            return "NET";
        case Transport::other:
            break;
    }
    return "other";
}

std::optional<std::string> bus_id_text(std::string_view bus_id) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(bus_id.data(), bus_id.data() + bus_id.size(), id, 16);
    if (error != std::errc() || end != bus_id.data() + bus_id.size() || id >> 52 != 0) {
        return std::nullopt;
    }
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", id >> 20, id >> 12 & 0xff, id >> 4 & 0xff,
                       id & 0xf);
}

}  // namespace toporun::detect::nccl_log
