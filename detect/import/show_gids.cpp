#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `show_gids`: a row per entry of the GID tables, DEV PORT INDEX GID [IPv4] [VER] [DEV].
namespace toporun::detect {
namespace {

struct Row {
    std::string_view device;
    int port = 0;
    Gid gid;
};

std::optional<Row> read_row(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 4 || parts.size() > 7 || !rdma_name(parts[0])) return std::nullopt;
    const auto port = number_in(parts[1], 1, 255);
    const auto index = number_in(parts[2], 0, 65535);
    if (!port || !index) return std::nullopt;
    std::string_view type;
    std::string_view interface;
    for (std::size_t i = 4; i < parts.size(); ++i) {
        if (parts[i] == "v1" || parts[i] == "v2")
            type = parts[i];
        else if (!address_with_prefix(parts[i]))  // the IPv4 column repeats the GID
            interface = parts[i];
    }
    auto gid = listed_gid(*index, parts[3], type, interface);
    if (!gid) return std::nullopt;
    return Row{parts[0], *port, std::move(*gid)};
}

bool frame_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.empty()) return true;
    return (parts.size() > 3 && parts[0] == "DEV" && parts[1] == "PORT") ||
           text.find_first_not_of("- \t") == std::string_view::npos ||
           trim(text).starts_with("n_gids_found");
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return read_row(line.text).has_value(); });
}

Reading read(const Lines& lines) {
    Reading reading;
    std::vector<PastedPort> ports;
    std::map<std::pair<std::string, int>, std::size_t> known;
    for (const PastedLine& line : lines.lines) {
        auto row = read_row(line.text);
        reading.understood.push_back(row || frame_line(line.text));
        if (!row) continue;
        const auto [at, added] =
            known.try_emplace({std::string(row->device), row->port}, ports.size());
        if (added) {
            ports.emplace_back();
            ports.back().device = row->device;
            ports.back().port = row->port;
        }
        PastedPort& port = ports[at->second];
        // Later entries may be of VLANs; the first is of the port's own interface.
        if (port.interface.empty()) port.interface = row->gid.interface;
        if (!row->gid.type.empty()) port.link_layer = "Ethernet";
        port.gids.push_back(std::move(row->gid));
    }
    reading.machine = machine_of_ports(ports);
    return reading;
}

}  // namespace

Importer show_gids_importer() {
    return {"show_gids", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
