#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "detect/nccl_log/graph.hpp"
#include "detect/nccl_log/line.hpp"
#include "detect/topology/compute_paths.hpp"
#include "detect/topology/nccl_xml.hpp"
#include "files.hpp"

using namespace toporun;
using namespace toporun::detect;
namespace graph = toporun::detect::nccl_log;

namespace {

namespace fs = std::filesystem;

/// What NCCL printed of one pair, keyed "GPU/10000 NET/0".
using Printed = std::map<std::string, graph::PathEntry>;

std::string key(const graph::GraphNode& node) {
    return fmt::format("{}/{:x}", node.kind, node.id);
}

/// What the first process of a log says.
struct GraphLog {
    Printed paths;
    bool p2p_diverted = false;  ///< a variable sends pairs through the CPU
    bool adapters = false;      ///< NCCL used the file's adapters, not an interface of the host
    bool gpu_direct = true;     ///< no variable sends adapters' data through the CPU
    PathRules rules{22809, true, true};
};

void take_variable(const graph::Variable& variable, GraphLog& result) {
    const bool p2p = variable.name == "NCCL_P2P_LEVEL" || variable.name == "NCCL_P2P_DISABLE";
    result.p2p_diverted = result.p2p_diverted || p2p;
    if (variable.name == "NCCL_NET_GDR_LEVEL") result.gpu_direct = false;
    if (variable.name == "NCCL_PXN_DISABLE") result.rules.pxn = variable.value != "1";
}

GraphLog read_log(const fs::path& file) {
    GraphLog result;
    std::istringstream in(tests::read_file(file));
    bool done = false;
    for (std::string text; std::getline(in, text);) {
        const graph::Line line = graph::parse_line(text);
        if (const auto* variable = std::get_if<graph::Variable>(&line.event))
            take_variable(*variable, result);
        if (const auto* network = std::get_if<graph::UsingNetwork>(&line.event))
            result.adapters = network->name == "IB";
        const graph::GraphEvent event = graph::parse_graph(line.record.message);
        if (std::holds_alternative<graph::SystemHeader>(event)) done = !result.paths.empty();
        const auto* path = std::get_if<graph::PathLine>(&event);
        if (path == nullptr || done) continue;
        for (const graph::PathEntry& entry : path->to)
            result.paths[key(path->from) + " " + key(entry.to)] = entry;
    }
    return result;
}

/// The topology of the first node, which rank 0 is on: "Topology: a.xml, b.xml" of the README.
fs::path first_topology(const fs::path& folder) {
    if (!fs::exists(folder / "README")) return {};
    const std::string text = tests::read_file(folder / "README");
    const std::string label = "Topology: ";
    const std::size_t at = text.find(label);
    if (at == std::string::npos) return {};
    const std::size_t start = at + label.size();
    return folder / text.substr(start, text.find(".xml", start) + 4 - start);
}

std::string gpu_key(const PciAddress& address) {
    return fmt::format("GPU/{:x}", std::uint64_t{address.domain} << 20 |
                                       std::uint64_t{address.bus} << 12 |
                                       std::uint64_t{address.device} << 4 | address.function);
}

/// The tree with those GPUs only that took part in the run.
void leave_out_gpus(SystemTree& tree, const Printed& printed) {
    std::erase_if(tree.gpus, [&](const TreeGpu& gpu) {
        const std::string name = gpu_key(gpu.address);
        return !printed.contains(name + " " + name);
    });
}

std::string text_of(const Path& path) {
    return fmt::format("{}/{:.1f}/{}", path.hops, path.gbytes_per_s, path_name(path.type));
}

std::string text_of(const graph::PathEntry& entry) {
    return fmt::format("{}/{:.1f}/{}", entry.hops, entry.gbytes_per_s, entry.type);
}

struct Counts {
    int runs = 0;
    int gpu_pairs = 0;
    int net_pairs = 0;
};

void compare(const SystemTree& tree, const GraphLog& printed, Counts& counts) {
    const TreePaths paths = compute_paths(tree, printed.rules);
    const auto check = [&](const std::string& pair, const Path& path, int& count) {
        const auto found = printed.paths.find(pair);
        if (found == printed.paths.end()) return;
        CAPTURE(pair);
        CHECK(text_of(path) == text_of(found->second));
        ++count;
    };
    for (std::size_t a = 0; a < tree.gpus.size(); ++a) {
        const std::string from = gpu_key(tree.gpus[a].address) + " ";
        for (std::size_t b = 0; b < tree.gpus.size() && !printed.p2p_diverted; ++b)
            check(from + gpu_key(tree.gpus[b].address), paths.gpus[a][b], counts.gpu_pairs);
        if (!printed.adapters || !printed.gpu_direct) continue;
        for (std::size_t n = 0; n < paths.nets[a].size(); ++n)
            check(from + fmt::format("NET/{:x}", n), paths.nets[a][n], counts.net_pairs);
    }
}

}  // namespace

TEST_CASE("paths of every rig topology are those that NCCL itself printed") {
    const fs::path logs = fs::path(TOPORUN_SHARED) / "logs/rig";
    if (!fs::is_directory(logs)) {
        MESSAGE("skipped: no captured logs at " << logs.string());
        return;
    }
    Counts counts;
    for (const auto& folder : fs::directory_iterator(logs)) {
        const fs::path topology = first_topology(folder.path());
        if (topology.empty() || !fs::exists(topology) || !fs::exists(folder.path() / "rank-0.log"))
            continue;
        const GraphLog printed = read_log(folder.path() / "rank-0.log");
        if (printed.paths.empty()) continue;
        SystemTree tree =
            read_topology_xml(tests::read_file(topology), [](std::size_t) { return "x"; }).tree;
        leave_out_gpus(tree, printed.paths);
        CAPTURE(folder.path().string());
        compare(tree, printed, counts);
        ++counts.runs;
    }
    MESSAGE(counts.runs << " runs, " << counts.gpu_pairs << " pairs of GPUs, " << counts.net_pairs
                        << " of GPU and net");
    CHECK(counts.runs > 60);
    CHECK(counts.net_pairs > 250);
}
