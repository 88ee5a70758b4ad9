#include "detect/nccl_log/events.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "detect/nccl_log/cursor.hpp"

namespace toporun::detect::nccl_log {
namespace {

using Parsed = std::optional<Event>;

/// `[0]` in front of a list entry, skipped.
void skip_index(Cursor& cursor) {
    Cursor probe = cursor;
    if (probe.skip("[") && probe.number<int>() && probe.skip("]")) cursor = probe;
}

/// `eth0:10.0.0.1<0>`; the port is behind the last '<' (an IPv6 address has colons).
std::optional<Interface> parse_interface(std::string_view word) {
    Cursor cursor(word);
    skip_index(cursor);
    const auto name = cursor.until(":");
    if (!name || name->empty()) return std::nullopt;
    const std::size_t port = cursor.rest().rfind('<');
    if (port == std::string_view::npos) return std::nullopt;
    return Interface{std::string(*name), std::string(cursor.rest().substr(0, port))};
}

std::vector<Interface> parse_interfaces(std::string_view text) {
    std::vector<Interface> result;
    for (Cursor cursor(text); !cursor.rest().empty();) {
        if (auto interface = parse_interface(cursor.word()))
            result.push_back(std::move(*interface));
        cursor.skip_blanks();
    }
    return result;
}

/// `[0]mlx5_0:1/IB [1]={[0] mlx5_1:1/IB, [1] mlx5_2:1/IB} [RO]` -> the ports. Names with a colon
/// only: indices, braces and marks are no ports.
std::vector<std::string> parse_ports(std::string_view text) {
    std::vector<std::string> result;
    for (Cursor cursor(text); !cursor.rest().empty(); cursor.skip_blanks()) {
        Cursor word(cursor.word());
        skip_index(word);
        (void)word.skip("=");
        (void)word.skip("{");
        skip_index(word);
        std::string_view port = word.rest();
        while (!port.empty() && (port.back() == ',' || port.back() == '}')) port.remove_suffix(1);
        if (port.find(':') != std::string_view::npos) result.emplace_back(port);
    }
    return result;
}

Parsed parse_bootstrap(std::string_view message) {
    Cursor cursor(message);
    // The last form is that of 2.2.
    if (!cursor.skip("Bootstrap : Using ") && !cursor.skip("Bootstrap: Using ") &&
        !cursor.skip("NET : Using interface "))
        return std::nullopt;
    Bootstrap event{parse_interfaces(cursor.rest())};
    if (event.interfaces.empty()) {  // NCCL_OOB_NET_ENABLE: an RDMA device, `mlx5_0:1`
        const std::string_view device = cursor.word();
        event.interfaces.push_back({std::string(device.substr(0, device.find(':'))), ""});
    }
    return event;
}

Parsed parse_network(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("NET/")) return std::nullopt;
    const std::string_view network = cursor.rest().substr(0, cursor.rest().find_first_of(" :"));
    if (network.empty() || network == "Plugin") return std::nullopt;
    (void)cursor.skip(network);
    cursor.skip_blanks();
    if (!cursor.skip(":")) return std::nullopt;
    cursor.skip_blanks();
    NetworkDevices event;
    event.network = network;
    if (cursor.skip("No device found")) {
        event.none = true;
        return event;
    }
    if (!cursor.skip("Using ")) return std::nullopt;
    const std::size_t oob = cursor.rest().find("OOB ");
    if (oob == std::string_view::npos) {
        event.interfaces = parse_interfaces(cursor.rest());
        if (event.interfaces.empty()) event.devices = parse_ports(cursor.rest());
    } else {
        event.devices = parse_ports(cursor.rest().substr(0, oob));
        event.interfaces = parse_interfaces(cursor.rest().substr(oob + 4));
    }
    // "Using adaptive routing", "Using proxy..." of plugins: no device list.
    if (oob == std::string_view::npos && event.interfaces.empty() && event.devices.empty()) {
        return std::nullopt;
    }
    return event;
}

Parsed parse_using_network(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Using network ") && !cursor.skip("Using internal Network ")) {
        return std::nullopt;
    }
    const std::string_view name = trim(cursor.rest());
    if (name.empty()) return std::nullopt;
    return UsingNetwork{std::string(name)};
}

