#include "launcher/report/node_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/hash.hpp"
#include "base/text.hpp"
#include "env/filled_in.hpp"
#include "env/plan.hpp"
#include "launcher/report/closed_loop.hpp"

namespace toporun::launcher {
namespace {

using FactLines = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kMagic = "toporun-node 1 ";
constexpr const char* kNotKnown = "unknown";
constexpr std::size_t kLongestName = 64;
constexpr int kMostNodes = 1 << 20;

std::string lines_text(const FactLines& lines) {
    std::string text;
    for (const auto& [key, value] : lines) text += key + " " + value + "\n";
    return text;
}

/// "8 x NVIDIA H100 80GB HBM3", kinds in the order of the GPUs.
std::string gpu_kinds_text(const detect::Machine& machine) {
    if (!machine.gpus_known) return kNotKnown;
    std::vector<std::pair<std::string, int>> kinds;
    for (const detect::Gpu& gpu : machine.gpus) {
        const auto known = std::find_if(kinds.begin(), kinds.end(),
                                        [&](const auto& kind) { return kind.first == gpu.name; });
        if (known == kinds.end())
            kinds.emplace_back(gpu.name, 1);
        else
            ++known->second;
    }
    std::vector<std::string> parts;
    for (const auto& [name, count] : kinds)
        parts.push_back(fmt::format("{} x {}", count, name.empty() ? "GPU" : name));
    return parts.empty() ? "none" : join(parts, ", ");
}

/// What the RDMA port's link speaks: ports of different ones do not reach each other.
const char* link_layer(const detect::Nic& nic) {
    using detect::NicKind;
    if (nic.kind == NicKind::efa) return "EFA";
    if (nic.iwarp) return "iWARP";
    const bool infiniband = nic.kind == NicKind::infiniband || nic.kind == NicKind::ipoib ||
                            std::any_of(nic.gids.begin(), nic.gids.end(),
                                        [](const detect::Gid& gid) { return gid.type == "IB"; });
    return infiniband ? "InfiniBand" : "RoCE";
}

/// "2 x InfiniBand (mlx5_0:1 mlx5_1:1), 1 x RoCE (mlx5_2:1)".
std::string hcas_text(const detect::Machine& machine) {
    if (!machine.nics_known) return kNotKnown;
    std::map<std::string, std::vector<std::string>> layers;
    for (const detect::Nic& nic : machine.nics)
        if (nic.rdma_device && detect::rdma_usable(nic))
            layers[link_layer(nic)].push_back(
                nic.port ? fmt::format("{}:{}", *nic.rdma_device, *nic.port) : *nic.rdma_device);
    std::vector<std::string> parts;
    for (auto& [layer, names] : layers) {
        std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
            return compare_by_number(a, b) < 0;
        });
        parts.push_back(fmt::format("{} x {} ({})", names.size(), layer, join(names, " ")));
    }
    return parts.empty() ? "none" : join(parts, ", ");
}

/// Of the interfaces that NCCL would take and of those behind RDMA ports.
std::string mtu_text(const detect::Machine& machine, const env::Plan& plan) {
    std::vector<std::string> parts;
    for (const detect::Nic& nic : machine.nics) {
        const bool taken = std::find(plan.interfaces.begin(), plan.interfaces.end(), nic.name) !=
                           plan.interfaces.end();
        const bool rdma = nic.rdma_device && detect::rdma_usable(nic);
        if (nic.mtu && (taken || rdma)) parts.push_back(fmt::format("{} {}", nic.name, *nic.mtu));
    }
    return parts.empty() ? kNotKnown : join(parts, ", ");
}

/// What is different by its nature: files of one node, values filled in per rank.
bool same_everywhere(const env::Setting& setting) {
    if (!setting.value || !setting.exported || setting.per_rank) return false;
    // A node's place in the job, and the first node's address as each node reaches it.
    const auto in = [&](const auto& names) {
        return std::find(names.begin(), names.end(), setting.name) != names.end();
    };
    if (in(env::kRendezvousVariables) || in(env::kRankVariables)) return false;
    // What the launcher itself reads, on the host where it is started.
    for (const char* prefix : {"OMPI_MCA_", "PRTE_MCA_"})
        if (setting.name.starts_with(prefix)) return false;
    return setting.name != "NCCL_DEBUG_FILE" && setting.name != "CUDA_VISIBLE_DEVICES";
}

