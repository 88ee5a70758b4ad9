#include <algorithm>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `ibv_devinfo`, with and without -v: a block per device, in it one per port.
namespace toporun::detect {
namespace {

/// The device of "hca_id: mlx5_0", "" for other lines.
std::string_view device_of(std::string_view text) {
    const auto pair = key_and_value(text);
    if (!pair || pair->first != "hca_id" || !rdma_name(pair->second)) return {};
    return pair->second;
}

/// The number in "GID[  3]".
std::optional<int> gid_index(std::string_view key) {
    if (!key.starts_with("GID[") || !key.ends_with(']')) return std::nullopt;
    return number_in(trim(key.substr(4, key.size() - 5)), 0, 65535);
}

/// Lanes in "4X (2)".
std::optional<int> lanes(std::string_view width) {
    const std::size_t x = width.find_first_of("Xx");
    return x == std::string_view::npos ? std::nullopt : number_in(width.substr(0, x), 1, 16);
}

class Blocks {
  public:
    bool read_line(std::string_view text) {
        if (const std::string_view device = device_of(text); !device.empty()) {
            finish();
            device_ = {};
            device_.device = device;
            return true;
        }
        if (device_.device.empty()) return false;
        const auto pair = key_and_value(text);
        if (!pair)  // lines of -v without a value: "GUID_CHANGE", names of capabilities
            return trim(text).empty() || text[0] == ' ' || text[0] == '\t';
        if (pair->first == "port" &&
            pair->second.find_first_not_of("0123456789") == std::string_view::npos) {
            finish();
            port_ = device_;
            port_->port = number_in(pair->second, 1, 255);
            return port_->port.has_value();
        }
        return port_ ? port_fact(pair->first, pair->second)
                     : device_fact(pair->first, pair->second);
    }

    std::vector<PastedPort> take() {
        finish();
        return std::move(ports_);
    }

  private:
    bool device_fact(std::string_view key, std::string_view value) {
        if (key == "node_guid") return take_guid(value, device_);
        if (key == "transport") device_.iwarp = value.starts_with("iWARP");
        if (key != "vendor_id") return true;
        device_.vendor_id = value;
        return value.size() == 6;  // "0x02c9"
    }

    bool port_fact(std::string_view key, std::string_view value) {
        if (key == "state") return take_state(value, *port_);
        if (key == "link_layer") return take_link_layer(value, *port_);
        if (key == "active_mtu") {
            port_->mtu = number_in(value.substr(0, value.find(' ')), 1, 65536);
            return port_->mtu && value.ends_with(')');
        }
        if (key == "active_width") {
            width_ = lanes(value);
            return width_.has_value();
        }
        if (key == "active_speed") {
            if (value.find("Gbps") != std::string_view::npos) lane_gbits_ = listed_rate(value);
            return lane_gbits_.has_value();
        }
        const auto index = gid_index(key);
        return !index || take_gid(*index, value);
    }

    /// "fe80::1, RoCE v2"; old ones print no type.
    bool take_gid(int index, std::string_view value) {
        const std::size_t comma = std::min(value.find(','), value.size());
        const std::string_view type = trim(value.substr(std::min(comma + 1, value.size())));
        auto gid = listed_gid(index, value.substr(0, comma), type, "");
        if (!gid) return empty_gid(value.substr(0, comma));
        const bool understood = comma == value.size() || !gid->type.empty();
        port_->gids.push_back(std::move(*gid));
        return understood;
    }

    void finish() {
        if (port_) {
            if (width_ && lane_gbits_) port_->rate_gbits = *width_ * *lane_gbits_;
            ports_.push_back(std::move(*port_));
        }
        port_.reset();
        width_.reset();
        lane_gbits_.reset();
    }

    PastedPort device_;  ///< what holds for all its ports
    std::optional<PastedPort> port_;
    std::optional<int> width_;
    std::optional<double> lane_gbits_;  ///< of one lane
    std::vector<PastedPort> ports_;
};

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return !device_of(line.text).empty(); });
}

Reading read(const Lines& lines) {
    Blocks blocks;
    Reading reading;
    for (const PastedLine& line : lines.lines)
        reading.understood.push_back(blocks.read_line(line.text));
    const std::vector<PastedPort> ports = blocks.take();
    if (ports.empty()) {
        const auto first =
            std::find_if(lines.lines.begin(), lines.lines.end(),
                         [](const PastedLine& line) { return !device_of(line.text).empty(); });
        throw lines.error(*first, 0, "expected \"port: 1\" and its state below the device");
    }
    reading.machine = machine_of_ports(ports);
    return reading;
}

}  // namespace

Importer ibv_devinfo_importer() {
    return {"ibv_devinfo", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