bool is_plugin_kind(std::string_view kind) {
    return !kind.empty() && kind.size() <= 16 &&
           kind.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
}

/// `Loaded net plugin Libfabric (v8)`, `Loaded profiler plugin Name`, `Loaded Name (v4)`.
std::string loaded_name(Cursor cursor) {
    Cursor probe = cursor;
    (void)probe.word();
    if (probe.skip(" plugin ")) cursor = probe;
    std::string_view name = cursor.rest();
    return std::string(trim(name.substr(0, name.rfind(" (v"))));
}

/// `NET/Plugin: ...`, `PROFILER/Plugin: ...` and the like.
Parsed parse_plugin(std::string_view message) {
    Cursor cursor(message);
    if (cursor.skip("NET/OFI Initializing aws-ofi-nccl ")) {
        constexpr std::size_t kLongest = 64;
        return Plugin{"NET", "aws-ofi-nccl " + std::string(cursor.word().substr(0, kLongest)),
                      true};
    }
    constexpr std::size_t kLongest = 32;
    if (message.substr(0, kLongest).find("/Plugin") == message.npos) return std::nullopt;
    const auto kind = cursor.until("/Plugin");
    if (!kind || !is_plugin_kind(*kind)) return std::nullopt;
    cursor.skip_blanks();
    if (!cursor.skip(":")) return std::nullopt;
    cursor.skip_blanks();
    if (cursor.skip("Loaded ") || cursor.skip("loaded ")) {
        return Plugin{std::string(*kind), loaded_name(cursor), true};
    }
    if (cursor.skip("Could not find: ")) {
        std::string_view name = cursor.word();
        while (name.ends_with('.')) name.remove_suffix(1);
        return Plugin{std::string(*kind), std::string(name), false};
    }
    if (cursor.skip("No plugin found") || cursor.skip("Plugin load ") ||
        cursor.skip("Using internal ")) {
        return Plugin{std::string(*kind), "", false};
    }
    return std::nullopt;
}

/// The unsigned hexadecimal number that NCCL prints with %p or %lx.
bool is_hex_word(std::string_view word) {
    const std::string_view digits = word.starts_with("0x") ? word.substr(2) : word;
    const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return !digits.empty() && digits.size() <= 16 && std::all_of(digits.begin(), digits.end(), hex);
}

std::string hex_word(std::string_view word) {
    return is_hex_word(word) ? std::string(word) : std::string();
}

/// Name and value of an `Init` line; false when the value is not what the name promises.
bool read_init_field(std::string_view name, std::string_view value, Init& init) {
    while (value.ends_with('-')) value.remove_suffix(1);  // 2.23: "key 0- Init START"
    const auto number = whole_number<int>(value);
    if (name == "rank") return number ? init.rank = *number, true : false;
    if (name == "nranks") return number ? init.ranks = *number, true : false;
    if (name == "cudaDev") return (init.cuda_device = number).has_value();
    if (name == "nvmlDev") return (init.nvml_device = number).has_value();
    if (name == "color") return (init.color = number).has_value();
    if (name == "splitCount" || name == "childCount") return (init.split = number).has_value();
    if (name == "busId") return !(init.bus_id = hex_word(value)).empty();
    if (name == "commId") return !(init.id = hex_word(value)).empty();
    if (name == "parent") return !(init.parent = hex_word(value)).empty();
    return true;  // a field of a later version
}

/// `comm 0x.. rank 0 nranks 8 cudaDev 0 ...`
Parsed parse_member(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.until("comm ")) return std::nullopt;
    Init init;
    init.communicator = hex_word(cursor.word());
    if (init.communicator.empty()) return std::nullopt;
    init.ranks = -1;
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        const std::string_view name = cursor.word();
        if (!read_init_field(name, cursor.word(), init)) return std::nullopt;
    }
    if (init.rank < 0 || init.ranks <= init.rank) return std::nullopt;
    return init;
}

