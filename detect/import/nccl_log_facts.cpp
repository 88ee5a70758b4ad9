#include "detect/import/nccl_log_facts.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

using nccl_log::GraphEvent;
using nccl_log::Line;

constexpr std::size_t kMostNodes = 4096;  ///< of one kind that a log may name

/// One thread prints the tree of one communicator; its lines may stand among those of others.
struct TreePosition {
    std::optional<std::uint64_t> cpu;
    std::optional<std::uint64_t> nic;
    double nic_gbytes_per_s = 0;
};

LogNode node_of(const nccl_log::GraphNode& node) {
    return {node.kind, node.id};
}

class HostReader {
  public:
    explicit HostReader(std::string host) { facts_.host = std::move(host); }

    void take(const Line& line) {
        ++facts_.records;
        take_event(line.event);
        if (const auto* way = std::get_if<nccl_log::Connection>(&line.event))
            take_connection(*way, line.record.device);
        for (const char* word : {"RCCL", "ROCr"})
            facts_.rccl = facts_.rccl || line.record.message.find(word) != std::string::npos;
        constexpr std::string_view kProvider = "NET/OFI Selected Provider is ";
        if (line.record.message.starts_with(kProvider))
            facts_.provider = line.record.message.substr(kProvider.size(), 32);
        take_refusal(line.record.message);
        const auto thread = std::pair(line.record.pid, line.record.tid);
        take_graph(nccl_log::parse_graph(line.record.message), positions_[thread]);
    }

    LogFacts result() { return std::move(facts_); }

  private:
    void take_event(const nccl_log::Event& event) {
        if (const auto* version = std::get_if<nccl_log::Version>(&event)) take_version(*version);
        if (const auto* init = std::get_if<nccl_log::Init>(&event)) take_init(*init);
        if (const auto* bootstrap = std::get_if<nccl_log::Bootstrap>(&event))
            for (const nccl_log::Interface& interface : bootstrap->interfaces) {
                add_interface(interface);
                if (!has(facts_.bootstrap, interface.name))
                    facts_.bootstrap.push_back(interface.name);
            }
        if (const auto* network = std::get_if<nccl_log::NetworkDevices>(&event)) {
            for (const nccl_log::Interface& interface : network->interfaces)
                add_interface(interface);
            if (network->devices.size() > facts_.devices.size()) facts_.devices = network->devices;
        }
        if (const auto* used = std::get_if<nccl_log::UsingNetwork>(&event))
            facts_.network = used->name;
        if (const auto* variable = std::get_if<nccl_log::Variable>(&event))
            take_variable(*variable);
    }

    void take_version(const nccl_log::Version& version) {
        if (!facts_.version.empty()) return;
        facts_.version = version.version;
        facts_.rccl = facts_.rccl || version.rccl;
    }

    void take_init(const nccl_log::Init& init) {
        if (facts_.ranks.size() >= kMostNodes) return;
        LogRank& rank = facts_.ranks[init.rank];
        if (rank.bus_id.empty()) rank.bus_id = init.bus_id;
        if (!rank.nvml_device) rank.nvml_device = init.nvml_device;
    }

    /// Up to 2.18 a connection names bus ids ("1a000"), later NVML's numbers, which are shorter.
    void take_connection(const nccl_log::Connection& way, std::optional<int> device) {
        using nccl_log::Transport;
        const bool local = way.transport == Transport::p2p || way.transport == Transport::shm ||
                           way.transport == Transport::p2p_indirect;
        constexpr std::size_t kShortestBusId = 4;
        for (const std::string_view name : {way.from_device, way.to_device})
            if (local && name.size() >= kShortestBusId && facts_.bus_ids.size() < kMostNodes)
                facts_.bus_ids.emplace(name);
        // The sender prints P2P and SHM connections: its own device stands before the message.
        if (local && device && way.from_device.size() >= kShortestBusId &&
            way.to_device.size() >= kShortestBusId && facts_.cuda_devices.size() < kMostNodes) {
            facts_.cuda_devices[std::string(way.from_device)].insert(*device);
            facts_.bus_ranks[std::string(way.from_device)].insert(way.from);
            facts_.bus_ranks[std::string(way.to_device)].insert(way.to);
        }
        // "NET/AWS Libfabric/1/GDRDMA": a plugin does not list its devices otherwise.
        if (way.transport != Transport::net) return;
        const std::size_t start = way.via.find('/', std::string_view("NET/").size());
        if (start == std::string::npos || facts_.net_devices.size() >= kMostNodes) return;
        facts_.net_devices.emplace(
            way.via.substr(start + 1, way.via.find('/', start + 1) - start - 1));
    }

