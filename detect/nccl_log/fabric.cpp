#include "detect/nccl_log/fabric.hpp"

#include <array>

#include "detect/nccl_log/cursor.hpp"
#include "detect/nccl_log/events.hpp"

namespace toporun::detect::nccl_log {
namespace {

using Parsed = std::optional<Event>;

constexpr std::size_t kLongestName = 64;

/// The next word as a name; "" for one that is none.
std::string name_of(Cursor& cursor) {
    const std::string_view word = cursor.word();
    return word.size() > kLongestName ? std::string() : std::string(word);
}

/// `NAME VALUE` with blanks before.
std::optional<int> value_of(Cursor& cursor, std::string_view name) {
    cursor.skip_blanks();
    Cursor probe = cursor;
    if (!probe.skip(name) || !probe.skip(" ")) return std::nullopt;
    const auto number = probe.number<int>();
    if (!number || *number < 0) return std::nullopt;
    cursor = probe;
    return number;
}

Parsed parse_driver(std::string_view message) {
    Cursor cursor(message);
    const auto version = value_of(cursor, "cudaDriverVersion");
    if (!version || !cursor.rest().empty()) return std::nullopt;
    return CudaDriver{*version};
}

Parsed parse_network_plugin(std::string_view message) {
    constexpr std::array<std::pair<std::string_view, NetworkPlugin::State>, 3> kForms = {
        {{"Initialized NET plugin ", NetworkPlugin::State::initialized},
         {"Assigned NET plugin ", NetworkPlugin::State::assigned},
         {"Failed to initialize NET plugin ", NetworkPlugin::State::failed}}};
    for (const auto& [form, state] : kForms) {
        Cursor cursor(message);
        if (!cursor.skip(form)) continue;
        std::string_view name = cursor.rest();  // may hold blanks
        if (name.ends_with(" to comm")) name.remove_suffix(8);
        if (name.empty() || name.size() > kLongestName) return std::nullopt;
        return NetworkPlugin{std::string(name), state};
    }
    return std::nullopt;
}

/// enum ibv_mtu (verbs.h): 1 = 256 bytes, 5 = 4096.
std::optional<int> mtu_bytes(int code) {
    return code >= 1 && code <= 5 ? std::optional(128 << code) : std::nullopt;
}

Parsed parse_queue_pair(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("NET/IB: ") && !cursor.skip("NET/IB : ")) return std::nullopt;
    (void)cursor.skip("NCCL ");
    QueuePair event;
    const auto device = value_of(cursor, "Dev");
    if (!device) return std::nullopt;
    (void)value_of(cursor, "IbDev");
    const auto port = value_of(cursor, "Port");
    if (!port || !value_of(cursor, "qpn")) return std::nullopt;
    const auto code = value_of(cursor, "mtu");
    const auto mtu = code ? mtu_bytes(*code) : std::nullopt;
    if (!mtu) return std::nullopt;
    event.device = *device;
    event.port = *port;
    event.mtu_bytes = *mtu;
    cursor.skip_blanks();
    if (cursor.skip("query_ece={") && !cursor.until("}")) return std::nullopt;
    event.lid = value_of(cursor, "LID");
    if (!event.lid) event.gid_index = value_of(cursor, "GID");
    return event;
}

Parsed parse_virtual_device(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("NET/IB : Made virtual device [")) return std::nullopt;
    VirtualDevice event;
    const auto number = cursor.number<int>();
    if (!number || !cursor.skip("] name=")) return std::nullopt;
    event.name = name_of(cursor);
    if (event.name.empty() || !cursor.skip(" speed=")) return std::nullopt;
    const auto speed = cursor.number<int>();
    if (!speed || !cursor.skip(" ndevs=")) return std::nullopt;
    const auto ports = cursor.number<int>();
    if (!ports || *ports < 0 || *number < 0 || *speed < 0) return std::nullopt;
    event.number = *number;
    event.mbit_per_s = *speed;
    event.ports = *ports;
    return event;
}

Parsed parse_no_verbs(std::string_view message) {
    if (message.starts_with("Failed to open libibverbs.so") ||
        message.starts_with("Count not open libibverbs.so") ||  // 2.30.3, as it is written there
        message.starts_with("Could not open libibverbs.so"))
        return NoVerbs{};
    return std::nullopt;
}

Parsed parse_mnnvl(std::string_view message) {
    Cursor cursor(message);
    const auto used = value_of(cursor, "MNNVL");
    if (!used) return std::nullopt;
    cursor.skip_blanks();
    if (!cursor.skip("cliqueId ")) return std::nullopt;
    (void)cursor.word();
    const auto size = value_of(cursor, "cliqueSize");
    if (!size) return std::nullopt;
    return Mnnvl{*used == 1, *size};
}

/// `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA`
Parsed parse_coll_net(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("CollNet ") && !cursor.skip("Coll ")) return std::nullopt;
    if (!cursor.number<int>()) return std::nullopt;
    if (cursor.skip("/") && !cursor.number<int>()) return std::nullopt;
    if (!cursor.skip(" : ")) return std::nullopt;
    const auto rank = cursor.number<int>();
    if (!rank || *rank < 0) return std::nullopt;
    if (!cursor.skip(" [send] via COLLNET/") && !cursor.skip(" [receive] via COLLNET/"))
        return std::nullopt;
    const auto network = cursor.until("/");
    if (!network || network->empty() || network->size() > kLongestName) return std::nullopt;
    return CollNet{*rank, std::string(*network), cursor.rest().find("GDRDMA") != message.npos};
}

Parsed parse_no_graph(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Could not find a path for pattern ")) return std::nullopt;
    const auto pattern = cursor.number<int>();
    if (!pattern || *pattern < 0) return std::nullopt;
    return NoGraph{*pattern};
}

}  // namespace

std::optional<Event> parse_fabric(std::string_view message) {
    static constexpr Parser kParsers[] = {{" c", parse_driver},    {"IAF", parse_network_plugin},
                                          {"N", parse_queue_pair}, {"N", parse_virtual_device},
                                          {"FC", parse_no_verbs},  {" M", parse_mnnvl},
                                          {"C", parse_coll_net},   {"C", parse_no_graph}};
    return first_of(kParsers, message);
}

}  // namespace toporun::detect::nccl_log