Parsed parse_init(std::string_view message) {
    constexpr std::string_view kStart = "- Init START";
    constexpr std::string_view kComplete = "- Init COMPLETE";
    if (message.back() != 'T' && message.back() != 'E' && message.back() > ' ') return std::nullopt;
    message = trim(message);
    const bool complete = message.ends_with(kComplete);
    if (!complete && !message.ends_with(kStart)) return std::nullopt;
    message.remove_suffix((complete ? kComplete : kStart).size());
    Parsed event = parse_member(message);
    if (event) std::get<Init>(*event).complete = complete;
    return event;
}

Parsed parse_shape(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("comm ")) return std::nullopt;
    CommunicatorShape shape;
    shape.communicator = hex_word(cursor.word());
    const auto field = [&](std::string_view name, int& value) {
        if (!cursor.skip(name)) return false;
        const auto number = cursor.number<int>();
        value = number.value_or(0);
        return number.has_value();
    };
    const bool whole = !shape.communicator.empty() && field(" rank ", shape.rank) &&
                       field(" nRanks ", shape.ranks) && field(" nNodes ", shape.nodes) &&
                       field(" localRanks ", shape.local_ranks);
    if (!whole) return std::nullopt;
    return shape;
}

void classify(Connection& connection) {
    const std::string_view via = connection.via;
    if (via.starts_with("P2P/indirect")) {
        connection.transport = Transport::p2p_indirect;
    } else if (via.starts_with("P2P")) {
        connection.transport = Transport::p2p;
    } else if (via.starts_with("SHM") || via.starts_with("direct shared memory")) {
        connection.transport = Transport::shm;
    } else if (via.starts_with("NET/")) {
        connection.transport = Transport::net;
        connection.gpu_direct = via.find("/GDRDMA") != via.npos;
        std::string_view name = via.substr(4);  // may hold blanks: "AWS Libfabric/2/GDRDMA"
        connection.network = name.substr(0, name.find('/'));
    }
}

/// Names of networks may hold blanks, RCCL appends "comm 0x.. nRanks 08"; another word is the rest
/// of another line.
bool is_via(const Connection& connection) {
    const std::size_t blank = connection.via.find(' ');
    return blank == connection.via.npos || connection.transport == Transport::net ||
           connection.via.starts_with("direct shared memory") ||
           connection.via.substr(blank).starts_with(" comm ") ||
           connection.via.starts_with("P2P/direct pointer");
}

/// `0[1a000]`: rank and device.
bool read_end(Cursor& cursor, int& rank, std::string_view& device) {
    const auto number = cursor.number<int>();
    if (!number || *number < 0 || !cursor.skip("[")) return false;
    const auto inside = cursor.until("]");
    if (!inside || !is_hex_word(*inside)) return false;
    rank = *number;
    device = *inside;
    return true;
}

Parsed parse_connection(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Channel ") && !cursor.skip("Ring ")) return std::nullopt;
    Connection connection;
    const auto channel = cursor.number<int>();
    if (!channel) return std::nullopt;
    connection.channel = *channel;
    if (cursor.skip("/")) connection.index = cursor.number<int>();
    if (!cursor.skip(" : ")) return std::nullopt;
    if (!read_end(cursor, connection.from, connection.from_device) || !cursor.skip(" -> ") ||
        !read_end(cursor, connection.to, connection.to_device)) {
        return std::nullopt;
    }
    if (cursor.skip(" [send]")) connection.direction = "send";
    if (cursor.skip(" [receive]")) connection.direction = "receive";
    if (!cursor.skip(" via ")) return std::nullopt;
    connection.via = trim(cursor.rest());
    classify(connection);
    if (!is_via(connection)) return std::nullopt;
    return connection;
}

