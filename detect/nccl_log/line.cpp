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
    if (line.find("Pid ") != line.npos)
        if (auto rank = parse_test_rank(line)) return *rank;
    const std::size_t at = line.find("CCL version");
    if (at == line.npos || at == 0 || !is_launcher_prefix(line.substr(0, at - 1))) return Unknown{};
    return parse_version(line.substr(at - 1)).value_or(Event{Unknown{}});
}

Event record_event(const Record& record) {
    if (record.level == Level::warn)
        return Warning{std::string(record.source), std::string(record.message)};
    if (record.level != Level::info) return Unknown{};
    return record.old_form ? parse_old_message(record.message) : parse_message(record.message);
}

}  // namespace

Line parse_line(std::string_view line) {
    constexpr std::string_view kLevel = "] NCCL INFO";
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    Line result;
    std::optional<FoundRecord> found = find_record(line);
    if (!found) {
        result.record.message = line;
        result.event = bare_event(line);
        return result;
    }
    while (const std::optional<FoundRecord> next = find_record(found->record.message)) {
        result.torn = true;
        found = next;
    }
    result.record = found->record;
    if (result.record.level == Level::info && result.record.message.find(kLevel) != line.npos) {
        result.torn = true;  // the end of a record whose prefix is torn
        return result;
    }
    result.event = record_event(result.record);
    return result;
}

std::string_view plain_line(std::string_view line, std::string& buffer) {
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    if (line.find('\x1b') == line.npos) return line;
    buffer.clear();
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] != '\x1b' || i + 1 >= line.size() || line[i + 1] != '[') {
            buffer += line[i];
            continue;
        }
        std::size_t end = i + 2;  // parameter and intermediate bytes, then one final byte
        while (end < line.size() && line[end] >= 0x20 && line[end] <= 0x3f) ++end;
        i = end < line.size() ? end : line.size() - 1;
    }
    return buffer;
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
