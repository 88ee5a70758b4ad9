#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"
#include "detect/network/interface_names.hpp"

/// What network tools print of an interface or of an RDMA port, and what follows from it. Shared by
/// the importers of these tools.
namespace toporun::detect {

/// PastedInterface::link_type of a form that prints none: the name alone tells the kind.
inline constexpr std::string_view kUntoldLink = "untold";

/// An interface as a tool lists it. Empty = the tool did not say.
struct PastedInterface {
    std::string name;
    std::string below;               ///< the name behind `@`: parent or peer, "if12" elsewhere
    int os_index = 0;                ///< 0 = unknown
    std::vector<std::string> flags;  ///< "UP", "LOWER_UP", "NO-CARRIER", "RUNNING", "SLAVE", ...
    std::string link_type;           ///< `ip`'s words: "ether", "infiniband", "loopback", "none"
    std::string info_kind;           ///< of `ip -d`: "bond", "vlan", "veth", ...
    std::string operstate;           ///< "UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", ...
    std::string master;
    std::optional<int> mtu;
    std::vector<std::string> addresses;
    bool details_cut = false;  ///< `ip -d` without what it prints last: the kind may be missing

    bool flag(std::string_view word) const;
};

/// Kind and state decided, everything safe to print.
Nic to_nic(const PastedInterface& pasted);

/// An interface of which nothing but the name is known; of kind `other` where that tells nothing.
Nic nic_of_name(std::string_view name);

/// A name the kernel would take: 1 to 15 bytes, no blank, '/', ':' or control byte.
bool interface_name(std::string_view word);

/// "eth0@if7" cut into "eth0" and "if7"; the second is empty without `@` and for "NONE".
std::pair<std::string_view, std::string_view> split_at_sign(std::string_view word);

/// "10.0.0.1/24", "fe80::1/64", "10.0.0.1" in canonical form; nothing for anything else. A prefix
/// length of its own counts only where the text has none.
std::optional<std::string> address_with_prefix(std::string_view text,
                                               std::optional<int> prefix = std::nullopt);

/// An integer from `low` to `high`, the whole word.
std::optional<int> number_in(std::string_view word, int low, int high);

/// A port of an RDMA device as a tool lists it. Empty = the tool did not say.
struct PastedPort {
    std::string device;
    std::optional<int> port;
    std::string state;            ///< "ACTIVE", "PORT_ACTIVE", "4: ACTIVE", "Active", "Down", ...
    std::string link_layer;       ///< "InfiniBand", "Ethernet", "Unspecified"
    std::string interface;        ///< the network device of the port
    std::string interface_state;  ///< "up", "down"
    std::optional<double> rate_gbits;
    std::optional<int> mtu;
    std::string guid;  ///< of the device, any of the usual spellings
    std::string vendor_id;
    bool iwarp = false;
    std::optional<PciAddress> pci;
    std::optional<int> numa_node;
    std::vector<Gid> gids;
    std::vector<PortCounter> errors;
};

// Each of these says whether the value is one that tools print; what is not (a word that is cut)
// is not taken.
bool take_state(std::string_view value, PastedPort& port);
bool take_link_layer(std::string_view value, PastedPort& port);
/// `unit`: what stands behind the number, "" for nothing.
bool take_rate(std::string_view value, std::string_view unit, PastedPort& port);
bool take_guid(std::string_view value, PastedPort& port);

/// rdma-core's name for a device of neither InfiniBand, RoCE nor iWARP, by its bus id: "rdmap79s0"
/// (kernel-boot/rdma_rename.c). In machines with GPUs that is EFA.
bool named_efa(std::string_view device);

/// "::" in any length: an entry of a GID table that is not in use.
bool empty_gid(std::string_view address);

/// Named after the device; EFA, RoCE and InfiniBand told apart.
Nic to_nic(const PastedPort& pasted);

/// The ports as a machine of which nothing else is known: a port whose `interface` is named by no
/// port before it becomes the Nic of that interface, with the device in it; the others are named
/// after their device, with that interface as Nic::master: several ports have a bond in common. A
/// port that was there already is of another machine (or printed twice): it is left out and told in
/// Machine::notes.
Machine machine_of_ports(const std::vector<PastedPort>& ports);

/// An entry of a GID table; nothing when `address` is no IPv6 address or an empty entry. `type`:
/// "RoCE v2", "v2", "IB/RoCE v1", ...
std::optional<Gid> listed_gid(int index, std::string_view address, std::string_view type,
                              std::string_view interface);

/// The first number of "400 Gb/sec (4X NDR)", "200", "100.0 Gbps (128)", if it is a rate.
std::optional<double> listed_rate(std::string_view text);

/// "key" and "value" of "  key:   value", trimmed; nothing without a colon.
std::optional<std::pair<std::string_view, std::string_view>> key_and_value(std::string_view line);

/// A RDMA device's name: letters, digits, '_', '-', '.', at most 63.
bool rdma_name(std::string_view word);

}  // namespace toporun::detect