const char* bind_mode(const env::Plan& plan) {
    if (!plan.binds) return "none";
    return plan.bind == env::Bind::core ? "core" : "numa";
}

std::string node_name(const RunFacts& facts, const JobPlace& place) {
    std::string name = place.name.empty() ? facts.machine.hostname : place.name;
    name = printable(name.substr(0, name.find('.')));
    std::replace(name.begin(), name.end(), ' ', '_');
    if (name.empty()) name = fmt::format("node-{}", place.node);
    return name.substr(0, kLongestName);
}

std::optional<std::string_view> take_word(std::string_view& rest) {
    const std::size_t end = rest.find(' ');
    if (end == 0 || rest.empty()) return std::nullopt;
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return word;
}

// --- comparison
// -----------------------------------------------------------------------------------

/// What a difference does. Later rows are less harmful.
struct FactMeaning {
    std::string_view key;
    std::string_view what;
    env::Severity severity;
    std::string_view effect;
    std::string_view fix;
};
constexpr FactMeaning kMeanings[] = {
    {"nccl", "NCCL's version", env::Severity::broken,
     "versions are not made to work together: hangs and wrong sizes",
     "use one container image or environment on every node"},
    {"hcas", "the RDMA devices", env::Severity::slow, kAdaptersDifferEffect, kAdaptersDifferFix},
    {"gpus", "the GPUs", env::Severity::slow,
     "the slowest GPU sets the pace, and a missing one fails the ranks that want it",
     "toporun doctor on the node that differs; take it out of the job (--exclude)"},
    {"interfaces", "the network interfaces that NCCL takes", env::Severity::slow,
     "ranks may be reached through a network that not all nodes have",
     "toporun env --explain on each of these nodes says why; NCCL_SOCKET_IFNAME names one"},
    {"mtu", "the MTU", env::Severity::slow,
     "large packets are dropped or cut where one side is smaller: transfers hang or crawl",
     "ip link set dev INTERFACE mtu SIZE, the same on every node and switch port"},
    {"driver", "the NVIDIA driver", env::Severity::note,
     "what works between GPUs and which NCCL features there are may differ",
     "let the administrators bring the nodes to one version"},
    {"plan", "what toporun chose", env::Severity::note, "nodes work by different settings",
     "toporun env --explain on each of these nodes says why"},
};

using NodesByValue = std::vector<std::pair<std::string, std::vector<const NodeHead*>>>;

std::string value_of(const NodeGroup& group, std::string_view key) {
    for (const auto& [name, value] : group.lines)
        if (name == key) return value;
    return kNotKnown;
}

/// Nodes by what they say of `key`, the most frequent value first.
NodesByValue by_value(std::span<const NodeGroup> groups, std::string_view key) {
    NodesByValue values;
    for (const NodeGroup& group : groups) {
        const std::string value = value_of(group, key);
        if (value == kNotKnown) continue;
        auto known = std::find_if(values.begin(), values.end(),
                                  [&](const auto& entry) { return entry.first == value; });
        if (known == values.end()) known = values.insert(values.end(), {value, {}});
        for (const NodeHead& node : group.nodes) known->second.push_back(&node);
    }
    std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
        return a.second.size() > b.second.size();
    });
    return values;
}

std::string nodes_text(const std::vector<const NodeHead*>& nodes, bool others) {
    constexpr std::size_t kNamed = 4;
    if (others && nodes.size() > kNamed) return fmt::format("{} nodes", nodes.size());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::min(kNamed, nodes.size()); ++i)
        names.push_back(nodes[i]->name);
    std::string text = join(names, ", ");
    if (nodes.size() > kNamed) text += fmt::format(" and {} more", nodes.size() - kNamed);
    return text;
}