    /// "Could not enable P2P between dev 5(=8a000) and dev 4(=89000)": cudaDeviceCanAccessPeer said
    /// no (NCCL src/transport/p2p.cc, p2pCanConnect).
    void take_refusal(std::string_view message) {
        constexpr std::string_view kRefused = "Could not enable P2P between dev ";
        if (!message.starts_with(kRefused) || facts_.refused.size() >= kMostNodes) return;
        message.remove_prefix(kRefused.size());
        const auto first = numbered_device(message);
        constexpr std::string_view kAnd = " and dev ";
        if (!first || !message.starts_with(kAnd)) return;
        message.remove_prefix(kAnd.size());
        const auto second = numbered_device(message);
        if (!second) return;
        for (const auto& [number, bus_id] : {*first, *second}) {
            facts_.bus_ids.insert(bus_id);
            facts_.cuda_devices[bus_id].insert(number);
        }
        facts_.refused.emplace(first->second, second->second);
    }

    /// Takes "5(=8a000)" off the front.
    static std::optional<std::pair<int, std::string>> numbered_device(std::string_view& text) {
        const std::size_t open = text.find("(=");
        const std::size_t close = text.find(')');
        if (open == std::string_view::npos || close == std::string_view::npos || close < open)
            return std::nullopt;
        const auto number = to_integer(text.substr(0, open));
        std::string bus_id(text.substr(open + 2, close - open - 2));
        if (!number || *number < 0 || *number > 255 || bus_id.empty() || bus_id.size() > 16)
            return std::nullopt;
        text.remove_prefix(close + 1);
        return std::pair(static_cast<int>(*number), std::move(bus_id));
    }

    void take_variable(const nccl_log::Variable& variable) {
        constexpr std::array<std::string_view, 4> kOfPaths = {
            "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_PXN_DISABLE"};
        constexpr std::array<std::string_view, 5> kOfNetworks = {
            "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_IB_HCA", "NCCL_IB_DISABLE",
            "NCCL_NET"};
        const std::string text = variable.name + "=" + variable.value;
        const auto add = [&](const auto& names, std::vector<std::string>& list) {
            const bool named = std::find(names.begin(), names.end(), variable.name) != names.end();
            if (named && !has(list, text) && list.size() < kMostNodes) list.push_back(text);
        };
        add(kOfPaths, facts_.path_variables);
        add(kOfNetworks, facts_.network_variables);
    }

    static bool has(const std::vector<std::string>& list, const std::string& word) {
        return std::find(list.begin(), list.end(), word) != list.end();
    }

    void add_interface(const nccl_log::Interface& interface) {
        auto& list = facts_.interfaces;
        const bool known = std::find(list.begin(), list.end(), interface) != list.end();
        if (!known && list.size() < kMostNodes) list.push_back(interface);
    }

    void take_graph(const GraphEvent& event, TreePosition& position) {
        if (std::holds_alternative<nccl_log::SystemHeader>(event)) position = {};
        if (const auto* line = std::get_if<nccl_log::TreeLine>(&event)) take_tree(*line, position);
        if (const auto* path = std::get_if<nccl_log::PathLine>(&event)) take_path(*path);
        if (const auto* device = std::get_if<nccl_log::GpuDirectDevice>(&event))
            if (facts_.device_names.size() < kMostNodes)
                facts_.device_names.try_emplace(device->number, device->name);
        if (const auto* distance = std::get_if<nccl_log::GpuDirectDistance>(&event))
            if (facts_.distances.size() < kMostNodes) facts_.distances.push_back(*distance);
    }

    /// Devices of other hosts stand in the tree of a multi-node NVLink domain.
    bool foreign(const nccl_log::GraphNode& node) {
        if (node.system.value_or(0) == 0) return false;
        facts_.several_systems = true;
        return true;
    }

    void take_tree(const nccl_log::TreeLine& line, TreePosition& position) {
        const nccl_log::GraphNode& node = line.node;
        if (node.kind == "NVS") facts_.nvswitch = true;
        if (line.link.empty()) {
            position = {};
            if (foreign(node)) return;
            position.cpu = node.id;
            if (facts_.cpus.size() < kMostNodes)
                facts_.cpus.try_emplace(node.id, LogCpu{node.id, line.detail});
            return;
        }
        if (!position.cpu || facts_.places.size() >= kMostNodes) return;
        LogPlace place{*position.cpu, std::nullopt, line.gbytes_per_s};
        if (line.link == "NET") {
            if (node.kind != "NET") return;
            place.nic = position.nic;
        } else if (line.link != "PCI") {
            return;
        }
        // 2.30 puts a DEV above the GPU.
        const LogNode name{node.kind == "DEV" ? "GPU" : node.kind, node.id};
        if (node.kind == "NIC") position.nic = node.id;
        facts_.places.try_emplace(name, place);
    }

