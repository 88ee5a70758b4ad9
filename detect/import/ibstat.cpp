#include <algorithm>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `ibstat` and `ibstatus`: a block per port, in ibstat below one per device.
namespace toporun::detect {
namespace {

/// The word of "CA 'mlx5_0'" and of "Infiniband device 'mlx5_0' port 1 status:"; "" for other
/// lines.
std::string_view quoted_device(std::string_view text) {
    const std::string_view line = trim(text);
    if (!line.starts_with("CA ") && !line.starts_with("CA: ") &&
        !line.starts_with("Infiniband device "))
        return {};
    const std::size_t begin = line.find('\'');
    if (begin == std::string_view::npos) return {};
    const std::string_view rest = line.substr(begin + 1);
    const std::string_view device = rest.substr(0, rest.find('\''));
    return rdma_name(device) ? device : std::string_view();
}

/// The number of "Port 1:" and of "... port 1 status:".
std::optional<int> port_number(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != "Port" && parts[i] != "port") continue;
        std::string_view number = parts[i + 1];
        if (number.ends_with(':')) number.remove_suffix(1);
        return number_in(number, 1, 255);
    }
    return std::nullopt;
}

class Blocks {
  public:
    bool read_line(std::string_view text) {
        if (const std::string_view device = quoted_device(text); !device.empty()) {
            device_ = {};
            device_.device = device;
            in_port_ = false;
            if (const auto port = port_number(text)) open_port(*port);
            return true;
        }
        if (device_.device.empty()) return false;
        const auto pair = key_and_value(text);
        if (!pair) return trim(text).empty();
        if (pair->second.empty() && pair->first.starts_with("Port ")) {
            const auto port = port_number(text);
            if (port) open_port(*port);
            return port.has_value();
        }
        return fact(pair->first, pair->second);
    }

    std::vector<PastedPort> ports;

  private:
    void open_port(int number) {
        ports.push_back(device_);
        ports.back().port = number;
        in_port_ = true;
    }

    bool fact(std::string_view key, std::string_view value) {
        if (key == "Node GUID") return take_guid(value, device_);
        return in_port_ ? port_fact(key, value, ports.back()) : known(key);
    }

    static bool port_fact(std::string_view key, std::string_view value, PastedPort& port) {
        if (key == "State" || key == "state") return take_state(value, port);
        if (key == "Link layer" || key == "link_layer") return take_link_layer(value, port);
        if (key == "Rate") return take_rate(value, "", port);
        if (key == "rate") return take_rate(value, "Gb/sec", port);
        if (key != "default gid") return known(key);
        const auto gid = listed_gid(0, value, "", "");
        if (gid) port.gids = {*gid};
        return gid || empty_gid(value);
    }

    static bool known(std::string_view key) {
        constexpr std::string_view kKeys[] = {"CA type",
                                              "Number of ports",
                                              "Firmware version",
                                              "Hardware version",
                                              "Node GUID",
                                              "System image GUID",
                                              "State",
                                              "Physical state",
                                              "Rate",
                                              "Base lid",
                                              "LMC",
                                              "SM lid",
                                              "Capability mask",
                                              "Port GUID",
                                              "Link layer",
                                              "state",
                                              "phys state",
                                              "rate",
                                              "base lid",
                                              "sm lid",
                                              "link_layer",
                                              "default gid"};
        return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
    }

    PastedPort device_;  ///< what holds for all its ports
    bool in_port_ = false;
};

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return !quoted_device(line.text).empty(); });
}

Reading read(const Lines& lines) {
    Blocks blocks;
    Reading reading;
    for (const PastedLine& line : lines.lines)
        reading.understood.push_back(blocks.read_line(line.text));
    if (blocks.ports.empty()) {
        const auto first =
            std::find_if(lines.lines.begin(), lines.lines.end(),
                         [](const PastedLine& line) { return !quoted_device(line.text).empty(); });
        throw lines.error(*first, 0, "expected a block \"Port 1:\" below the device");
    }
    reading.machine = machine_of_ports(blocks.ports);
    return reading;
}

}  // namespace

Importer ibstat_importer() {
    return {"ibstat", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
