#include "describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "detect/nccl_log/graph.hpp"

namespace toporun::tests {
namespace {

using namespace detect::nccl_log;

template <typename Number>
std::string or_none(const std::optional<Number>& number) {
    return number ? fmt::format("{}", *number) : "-";
}

std::string text(const std::vector<Interface>& interfaces) {
    std::string all;
    for (const Interface& one : interfaces) all += fmt::format(" {}={}", one.name, one.address);
    return all;
}

std::string text(const GraphNode& node) {
    return fmt::format("{}/{}{:x}", node.kind, node.system ? or_none(node.system) + "-" : "",
                       node.id);
}

struct Describe {
    std::string operator()(const Unknown&) const { return "unknown"; }
    std::string operator()(const Version& e) const {
        return fmt::format("version {} {} suffix '{}' toolkit '{}'", e.rccl ? "RCCL" : "NCCL",
                           e.version, e.suffix, e.toolkit);
    }
    std::string operator()(const Bootstrap& e) const { return "bootstrap" + text(e.interfaces); }
    std::string operator()(const NetworkDevices& e) const {
        return fmt::format("devices of {}{}{}{}{}", e.network, e.none ? " none" : "",
                           text(e.interfaces), e.devices.empty() ? "" : " ",
                           fmt::join(e.devices, " "));
    }
    std::string operator()(const UsingNetwork& e) const { return "network " + e.name; }
    std::string operator()(const Plugin& e) const {
        return fmt::format("plugin {} '{}' {}", e.kind, e.name, e.loaded ? "loaded" : "absent");
    }
    std::string operator()(const Init& e) const {
        return fmt::format(
            "init {} rank {} of {} comm {} id '{}' bus '{}' cuda {} nvml {} parent '{}' split {} "
            "color {}",
            e.complete ? "complete" : "start", e.rank, e.ranks, e.communicator, e.id, e.bus_id,
            or_none(e.cuda_device), or_none(e.nvml_device), e.parent, or_none(e.split),
            or_none(e.color));
    }
    std::string operator()(const CommunicatorShape& e) const {
        return fmt::format("shape comm {} rank {} of {}, {} nodes, {} local ranks", e.communicator,
                           e.rank, e.ranks, e.nodes, e.local_ranks);
    }
    std::string operator()(const Connection& e) const {
        return fmt::format("connection channel {}/{} {}[{}]->{}[{}] '{}' {} '{}'{} via {}",
                           e.channel, or_none(e.index), e.from, e.from_device, e.to, e.to_device,
                           e.direction, transport_name(e.transport), e.network,
                           e.gpu_direct ? " GDR" : "", e.via);
    }
    std::string operator()(const Variable& e) const {
        return fmt::format("variable {}='{}' by {}", e.name, e.value, e.origin);
    }
    std::string operator()(const Warning& e) const {
        return fmt::format("warning {}: {}", e.source, e.text);
    }
    std::string operator()(const Collective& e) const {
        return fmt::format(
            "call {} number {} count {} type {} op {} root {} comm {:x} of {} stream {:x}",
            function_name(e.function), e.op_count, e.count, e.datatype, e.op, e.root,
            e.communicator, or_none(e.ranks), e.stream);
    }
    std::string operator()(const ChannelCounts& e) const {
        return fmt::format("channels coll {} collnet {} nvls {} p2p {} per peer {}", e.coll,
                           or_none(e.collnet), or_none(e.nvls), e.p2p, e.p2p_per_peer);
    }
    std::string operator()(const RingOrder& e) const {
        return fmt::format("ring {} of {}: {}{}", e.channel, e.channels, fmt::join(e.ranks, " "),
                           e.cut ? " cut" : "");
    }
    std::string operator()(const RingLink& e) const {
        return fmt::format("ring {}: {} -> {} -> {}", e.channel, e.previous, e.rank, e.next);
    }
    std::string operator()(const Trees& e) const {
        std::string all = "trees";
        for (const TreeLink& link : e.links)
            all += fmt::format(" [{}] {}->{}->{}", link.channel, fmt::join(link.children, "/"),
                               link.rank, link.parent);
        return all;
    }
    std::string operator()(const Pattern& e) const {
        return fmt::format("pattern {} channels {} bw {}/{} type {}/{} crossNic {}", e.pattern,
                           e.channels, e.intra_gbytes_per_s, e.inter_gbytes_per_s, e.intra_type,
                           e.inter_type, e.cross_nic);
    }
    std::string operator()(const Affinity& e) const {
        return fmt::format("affinity of GPU {}: '{}' of GPU '{}' of process '{}'", e.device, e.cpus,
                           e.gpu_cpus, e.process_cpus);
    }
    std::string operator()(const InitTimings& e) const {
        std::string all = fmt::format("timings rank {} of {}: {} s", e.rank, e.ranks, e.total);
        for (const auto& [name, seconds] : e.parts) all += fmt::format(" {}={}", name, seconds);
        return all;
    }
    std::string operator()(const NvlsSupport& e) const {
        return fmt::format("NVLS {} on device {}", e.available ? "available" : "absent", e.device);
    }
    std::string operator()(const NvlsReady&) const { return "NVLS set up"; }
    std::string operator()(const GpuDirect& e) const {
        return fmt::format("GDR {} GPU '{}' adapter '{}' distance {} limit {}",
                           e.enabled ? "on" : "off", e.gpu, e.nic, e.distance, e.limit);
    }
    std::string operator()(const Choice& e) const {
        return fmt::format("choice '{}' {} bytes {} {} channels {}", e.function, e.bytes,
                           e.algorithm, e.protocol, or_none(e.channels));
    }
    std::string operator()(const TuningAlgorithms& e) const {
        return fmt::format("tuning columns {}", fmt::join(e.names, ", "));
    }
    std::string operator()(const TuningRow& e) const {
        std::string all = "tuning " + e.function;
        for (const auto& [latency, bandwidth] : e.cells)
            all += fmt::format(" {}/{}", latency, bandwidth);
        return all;
    }
    std::string operator()(const ErrorTrail& e) const {
        return fmt::format("trail {} code {}", e.source, e.code);
    }
    std::string operator()(const CommunicatorEnd& e) const {
        return fmt::format("end comm {} rank {}{}", e.communicator, e.rank,
                           e.abort ? " aborted" : "");
    }
    std::string operator()(const Provider& e) const { return "provider " + e.name; }
    std::string operator()(const CudaDriver& e) const {
        return fmt::format("CUDA driver {}", e.version);
    }
    std::string operator()(const NetworkPlugin& e) const {
        constexpr std::array kStates = {"initialized", "assigned", "failed"};
        return fmt::format("network plugin {} {}", e.name, kStates[static_cast<int>(e.state)]);
    }
    std::string operator()(const QueuePair& e) const {
        return fmt::format("queue pair device {} port {} mtu {} GID {} LID {}", e.device, e.port,
                           e.mtu_bytes, or_none(e.gid_index), or_none(e.lid));
    }
    std::string operator()(const VirtualDevice& e) const {
        return fmt::format("virtual device {} {} {} Mb/s of {}", e.number, e.name, e.mbit_per_s,
                           e.ports);
    }
    std::string operator()(const NoVerbs&) const { return "no libibverbs"; }
    std::string operator()(const Mnnvl& e) const {
        return fmt::format("MNNVL {} of {} ranks", e.used ? "used" : "unused", e.clique_ranks);
    }
    std::string operator()(const CollNet& e) const {
        return fmt::format("CollNet rank {} by {}{}", e.rank, e.network,
                           e.gpu_direct ? " GDR" : "");
    }
    std::string operator()(const NoGraph& e) const {
        return fmt::format("no graph for pattern {}", e.pattern);
    }
    std::string operator()(const TestRank& e) const {
        return fmt::format("test rank {} pid {} on {} device {}: {}", e.rank, e.pid, e.host,
                           e.device, e.gpu);
    }
};

struct DescribeGraph {
    std::string operator()(const std::monostate&) const { return "unknown"; }
    std::string operator()(const SystemHeader&) const { return "tree begins"; }
    std::string operator()(const SystemEnd&) const { return "tree ends"; }
    std::string operator()(const TreeLine& e) const {
        return fmt::format("tree indent {} {} by '{}' {} GB/s ({})", e.indent, text(e.node), e.link,
                           e.gbytes_per_s, e.detail);
    }
    std::string operator()(const PathLine& e) const {
        std::string all = fmt::format("paths of {}{}:", text(e.from), e.cut ? " cut" : "");
        for (const PathEntry& entry : e.to)
            all += fmt::format(" {}={}/{}/{}", text(entry.to), entry.hops, entry.gbytes_per_s,
                               entry.type);
        return all;
    }
    std::string operator()(const GpuDirectDistance& e) const {
        return fmt::format("GDR {} GPU {} HCA {} distance {}", e.enabled ? "on" : "off", e.gpu,
                           e.hca, e.distance);
    }
    std::string operator()(const GpuDirectDevice& e) const {
        return fmt::format("GDR {} on {} {} '{}'", e.enabled ? "on" : "off", e.network, e.number,
                           e.name);
    }
};

}  // namespace

std::string describe(const detect::nccl_log::Line& line) {
    if (line.record.level == Level::info && std::holds_alternative<Unknown>(line.event))
        return std::visit(DescribeGraph{}, parse_graph(line.record.message));
    return std::visit(Describe{}, line.event);
}

}  // namespace toporun::tests
