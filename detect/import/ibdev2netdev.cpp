#include <algorithm>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `ibdev2netdev`, with and without -v: "mlx5_0 port 1 ==> eth0 (Up)", and `rdma link`:
/// "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0".
namespace toporun::detect {
namespace {

std::string_view without_brackets(std::string_view word) {
    if (word.starts_with('(')) word.remove_prefix(1);
    if (word.ends_with(')')) word.remove_suffix(1);
    return word;
}

/// "0000:18:00.0 mlx5_0 (MT4129 - ...) ... port 1 (ACTIVE)", all but the first word of -v optional.
bool read_left(const std::vector<std::string_view>& parts, PastedPort& port) {
    std::size_t at = 0;
    if (!parts.empty()) port.pci = PciAddress::parse(parts[0]);
    if (port.pci) ++at;
    if (at >= parts.size() || !rdma_name(parts[at])) return false;
    port.device = parts[at];
    for (std::size_t i = at + 1; i + 1 < parts.size(); ++i) {
        if (parts[i] != "port") continue;
        port.port = number_in(parts[i + 1], 1, 255);
        if (i + 2 < parts.size() && !take_state(without_brackets(parts[i + 2]), port)) return false;
        return port.port.has_value();
    }
    return false;
}

std::optional<PastedPort> read_netdev_line(std::string_view text) {
    const std::size_t arrow = text.find("==>");
    if (arrow == std::string_view::npos) return std::nullopt;
    PastedPort port;
    if (!read_left(words(text.substr(0, arrow)), port)) return std::nullopt;
    for (const std::string_view word : words(text.substr(arrow + 3))) {
        if (word.starts_with('#') && !port.interface_state.empty()) break;  // somebody's remark
        if (!word.starts_with('(') && port.interface.empty() && interface_name(word))
            port.interface = word;
        else if (word == "(Up)")
            port.interface_state = "up";
        else if (word == "(Down)")
            port.interface_state = "down";
        else
            return std::nullopt;
    }
    // A script without the state of the interface prints a name alone.
    return port.interface.empty() ? std::nullopt : std::optional(port);
}

std::optional<PastedPort> read_rdma_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 4 || parts[0] != "link") return std::nullopt;
    const std::size_t slash = parts[1].find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    PastedPort port;
    port.device = parts[1].substr(0, slash);
    port.port = number_in(parts[1].substr(slash + 1), 1, 255);
    if (!port.port || !rdma_name(port.device)) return std::nullopt;
    for (std::size_t i = 2; i + 1 < parts.size(); ++i) {
        if (parts[i] == "state" && !take_state(parts[i + 1], port)) return std::nullopt;
        if (parts[i] == "sm_lid") port.link_layer = "InfiniBand";
        if (parts[i] == "netdev" && interface_name(parts[i + 1])) port.interface = parts[i + 1];
    }
    return port.state.empty() ? std::nullopt : std::optional(port);
}

/// The tool sorts mlx5_10 before mlx5_2, the kernel numbers devices in the order in which it found
/// them.
bool by_number(const PastedPort& a, const PastedPort& b) {
    const auto devices = compare_by_number(a.device, b.device);
    return devices != 0 ? devices < 0 : a.port < b.port;
}

template <std::optional<PastedPort> (*read_line)(std::string_view)>
bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return read_line(line.text).has_value(); });
}

template <std::optional<PastedPort> (*read_line)(std::string_view)>
Reading read(const Lines& lines) {
    Reading reading;
    std::vector<PastedPort> ports;
    for (const PastedLine& line : lines.lines) {
        auto port = read_line(line.text);
        reading.understood.push_back(port.has_value());
        if (port) ports.push_back(std::move(*port));
    }
    std::stable_sort(ports.begin(), ports.end(), by_number);
    reading.machine = machine_of_ports(ports);
    return reading;
}

}  // namespace

Importer ibdev2netdev_importer() {
    return {"ibdev2netdev", recognise<read_netdev_line>, read_to_open_end<read<read_netdev_line>>};
}

Importer rdma_link_importer() {
    return {"rdma link", recognise<read_rdma_line>, read_to_open_end<read<read_rdma_line>>};
}

}  // namespace toporun::detect
