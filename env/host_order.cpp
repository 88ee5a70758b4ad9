#include "env/host_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"

namespace toporun::env {
namespace {

std::string short_name(const std::string& host) {
    return host.substr(0, host.find('.'));
}

/// By the full name, else by the short one.
const std::vector<std::string>* place_of(
    const std::map<std::string, std::vector<std::string>>& exact,
    const std::map<std::string, const std::vector<std::string>*>& by_short,
    const std::string& host) {
    if (const auto found = exact.find(host); found != exact.end()) return &found->second;
    const auto found = by_short.find(short_name(host));
    return found == by_short.end() ? nullptr : found->second;
}

int crossings(const std::vector<std::string>& hosts,
              const std::map<std::string, std::vector<std::string>>& way) {
    int count = 0;
    for (std::size_t i = 0; i < hosts.size() && hosts.size() > 1; ++i) {
        const auto here = way.find(hosts[i]), next = way.find(hosts[(i + 1) % hosts.size()]);
        if (here == way.end() || next == way.end() || here->second != next->second) ++count;
    }
    return count;
}

}  // namespace

HostOrder order_hosts(const std::vector<std::string>& given, const HostPlaces& places) {
    std::map<std::string, const std::vector<std::string>*> by_short;
    for (const auto& [host, place] : places.places) by_short.try_emplace(short_name(host), &place);
    std::map<std::string, std::vector<std::string>> way;
    std::map<std::vector<std::string>, std::size_t> first;  ///< of each switch, where it was given
    std::vector<std::string> hosts, once;
    std::set<std::string> seen;
    HostOrder order;
    for (const std::string& host : given) {
        if (!seen.insert(host).second) continue;
        once.push_back(host);
        const auto* place = place_of(places.places, by_short, host);
        if (place == nullptr) {
            order.unknown.push_back(host);
            continue;
        }
        way.emplace(host, *place);
        for (std::size_t level = 1; level <= place->size(); ++level)
            first.try_emplace({place->begin(), place->begin() + static_cast<std::ptrdiff_t>(level)},
                              hosts.size());
        hosts.push_back(host);
    }
    const bool list = places.kind == HostOrderKind::hosts;
    // Each level by where its switch was first given: groups stay together, their order is kept.
    std::map<std::string, std::vector<std::size_t>> key;
    for (const auto& [host, place] : way)
        for (std::size_t level = 1; level <= place.size(); ++level)
            key[host].push_back(
                list ? static_cast<std::size_t>(to_integer(place.front()).value_or(0))
                     : first.at(
                           {place.begin(), place.begin() + static_cast<std::ptrdiff_t>(level)}));
    order.hosts = hosts;
    std::stable_sort(order.hosts.begin(), order.hosts.end(),
                     [&](const std::string& a, const std::string& b) { return key[a] < key[b]; });
    order.hosts.insert(order.hosts.end(), order.unknown.begin(), order.unknown.end());
    order.changed = order.hosts != once;
    if (!list) {
        order.crossings_given = crossings(once, way);
        order.crossings = crossings(order.hosts, way);
    }
    return order;
}

std::vector<std::string> host_order_advice(const Job& job, const HostOrder& order,
                                           const std::string& file) {
    const std::string quoted = shell_word(file);
    const std::string hosts = shell_word(join(order.hosts, ","));
    const std::string tasks =
        job.ranks_per_node
            ? std::to_string(order.hosts.size() * static_cast<std::size_t>(*job.ranks_per_node))
            : "RANKS";
    const std::string srun = fmt::format(
        "srun: SLURM_HOSTFILE={} srun -m arbitrary -n {} ..., one line of the file a task (toporun "
        "env "
        "--format hosts writes it)",
        quoted, tasks);
    const std::string openmpi =
        fmt::format("Open MPI: mpirun --hostfile {} --map-by seq ...", quoted);
    const std::string hydra = fmt::format("MPICH, Intel MPI: mpiexec -hosts {} ...", hosts);
    const std::string torchrun =
        "torchrun: --rdzv-backend=static --node-rank=PLACE --master-addr=FIRST (place in this "
        "order from 0; under srun --node-rank=$SLURM_PROCID, not SLURM_NODEID); with c10d "
        "torchrun sorts the nodes by name whatever is given";
    if (job.launcher == "srun") return {srun};
    if (job.launcher == "openmpi") return {openmpi};
    if (job.launcher == "hydra") return {hydra};
    if (job.launcher == "torchrun") return {torchrun};
    return {srun, openmpi, hydra, torchrun};
}

std::vector<Finding> host_order_findings(const Job& job, const HostOrder& order,
                                         const HostPlaces& places, const std::string& file) {
    std::vector<Finding> findings;
    for (const std::string& note : places.notes)
        findings.push_back({"host-order", Severity::note, note, file,
                            "the order of the hosts goes by what is left of the file", "", ""});
    if (!order.changed || order.hosts.size() < 2) return findings;
    const bool list = places.kind == HostOrderKind::hosts;
    if (!list && order.crossings >= order.crossings_given) return findings;
    std::string shown;
    for (std::size_t i = 0; i < order.hosts.size() && i < 8; ++i)
        shown += (i > 0 ? "," : "") + order.hosts[i];
    if (order.hosts.size() > 8) shown += fmt::format(",... ({} hosts)", order.hosts.size());
    findings.push_back(
        {"host-order", Severity::note,
         list ? std::string("the hosts are not in the order of the file")
              : fmt::format("neighbouring hosts are on different switches {} times, {} times "
                            "in the order of the switches",
                            order.crossings_given, order.crossings),
         fmt::format("{}: {}", file, shown),
         "rings and trees between nodes follow the order of ranks: each change of switch "
         "shares the links above it",
         join(host_order_advice(job, order, "HOSTS"), "; "), ""});
    return findings;
}

std::string host_file_text(const std::vector<std::string>& hosts, int ranks_per_node) {
    std::string text;
    for (const std::string& host : hosts)
        for (int rank = 0; rank < ranks_per_node; ++rank) text += host + "\n";
    return text;
}

}  // namespace toporun::env
