#include "launcher/explain/forms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "detect/machine.hpp"
#include "detect/nccl_log/graph.hpp"

namespace toporun::launcher::explain {
namespace {

using namespace detect::nccl_log;

std::string text_of(int number) {
    return std::to_string(number);
}

std::string interfaces_text(const std::vector<Interface>& interfaces) {
    std::vector<std::string> names;
    for (const Interface& row : interfaces)
        names.push_back(row.address.empty() ? row.name
                                            : fmt::format("{} ({})", row.name, row.address));
    return names.empty() ? "an interface that is not named"
                         : fmt::format("{}", fmt::join(names, ", "));
}

std::string pattern_name(int pattern) {
    constexpr std::array<const char*, 7> kNames = {
        "graph", "balanced tree", "split tree", "tree", "ring", "star (NVLS)", "star (CollNet)"};
    const bool known = pattern > 0 && pattern < static_cast<int>(kNames.size());
    return known ? kNames[static_cast<std::size_t>(pattern)] : fmt::format("pattern {}", pattern);
}

/// nccl.h ncclResult_t.
std::string result_text(int code) {
    constexpr std::array<const char*, 9> kTexts = {"success",
                                                   "an error of CUDA",
                                                   "an error of the system or network",
                                                   "an internal error",
                                                   "a wrong argument",
                                                   "a wrong use",
                                                   "another rank failed, or the network",
                                                   "not finished yet",
                                                   "a time-out"};
    const bool known = code >= 0 && code < static_cast<int>(kTexts.size());
    return known ? kTexts[static_cast<std::size_t>(code)] : "not known";
}

/// nccl.h ncclDataType_t.
std::string type_text(int datatype) {
    constexpr std::array<const char*, 12> kTypes = {
        "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
        "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
    const bool known = datatype >= 0 && datatype < static_cast<int>(kTypes.size());
    return known ? kTypes[static_cast<std::size_t>(datatype)] : fmt::format("type {}", datatype);
}

/// nccl.h ncclRedOp_t.
std::string op_text(int op) {
    constexpr std::array<const char*, 5> kOps = {"sum", "product", "maximum", "minimum", "mean"};
    const bool known = op >= 0 && op < static_cast<int>(kOps.size());
    return known ? kOps[static_cast<std::size_t>(op)] : "an operation of the program's own";
}

Form form(const Unknown&) {
    return {};
}
Form form(const Version& version) {
    return {"version",
            {{"library", version.rccl ? "RCCL" : "NCCL"},
             {"version", version.version + version.suffix},
             {"toolkit", version.toolkit.empty() ? "" : " for " + version.toolkit}}};
}
Form form(const Bootstrap& bootstrap) {
    return {"bootstrap", {{"interfaces", interfaces_text(bootstrap.interfaces)}}};
}
Form form(const NetworkDevices& row) {
    if (row.none) return {"network_devices.none", {{"network", row.network}}};
    if (row.devices.empty())
        return {"network_devices.socket", {{"interfaces", interfaces_text(row.interfaces)}}};
    return {"network_devices.rdma",
            {{"network", row.network},
             {"devices", fmt::format("{}", fmt::join(row.devices, ", "))},
             {"interfaces", interfaces_text(row.interfaces)}}};
}
Form form(const UsingNetwork& network) {
    if (network.name == "Socket") return {"using_network.socket"};
    if (network.name == "IB") return {"using_network.ib"};
    return {"using_network.other", {{"network", network.name}}};
}
Form form(const Plugin& plugin) {
    const std::string& name = plugin.name;
    if (plugin.loaded) return {"plugin.loaded", {{"kind", plugin.kind}, {"name", name}}};
    return {"plugin.absent",
            {{"kind", plugin.kind}, {"name", name.empty() ? "" : fmt::format(" ({})", name)}}};
}
Form form(const Init& init) {
    const std::string name = init.complete ? "complete" : "start";
    return {"init." + (init.parent.empty() ? name : "split_" + name),
            {{"rank", text_of(init.rank)}, {"ranks", text_of(init.ranks)}}};
}
Form form(const CommunicatorShape& shape) {
    return {"shape",
            {{"ranks", text_of(shape.ranks)},
             {"nodes", text_of(shape.nodes)},
             {"local", text_of(shape.local_ranks)}}};
}
std::string connection_name(const Connection& connection) {
    const auto has = [&](std::string_view word) {
        return connection.via.find(word) != connection.via.npos;
    };
    switch (connection.transport) {
        case Transport::p2p:
            return has("MNNVL")     ? "p2p_mnnvl"
                   : has("pointer") ? "p2p_pointer"
                   : has("/read")   ? "p2p_read"
                   : has("/CE")     ? "p2p_engine"
                                    : "p2p";
        case Transport::p2p_indirect:
            return "p2p_indirect";
        case Transport::shm:
            return "shm";
        case Transport::net:
            return connection.gpu_direct ? "net_gdr" : "net";
        case Transport::other:
            break;
    }
    return "other";
}
Form form(const Connection& connection) {
    return {"connection." + connection_name(connection),
            {{"channel", text_of(connection.channel)},
             {"from", text_of(connection.from)},
             {"to", text_of(connection.to)},
             {"sends", connection.direction == "receive" ? "is received from by" : "sends to"},
             {"network", std::string(connection.network)},
             {"via", std::string(connection.via)}}};
}
Form form(const Variable& variable) {
    return {"variable",
            {{"name", variable.name},
             {"value", variable.value},
             {"origin",
              variable.origin.empty() ? "the environment or a file" : "the " + variable.origin}}};
}
Form form(const Warning& warning) {
    return {"warning", {{"text", warning.text}}};
}
Form form(const Collective& call) {
    const std::string function(function_name(call.function));
    const auto size = size_bytes(call);
    Values values = {{"call", std::to_string(call.op_count)},
                     {"function", function},
                     {"count", std::to_string(call.count)},
                     {"type", type_text(call.datatype)},
                     {"op", op_text(call.op)},
                     {"root", text_of(call.root)},
                     {"size", size ? format_bytes(*size) : "a size that is not known"},
                     {"ranks", call.ranks ? text_of(*call.ranks) : "an unknown number of"}};
    switch (call.function) {
        case Function::all_reduce:
        case Function::reduce_scatter:
            return {"collective.reduces", std::move(values)};
        case Function::send:
            return {"collective.send", std::move(values)};
        case Function::recv:
            return {"collective.recv", std::move(values)};
        case Function::broadcast:
        case Function::reduce:
        case Function::gather:
        case Function::scatter:
            return {"collective.rooted", std::move(values)};
        default:
            return {"collective.moves", std::move(values)};
    }
}
Form form(const ChannelCounts& counts) {
    return {"channels",
            {{"coll", text_of(counts.coll)},
             {"p2p", text_of(counts.p2p)},
             {"nvls", counts.nvls.value_or(0) > 0
                          ? fmt::format(", sums in NVSwitch (NVLS) {}", *counts.nvls)
                          : ""}}};
}
Form form(const RingOrder& ring) {
    return {"ring_order",
            {{"channel", text_of(ring.channel)},
             {"channels", text_of(ring.channels)},
             {"ranks", fmt::format("{}{}", fmt::join(ring.ranks, " "), ring.cut ? " ..." : "")}}};
}
Form form(const RingLink& link) {
    return {"ring_link",
            {{"channel", text_of(link.channel)},
             {"rank", text_of(link.rank)},
             {"previous", text_of(link.previous)},
             {"next", text_of(link.next)}}};
}
Form form(const Trees& trees) {
    if (trees.links.empty()) return {};
    const TreeLink& link = trees.links.front();
    std::vector<int> children;
    for (const int child : link.children)
        if (child >= 0) children.push_back(child);
    return {
        "trees",
        {{"channel", text_of(link.channel)},
         {"rank", text_of(link.rank)},
         {"parent", link.parent < 0 ? "none" : text_of(link.parent)},
         {"children", children.empty() ? "none" : fmt::format("{}", fmt::join(children, ", "))}}};
}
Form form(const Pattern& pattern) {
    return {"pattern",
            {{"pattern", pattern_name(pattern.pattern)},
             {"channels", text_of(pattern.channels)},
             {"intra", fmt::format("{:g}", pattern.intra_gbytes_per_s)},
             {"inter", fmt::format(", {:g} GB/s between nodes if there are several",
                                   pattern.inter_gbytes_per_s)},
             {"path", pattern.intra_type}}};
}
Form form(const Affinity& affinity) {
    const auto or_unknown = [](const std::string& cpus) { return cpus.empty() ? "?" : cpus; };
    return {affinity.cpus.empty() ? "affinity.empty" : "affinity.bound",
            {{"device", text_of(affinity.device)},
             {"cpus", affinity.cpus},
             {"gpu_cpus", or_unknown(affinity.gpu_cpus)},
             {"process_cpus", or_unknown(affinity.process_cpus)}}};
}
Form form(const InitTimings& timings) {
    std::string longest = "nothing in particular";
    double most = 0;
    for (const auto& [name, seconds] : timings.parts) {
        if (seconds <= most) continue;
        most = seconds;
        longest = fmt::format("{} ({:g} s)", name, seconds);
    }
    return {"init_timings",
            {{"rank", text_of(timings.rank)},
             {"ranks", text_of(timings.ranks)},
             {"seconds", fmt::format("{:g}", timings.total)},
             {"longest", longest}}};
}
Form form(const NvlsSupport& nvls) {
    return {nvls.available ? "nvls_support.yes" : "nvls_support.no",
            {{"device", text_of(nvls.device)}}};
}
Form form(const NvlsReady&) {
    return {"nvls_ready"};
}
Form form(const GpuDirect& row) {
    return {row.enabled ? "gpu_direct.on" : "gpu_direct.off",
            {{"gpu", row.gpu},
             {"nic", row.nic},
             {"distance", text_of(row.distance)},
             {"limit", text_of(row.limit)}}};
}
Form form(const Choice& choice) {
    return {
        "choice",
        {{"function", choice.function.empty() ? "a call" : std::string(choice.function)},
         {"size", format_bytes(choice.bytes)},
         {"algorithm", std::string(choice.algorithm)},
         {"protocol", choice.protocol.empty() ? "none" : std::string(choice.protocol)},
         {"channels", choice.channels ? fmt::format(" on {} channels", *choice.channels) : ""}}};
}
Form form(const TuningAlgorithms& columns) {
    return {"tuning_columns", {{"names", fmt::format("{}", fmt::join(columns.names, ", "))}}};
}
Form form(const TuningRow& row) {
    double best = 0;
    for (const auto& cell : row.cells) best = std::max(best, cell.second);
    return {"tuning_row", {{"function", row.function}, {"best", fmt::format("{:g}", best)}}};
}
Form form(const ErrorTrail& trail) {
    return {"error_trail",
            {{"source", trail.source},
             {"code", text_of(trail.code)},
             {"meaning", result_text(trail.code)}}};
}
Form form(const CommunicatorEnd& end) {
    return {end.abort ? "communicator_end.aborted" : "communicator_end.destroyed",
            {{"rank", text_of(end.rank)}}};
}
Form form(const Provider& provider) {
    return {"provider", {{"name", provider.name}}};
}
Form form(const TestRank& rank) {
    return {"test_rank",
            {{"rank", text_of(rank.rank)},
             {"pid", std::to_string(rank.pid)},
             {"host", rank.host},
             {"device", text_of(rank.device)},
             {"gpu", rank.gpu}}};
}
Form form(const CudaDriver& driver) {
    constexpr int kMajor = 1000, kMinor = 10;  // cuda.h cuDriverGetVersion
    return {"cuda_driver",
            {{"version",
              fmt::format("{}.{}", driver.version / kMajor, driver.version % kMajor / kMinor)}}};
}
Form form(const NetworkPlugin& plugin) {
    const char* state = plugin.state == NetworkPlugin::State::initialized ? "initialized"
                        : plugin.state == NetworkPlugin::State::assigned  ? "assigned"
                                                                          : "failed";
    return {fmt::format("network_plugin.{}", state), {{"name", plugin.name}}};
}
Form form(const QueuePair& pair) {
    Values values = {{"device", text_of(pair.device)},
                     {"port", text_of(pair.port)},
                     {"mtu", text_of(pair.mtu_bytes)}};
    if (!pair.gid_index) return {"queue_pair.infiniband", std::move(values)};
    values.emplace("gid", text_of(*pair.gid_index));
    return {"queue_pair.roce", std::move(values)};
}
Form form(const VirtualDevice& device) {
    constexpr double kMegabits = 1000;
    return {"virtual_device",
            {{"ports", text_of(device.ports)},
             {"name", device.name},
             {"gbits", fmt::format("{:g}", device.mbit_per_s / kMegabits)}}};
}
Form form(const NoVerbs&) {
    return {"no_verbs"};
}
Form form(const Mnnvl& mnnvl) {
    return {mnnvl.used ? "mnnvl.yes" : "mnnvl.no", {{"ranks", text_of(mnnvl.clique_ranks)}}};
}
Form form(const CollNet& row) {
    return {"collnet",
            {{"rank", text_of(row.rank)},
             {"network", row.network},
             {"gdr", row.gpu_direct ? ", straight from GPU memory (GPUDirect RDMA)" : ""}}};
}
Form form(const NoGraph& row) {
    return {"no_graph", {{"pattern", pattern_name(row.pattern)}}};
}

std::string node_text(const GraphNode& node) {
    const bool bus = node.kind == "GPU" || node.kind == "PCI" || node.kind == "NIC";
    const std::string id = bus ? fmt::format("{:x}", node.id) : std::to_string(node.id);
    const auto pci = bus ? bus_id_text(id) : std::nullopt;
    if (node.kind == "CPU") return fmt::format("the CPU of NUMA node {}", id);
    if (node.kind == "NVS") return "NVSwitch or NVLink";
    if (node.kind == "PCI") return fmt::format("the PCIe switch or port {}", pci.value_or(id));
    if (node.kind == "NET") return fmt::format("network device {}", id);
    if (node.kind == "GPU" || node.kind == "NIC")
        return fmt::format("{} {}", node.kind == "NIC" ? "adapter" : "GPU", pci.value_or(id));
    return fmt::format("{} {}", node.kind, id);
}

std::string link_text(const TreeLine& line) {
    struct Row {
        std::string_view link, name;
    };
    constexpr Row kLinks[] = {{"PCI", "over PCIe"},
                              {"NVL", "over NVLink"},
                              {"SYS", "over the link between CPUs"},
                              {"C2C", "over NVLink-C2C between CPU and GPU"},
                              {"NET", "to the network"}};
    if (line.link.empty()) return {};
    std::string name = line.link;
    for (const Row& row : kLinks)
        if (row.link == line.link) name = row.name;
    return fmt::format(", reached {} at {:g} GB/s", name, line.gbytes_per_s);
}

/// By NCCL's path type, as NCCL itself chooses; entries of one type by bandwidth.
bool nearer(const PathEntry& a, const PathEntry& b) {
    const auto of = [](const PathEntry& entry) {
        return detect::parse_path_name(entry.type).value_or(detect::PathType::DIS);
    };
    if (of(a) != of(b)) return of(a) < of(b);
    return a.gbytes_per_s > b.gbytes_per_s;
}

std::string nearest_text(const PathLine& line) {
    const PathEntry* nearest = nullptr;
    for (const PathEntry& entry : line.to) {
        if (entry.to.kind != "NET" || line.from.kind != "GPU") continue;
        if (nearest == nullptr || nearer(entry, *nearest)) nearest = &entry;
    }
    return nearest == nullptr ? ""
                              : fmt::format("; its nearest network device is {}, {} at {:g} GB/s",
                                            nearest->to.id, nearest->type, nearest->gbytes_per_s);
}

Form graph_form(const std::monostate&) {
    return {};
}
Form graph_form(const SystemHeader&) {
    return {"topology.begin"};
}
Form graph_form(const SystemEnd&) {
    return {"topology.end"};
}
Form graph_form(const TreeLine& line) {
    return {"topology.node", {{"node", node_text(line.node)}, {"link", link_text(line)}}};
}
Form graph_form(const PathLine& line) {
    return {"topology.path", {{"node", node_text(line.from)}, {"nearest", nearest_text(line)}}};
}
Form graph_form(const GpuDirectDistance& row) {
    return {row.enabled ? "topology.distance_on" : "topology.distance_off",
            {{"gpu", row.gpu}, {"nic", row.hca}, {"distance", text_of(row.distance)}}};
}
Form graph_form(const GpuDirectDevice& row) {
    return {row.enabled ? "topology.gpu_direct_on" : "topology.gpu_direct_off",
            {{"network", row.network}, {"name", row.name}}};
}

}  // namespace

Form form_of(const Event& event) {
    return std::visit([](const auto& known) { return form(known); }, event);
}

Form topology_form(std::string_view message) {
    return std::visit([](const auto& known) { return graph_form(known); }, parse_graph(message));
}

}  // namespace toporun::launcher::explain