bool is_variable_name(std::string_view name) {
    return (name.starts_with("NCCL_") || name.starts_with("RCCL_")) && name.size() <= 64 &&
           name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == name.npos;
}

/// `NCCL_P2P_LEVEL set by environment to NVL`; numbers end in a full stop (NCCL src/misc/param.cc).
Parsed parse_variable(std::string_view message) {
    Cursor cursor(message);
    Variable variable;
    variable.name = cursor.word();
    if (!is_variable_name(variable.name)) return std::nullopt;
    if (cursor.skip(" set by ")) {
        const auto origin = cursor.until(" to ");
        if (!origin) return std::nullopt;
        variable.origin = *origin;
    } else if (!cursor.skip(" set to ")) {
        return std::nullopt;
    }
    std::string_view value = cursor.rest();
    if (value.ends_with('.') && whole_number<long long>(value.substr(0, value.size() - 1))) {
        value.remove_suffix(1);
    }
    variable.value = value;
    return variable;
}

/// `Successfully loaded external network plugin libnccl-net.so` (2.28 and later).
Parsed parse_loaded_library(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Successfully loaded external ")) return std::nullopt;
    const auto kind = cursor.until(" plugin ");
    if (!kind) return std::nullopt;
    struct Row {
        std::string_view word;
        std::string_view kind;
    };
    constexpr Row kKinds[] = {{"network", "NET"}, {"profiler", "PROFILER"}, {"tuner", "TUNER"}};
    for (const Row& row : kKinds) {
        if (*kind == row.word) {
            return Plugin{std::string(row.kind), std::string(trim(cursor.rest())), true};
        }
    }
    return std::nullopt;
}

}  // namespace

Parsed parse_version(std::string_view message) {
    Cursor cursor(message);
    Version version;
    version.rccl = cursor.skip("RCCL version ");
    if (!version.rccl && !cursor.skip("NCCL version ")) return std::nullopt;
    if (version.rccl) {
        cursor.skip_blanks();
        (void)cursor.skip(":");
        cursor.skip_blanks();
    }
    const auto major = cursor.number<int>();
    if (!major || !cursor.skip(".")) return std::nullopt;
    const auto minor = cursor.number<int>();
    if (!minor || !cursor.skip(".")) return std::nullopt;
    const auto patch = cursor.number<int>();
    if (!patch || *major < 0 || *minor < 0 || *patch < 0) return std::nullopt;
    version.version = fmt::format("{}.{}.{}", *major, *minor, *patch);
    std::string_view word = cursor.word();
    const std::size_t plus = word.find('+');
    version.suffix = word.substr(0, plus);
    if (plus != std::string_view::npos) version.toolkit = word.substr(plus + 1);
    // A sentence about some version ("NCCL version 2.10.3 or newer is needed") is no version line.
    if (!version.rccl && version.toolkit.empty()) return std::nullopt;
    return version;
}

Event parse_old_message(std::string_view message) {
    Event event = parse_message(message);
    if (event.index() == 0 && message.starts_with("comm 0x"))
        return parse_member(trim(message)).value_or(std::move(event));
    return event;
}

Event parse_message(std::string_view message) {
    if (const auto collective = parse_collective(message)) return *collective;
    return parse_other_message(message);
}

Event parse_other_message(std::string_view message) {
    static constexpr Parser kParsers[] = {
        {"CR", parse_connection},   {"NR ", parse_variable},
        {"", parse_init},           {"c", parse_shape},
        {"BN", parse_bootstrap},    {"N", parse_network},
        {"U", parse_using_network}, {"ABCDEFGHIJKLMNOPQRSTUVWXYZ", parse_plugin},
        {"NR", parse_version},      {"S", parse_loaded_library}};
    if (Parsed event = first_of(kParsers, message)) return std::move(*event);
    if (Parsed event = parse_fabric(message)) return std::move(*event);
    return parse_setup(message).value_or(Event{Unknown{}});
}

}  // namespace toporun::detect::nccl_log