    void take_path(const nccl_log::PathLine& line) {
        if (foreign(line.from) || facts_.paths.size() >= kMostNodes) return;
        if (line.from.kind != "GPU" && line.from.kind != "NET") return;
        facts_.cut = facts_.cut || line.cut;
        auto& row = facts_.paths[node_of(line.from)];
        for (const nccl_log::PathEntry& entry : line.to)
            if (entry.to.system.value_or(0) == 0)
                row.try_emplace(node_of(entry.to), LogPath{entry.type, entry.gbytes_per_s});
    }

    LogFacts facts_;
    std::map<std::pair<std::int64_t, std::int64_t>, TreePosition> positions_;
};

/// Lines of each host, in the order in which they appear.
class HostCounts {
  public:
    explicit HostCounts(const std::vector<Line>& parsed) {
        for (const Line& line : parsed) {
            if (line.record.host.empty()) continue;
            Host& host = find(std::string(line.record.host));
            ++host.lines;
            const GraphEvent event = nccl_log::parse_graph(line.record.message);
            host.tree = host.tree || std::holds_alternative<nccl_log::PathLine>(event);
        }
        for (const Host& host : hosts_) most_ = std::max(most_, host.lines);
        for (Host& host : hosts_) host.whole = whole_name(host);
    }

    /// The host that a name stands for: itself, or the one that it is a torn form of.
    std::string host_of(std::string_view host) const {
        const std::string name(host);
        const auto found = positions_.find(name);
        return found == positions_.end() ? name : hosts_[found->second].whole;
    }

    std::size_t count() const {
        return static_cast<std::size_t>(std::count_if(
            hosts_.begin(), hosts_.end(), [&](const Host& host) { return real(host); }));
    }

    std::string first() const {
        const auto with_tree = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) {
            return real(host) && host.tree;
        });
        if (with_tree != hosts_.end()) return with_tree->name;
        const auto any = std::find_if(hosts_.begin(), hosts_.end(),
                                      [&](const Host& host) { return real(host); });
        return any == hosts_.end() ? std::string() : any->name;
    }

  private:
    struct Host {
        std::string name;
        std::size_t lines = 0;
        bool tree = false;
        std::string whole;  ///< the name it is a torn form of, else its own
    };

    /// Many hosts are compared with few: logs of thousands of nodes are not torn.
    static constexpr std::size_t kMostCompared = 256;
    static constexpr std::size_t kFewer = 8;  ///< a torn form is this much rarer

    bool real(const Host& host) const {
        return host.whole == host.name && host.lines * 50 >= most_;
    }

    std::string whole_name(const Host& host) const {
        for (std::size_t i = 0; i < std::min(hosts_.size(), kMostCompared); ++i) {
            const Host& other = hosts_[i];
            if (host.lines * kFewer <= other.lines &&
                (host.name.ends_with(other.name) || other.name.ends_with(host.name)))
                return other.name;
        }
        return host.name;
    }

    Host& find(const std::string& name) {
        const auto [entry, added] = positions_.try_emplace(name, hosts_.size());
        if (added) hosts_.push_back({name, 0, false, name});
        return hosts_[entry->second];
    }

    std::vector<Host> hosts_;
    std::map<std::string, std::size_t> positions_;
    std::size_t most_ = 0;
};

}  // namespace

LogFacts read_nccl_log(const Lines& lines) {
    std::vector<Line> parsed;
    std::deque<std::string> plain;  // what the parsed lines are parts of
    parsed.reserve(lines.lines.size());
    for (const PastedLine& line : lines.lines) {
        const std::string_view text = nccl_log::plain_line(line.text, plain.emplace_back());
        parsed.push_back(nccl_log::parse_line(text));
    }
    const HostCounts hosts(parsed);
    const std::string host = hosts.first();
    HostReader reader(host);
    std::size_t first = parsed.size(), last = 0, torn = 0;
    for (std::size_t i = 0; i < parsed.size(); ++i) {
        const Line& line = parsed[i];
        if (!line.from_nccl()) continue;
        first = std::min(first, i);
        last = i;
        // A version line without a prefix speaks for all.
        if (line.record.host.empty() || hosts.host_of(line.record.host) == host) reader.take(line);
        if (line.torn || hosts.host_of(line.record.host) != line.record.host) ++torn;
    }
    LogFacts facts = reader.result();
    facts.torn = torn;
    facts.hosts = hosts.count();
    // What the training wrote in between belongs to the log.
    facts.understood.assign(parsed.size(), false);
    for (std::size_t i = first; i < parsed.size() && i <= last; ++i) facts.understood[i] = true;
    return facts;
}

}  // namespace toporun::detect
