#include <algorithm>
#include <numeric>
#include <set>

#include "detect/import/merge_facts.hpp"

namespace toporun::detect::merge {
namespace {

std::string name_of(const Gpu& gpu) {
    return fmt::format("GPU {}", gpu.index);
}

void merge_links(std::vector<GpuLink>& into, const std::vector<GpuLink>& from,
                 const std::string& subject, Facts& facts) {
    for (const GpuLink& link : from) {
        const auto known = std::find_if(into.begin(), into.end(), [&](const GpuLink& other) {
            return other.link == link.link;
        });
        if (known == into.end()) {
            into.push_back(link);
            continue;
        }
        const std::string name = fmt::format("{} link {}", subject, link.link);
        facts.take(known->active, link.active, name, "active");
        facts.take(known->version, link.version, name, "the version");
        facts.take(known->peer, link.peer, name, "the peer");
        facts.take(known->peer_kind, link.peer_kind, name, "the kind of peer");
        facts.take(known->speed_gbytes_per_s, link.speed_gbytes_per_s, name, "the speed");
    }
    std::sort(into.begin(), into.end(),
              [](const GpuLink& a, const GpuLink& b) { return a.link < b.link; });
}

void merge_gpu(Gpu& into, const Gpu& from, Facts& facts) {
    const std::string subject = name_of(into);
    facts.take(into.name, from.name, subject, "the name");
    facts.take(into.vendor, from.vendor, subject, "the vendor");
    facts.take(into.pci, from.pci, subject, "the bus id");
    facts.take(into.pci_id, from.pci_id, subject, "vendor and device");
    facts.take(into.uuid, from.uuid, subject, "the UUID");
    facts.take(into.numa_node, from.numa_node, subject, "the NUMA node");
    facts.take(into.cpus, from.cpus, subject, "the CPU list");
    facts.take(into.memory_bytes, from.memory_bytes, subject, "memory_bytes");
    facts.take(into.pcie_generation, from.pcie_generation, subject, "pcie_generation");
    facts.take(into.pcie_width, from.pcie_width, subject, "pcie_width");
    facts.take(into.mig, from.mig, subject, "mig");
    facts.take(into.compute_capability, from.compute_capability, subject, "compute_capability");
    facts.take(into.architecture, from.architecture, subject, "the architecture");
    Facts::take_latest(into.memory_used_bytes, from.memory_used_bytes);
    Facts::take_latest(into.pcie_generation_now, from.pcie_generation_now);
    Facts::take_latest(into.pcie_width_now, from.pcie_width_now);
    facts.take(into.persistence, from.persistence, subject, "persistence");
    facts.take(into.ecc, from.ecc, subject, "ecc");
    facts.take(into.responding, from.responding, subject, "responding");
    facts.take(into.compute_mode, from.compute_mode, subject, "the compute mode");
    Facts::take_latest(into.uncorrected_errors, from.uncorrected_errors);
    facts.take(into.row_remap_failed, from.row_remap_failed, subject, "row_remap_failed");
    facts.take(into.row_remap_pending, from.row_remap_pending, subject, "row_remap_pending");
    for (const std::string& reason : from.throttle_reasons)
        if (std::find(into.throttle_reasons.begin(), into.throttle_reasons.end(), reason) ==
            into.throttle_reasons.end())
            into.throttle_reasons.push_back(reason);
    merge_links(into.links, from.links, subject, facts);
    facts.take(into.fabric_state, from.fabric_state, subject, "the fabric state");
    facts.take(into.fabric_status, from.fabric_status, subject, "the fabric status");
    if (!into.acs_root_port) into.acs_root_port = from.acs_root_port;
    facts.take(into.memory_numa_node, from.memory_numa_node, subject, "memory_numa_node");
    facts.take(into.c2c_gbytes_per_s, from.c2c_gbytes_per_s, subject, "c2c_gbytes_per_s");
}

/// The position in `known` of each of `gpus`, known.size() for one that is not there. By bus id
/// before UUID before index: what one key joins is not free for the next. By index only where no
/// bus id speaks against it, unless there are as many: then the two texts are taken for one machine
/// all the same.
std::vector<std::size_t> find_gpus(const std::vector<Gpu>& known, const std::vector<Gpu>& gpus) {
    std::vector<std::size_t> found(gpus.size(), known.size());
    std::vector<bool> taken(known.size());
    const auto join = [&](const auto& is_same) {
        for (std::size_t i = 0; i < gpus.size(); ++i)
            for (std::size_t at = 0; at < known.size() && found[i] == known.size(); ++at)
                if (!taken[at] && is_same(known[at], gpus[i])) found[i] = at, taken[at] = true;
    };
    const bool same_count = known.size() == gpus.size();
    join([](const Gpu& a, const Gpu& b) { return a.pci && a.pci == b.pci; });
    join([](const Gpu& a, const Gpu& b) { return a.uuid && a.uuid == b.uuid; });
    join([&](const Gpu& a, const Gpu& b) {
        return a.index == b.index && (same_count || !a.pci || !b.pci);
    });
    return found;
}

/// Two GPUs never have one index: the later one gets the next free one.
void unique_indices(std::vector<Gpu>& gpus, Facts& facts) {
    std::set<int> used;
    for (Gpu& gpu : gpus) {
        if (used.insert(gpu.index).second) continue;
        const int old = gpu.index;
        while (!used.insert(gpu.index).second) ++gpu.index;
        facts.note(fmt::format("{} and {} have different GPUs {}: the one of {} is GPU {} here",
                               facts.first(), facts.second(), old, facts.second(), gpu.index));
    }
}

/// NVB is what NCCL finds where the tables of tools only know PCIe; NVLink is nearer than PCIe.
PathType join_paths(PathType a, PathType b, bool& contradiction) {
    const auto over_links = [](PathType path) {
        return path == PathType::NVL || path == PathType::NVB || path == PathType::C2C;
    };
    contradiction = a != PathType::NVB && b != PathType::NVB;
    if (over_links(a) != over_links(b)) return over_links(a) ? a : b;
    return a;
}

void merge_matrices(Machine& into, const Machine& from, const GpuPositions& at, Facts& facts) {
    const auto pair = [&](std::size_t a, std::size_t b) {
        return fmt::format("GPU {} and GPU {}", into.gpus[a].index, into.gpus[b].index);
    };
    into.gpu_paths = join_square<PathType>(
        into.gpu_paths, at.into, from.gpu_paths, at.from, at.count, PathType::DIS, PathType::LOC,
        [&](std::size_t a, std::size_t b, PathType x, PathType y) {
            bool contradiction = false;
            const PathType path = join_paths(x, y, contradiction);
            if (contradiction && a < b)
                facts.contradiction(pair(a, b), "the path", std::string(path_name(x)),
                                    std::string(path_name(y)), path != x);
            return path;
        });
    into.gpu_links =
        join_square<int>(into.gpu_links, at.into, from.gpu_links, at.from, at.count, -1, 0,
                         [&](std::size_t a, std::size_t b, int x, int y) {
                             if (a < b)
                                 facts.contradiction(pair(a, b), "the number of NVLinks",
                                                     std::to_string(x), std::to_string(y), x == 0);
                             return x == 0 ? y : x;  // as of the paths, NVLink stays
                         });
    for (std::size_t a = 0; a < into.gpu_links.size() && a < into.gpu_paths.size(); ++a)
        for (std::size_t b = 0; b < into.gpu_links[a].size(); ++b)
            if (into.gpu_links[a][b] == 0 && into.gpu_paths[a][b] == PathType::NVL)
                into.gpu_links[a][b] = -1;  // the text of the path does not count them
    into.gpu_path_gbytes_per_s = join_square<std::optional<double>>(
        into.gpu_path_gbytes_per_s, at.into, from.gpu_path_gbytes_per_s, at.from, at.count,
        std::nullopt, std::nullopt,
        [](std::size_t, std::size_t, std::optional<double> x, std::optional<double>) { return x; });
    into.peer_access = join_square<PeerAccess>(
        into.peer_access, at.into, from.peer_access, at.from, at.count, PeerAccess::unknown,
        PeerAccess::ok,
        // Reading and writing are asked apart: refused in one of them is refused.
        [](std::size_t, std::size_t, PeerAccess, PeerAccess) { return PeerAccess::refused; });
    into.gpu_acs_redirect = join_square<AcsRedirect>(
        into.gpu_acs_redirect, at.into, from.gpu_acs_redirect, at.from, at.count,
        AcsRedirect::unknown, AcsRedirect::off,
        [](std::size_t, std::size_t, AcsRedirect, AcsRedirect) { return AcsRedirect::on; });
    into.nvswitch = into.nvswitch || from.nvswitch;
}

/// Sorts by index; `order` holds for each old position the new one.
std::vector<std::size_t> sort_by_index(std::vector<Gpu>& gpus) {
    std::vector<std::size_t> by_index(gpus.size());
    std::iota(by_index.begin(), by_index.end(), std::size_t{0});
    std::stable_sort(by_index.begin(), by_index.end(),
                     [&](std::size_t a, std::size_t b) { return gpus[a].index < gpus[b].index; });
    std::vector<std::size_t> order(gpus.size());
    std::vector<Gpu> sorted;
    for (std::size_t i = 0; i < by_index.size(); ++i) {
        order[by_index[i]] = i;
        sorted.push_back(std::move(gpus[by_index[i]]));
    }
    gpus = std::move(sorted);
    return order;
}

/// A list of all that is on the bus (Machine::gpus without gpus_known) adds facts to the GPUs that
/// are known and none to their number. By index alone only where both tell of as many.
Machine known_gpus_of(const Machine& listed, const Machine& known) {
    Machine part = listed;
    const bool same_count = listed.gpus.size() == known.gpus.size();
    const auto is_known = [&](const Gpu& gpu) {
        return std::any_of(known.gpus.begin(), known.gpus.end(), [&](const Gpu& other) {
            return other.pci ? other.pci == gpu.pci : same_count && other.index == gpu.index;
        });
    };
    part.gpus.clear();
    part.gpu_acs_redirect.clear();
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < listed.gpus.size(); ++i)
        if (is_known(listed.gpus[i])) kept.push_back(i), part.gpus.push_back(listed.gpus[i]);
    if (listed.gpu_acs_redirect.empty()) return part;
    for (const std::size_t a : kept) {
        part.gpu_acs_redirect.emplace_back();
        for (const std::size_t b : kept)
            part.gpu_acs_redirect.back().push_back(listed.gpu_acs_redirect[a][b]);
    }
    return part;
}

GpuPositions join_gpus(Machine& into, const Machine& from, Facts& facts) {
    const std::size_t before = into.gpus.size();
    if (into.gpus_known && from.gpus_known && before != from.gpus.size())
        facts.note(fmt::format("{} tells of {} GPUs, {} of {}", facts.first(), before,
                               facts.second(), from.gpus.size()));
    std::vector<std::size_t> joined = find_gpus(into.gpus, from.gpus);  // before sorting
    for (std::size_t i = 0; i < from.gpus.size(); ++i) {
        if (joined[i] < before) {
            merge_gpu(into.gpus[joined[i]], from.gpus[i], facts);
        } else {
            joined[i] = into.gpus.size();
            into.gpus.push_back(from.gpus[i]);
        }
    }
    unique_indices(into.gpus, facts);
    const std::vector<std::size_t> order = sort_by_index(into.gpus);
    GpuPositions positions;
    positions.count = into.gpus.size();
    positions.into.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(before));
    for (const std::size_t position : joined) positions.from.push_back(order[position]);
    merge_matrices(into, from, positions, facts);
    into.gpus_known = into.gpus_known || from.gpus_known;
    return positions;
}

}  // namespace

GpuPositions merge_gpus(Machine& into, const Machine& from, Facts& facts) {
    if (!into.gpus_known || from.gpus_known || from.gpus.empty())
        return join_gpus(into, from, facts);
    return join_gpus(into, known_gpus_of(from, into), facts);
}

}  // namespace toporun::detect::merge