std::string values_text(const NodesByValue& values) {
    constexpr std::size_t kValues = 4;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min(kValues, values.size()); ++i)
        parts.push_back(
            fmt::format("{} on {}", values[i].first, nodes_text(values[i].second, i == 0)));
    if (values.size() > kValues)
        parts.push_back(fmt::format("{} more values", values.size() - kValues));
    return join(parts, "; ");
}

/// The settings in which nodes differ: the first two.
std::string differing_settings(std::span<const NodeGroup> groups) {
    constexpr std::size_t kNamed = 2;
    std::map<std::string, std::map<std::string, std::vector<const NodeHead*>>> settings;
    std::size_t nodes = 0;
    for (const NodeGroup& group : groups) {
        nodes += group.nodes.size();
        for (const auto& [key, value] : group.lines) {
            if (key != "set") continue;
            const std::string name = value.substr(0, value.find(' '));
            for (const NodeHead& node : group.nodes) settings[name][value].push_back(&node);
        }
    }
    std::vector<std::string> parts;
    for (const auto& [name, values] : settings) {
        std::size_t told = 0;
        for (const auto& [value, who] : values) told += who.size();
        if ((values.size() == 1 && told == nodes) || parts.size() == kNamed) continue;
        NodesByValue rows;
        for (const auto& [value, who] : values)
            rows.emplace_back(value.size() > name.size() ? value.substr(name.size() + 1) : "", who);
        std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
            return a.second.size() > b.second.size();
        });
        std::string text = fmt::format("{}: {}", name, values_text(rows));
        if (told < nodes) text += fmt::format("; not set on {}", nodes - told);
        parts.push_back(text);
    }
    return join(parts, "; ");
}

/// The host of a launcher that starts its ranks on others, perhaps one without GPUs.
bool only_launches(const RunFacts& facts, const JobPlace& place) {
    if (!facts.job.other_hosts || place.node != 0) return false;
    const std::string& own = facts.machine.hostname;
    return std::none_of(
        facts.job.hosts.begin(), facts.job.hosts.end(), [&](const std::string& name) {
            return name == own || name == place.name || name == own.substr(0, own.find('.')) ||
                   name.starts_with(own + ".") || name == "localhost" || name.starts_with("127.");
        });
}

}  // namespace

NodeFacts node_facts(const RunFacts& facts, const JobPlace& place) {
    const detect::Machine& machine = facts.machine;
    NodeFacts result;
    const auto add = [&](const char* key, const std::string& value) {
        result.lines.emplace_back(key, printable(value));
    };
    FactLines chosen;
    for (const env::Setting& setting : facts.plan.settings)
        if (same_everywhere(setting))
            chosen.emplace_back("set", printable(setting.name + " " + *setting.value));
    chosen.emplace_back("set", std::string("binding ") + bind_mode(facts.plan));
    // From one host the ranks of the others are known by the command line, if at all.
    if (facts.plan.ranks_per_node && !facts.job.other_hosts)
        chosen.emplace_back("set", fmt::format("ranks {}", *facts.plan.ranks_per_node));
    if (!facts.plan.profile.empty())
        chosen.emplace_back("set", printable("profile " + facts.plan.profile));
    add("nccl", machine.software.nccl_version.value_or(kNotKnown));
    add("driver", machine.software.driver.value_or(kNotKnown));
    add("gpus", gpu_kinds_text(machine));
    add("interfaces",
        facts.plan.interfaces.empty() ? kNotKnown : join(facts.plan.interfaces, ", "));
    add("mtu", mtu_text(machine, facts.plan));
    add("hcas", hcas_text(machine));
    add("plan", fmt::format("{:016x}", fnv1a(lines_text(chosen))));
    if (only_launches(facts, place)) {  // it may differ from those with ranks in all of it
        for (auto& [key, value] : result.lines) value = kNotKnown;
        chosen.clear();
    }
    result.lines.insert(result.lines.end(), chosen.begin(), chosen.end());
    result.head = {fnv1a(lines_text(result.lines)), place.node, node_name(facts, place)};
    return result;
}

std::string node_facts_text(const NodeFacts& facts) {
    return fmt::format("{}{:016x} {} {}\n", kMagic, facts.head.hash, facts.head.node,
                       facts.head.name) +
           lines_text(facts.lines);
}

std::optional<NodeHead> parse_node_head(std::string_view text) {
    const std::size_t end = text.substr(0, kMostHeadBytes).find('\n');
    if (end == std::string_view::npos || !text.starts_with(kMagic)) return std::nullopt;
    std::string_view rest = text.substr(kMagic.size(), end - kMagic.size());
    const auto hash = take_word(rest);
    const auto node = take_word(rest);
    NodeHead head;
    if (!hash || !node || rest.empty()) return std::nullopt;
    const auto read = std::from_chars(hash->data(), hash->data() + hash->size(), head.hash, 16);
    const auto number = to_integer(*node);
    if (read.ec != std::errc() || read.ptr != hash->data() + hash->size()) return std::nullopt;
    if (!number || *number < 0 || *number >= kMostNodes) return std::nullopt;
    head.node = static_cast<int>(*number);
    head.name = printable(rest);
    return head;
}

std::optional<NodeFacts> parse_node_facts(std::string_view text) {
    const auto head = parse_node_head(text);
    if (!head || !text.ends_with('\n')) return std::nullopt;
    NodeFacts facts;
    facts.head = *head;
    text.remove_prefix(text.find('\n') + 1);
    if (fnv1a(text) != head->hash) return std::nullopt;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(line.size() + 1);
        const auto key = take_word(line);
        if (!key) return std::nullopt;
        facts.lines.emplace_back(printable(*key), printable(line));
    }
    return facts;
}

std::vector<std::size_t> representatives(std::span<const NodeHead> heads) {
    std::map<std::uint64_t, std::size_t> first;
    for (std::size_t i = 0; i < heads.size(); ++i) first.emplace(heads[i].hash, i);
    std::vector<std::size_t> positions;
    for (const auto& [hash, position] : first) positions.push_back(position);
    std::sort(positions.begin(), positions.end());
    return positions;
}

std::vector<NodeGroup> group_nodes(std::span<const NodeHead> heads,
                                   std::span<const NodeFacts> facts) {
    std::map<std::uint64_t, NodeGroup> groups;
    for (const NodeFacts& one : facts) groups[one.head.hash].lines = one.lines;
    std::map<int, const NodeHead*> nodes;  // one of each number
    for (const NodeHead& head : heads) nodes.emplace(head.node, &head);
    for (const auto& [number, head] : nodes) {
        const auto group = groups.find(head->hash);
        if (group != groups.end()) group->second.nodes.push_back(*head);
    }
    std::vector<NodeGroup> result;
    for (auto& [hash, group] : groups)
        if (!group.nodes.empty()) result.push_back(std::move(group));
    std::sort(result.begin(), result.end(), [](const NodeGroup& a, const NodeGroup& b) {
        if (a.nodes.size() != b.nodes.size()) return a.nodes.size() > b.nodes.size();
        return a.nodes.front().node < b.nodes.front().node;
    });
    return result;
}

std::vector<env::Finding> node_differences(std::span<const NodeGroup> groups) {
    std::vector<env::Finding> found;
    if (groups.size() < 2) return found;
    std::size_t nodes = 0;
    for (const NodeGroup& group : groups) nodes += group.nodes.size();
    bool other_ports = false;  // then their MTUs are no pairs
    for (const FactMeaning& meaning : kMeanings) {
        const NodesByValue values = by_value(groups, meaning.key);
        if (values.size() < 2 || (meaning.key == "mtu" && other_ports)) continue;
        other_ports = other_ports || meaning.key == "hcas" || meaning.key == "interfaces";
        env::Finding finding;
        finding.id = fmt::format("nodes-differ-{}", meaning.key);
        finding.severity = meaning.severity;
        const std::string told =
            meaning.key == "plan" ? differing_settings(groups) : values_text(values);
        finding.what = fmt::format("nodes differ in {}: {}", meaning.what, told);
        finding.evidence = fmt::format("what {} nodes found before the start", nodes);
        finding.effect = meaning.effect;
        finding.fix = meaning.fix;
        found.push_back(std::move(finding));
    }
    return found;
}

}  // namespace toporun::launcher
