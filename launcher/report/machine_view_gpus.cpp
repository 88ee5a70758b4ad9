#include <fmt/format.h>

#include <map>
#include <set>

#include "base/text.hpp"
#include "detect/gpu/nvlink_rate.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view_parts.hpp"

/// GPUs and the paths between them.
namespace toporun::launcher {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::PathType;

std::string pcie_text(const std::optional<int>& generation, const std::optional<int>& width) {
    std::vector<std::string> words;
    if (generation) words.push_back(fmt::format("Gen{}", *generation));
    if (width) words.push_back(fmt::format("x{}", *width));
    return join(words, " ");
}

/// "Gen5 x16", or "Gen1 x8 of Gen5 x16" where the link is below what it can be.
std::string pcie_cell(const Gpu& gpu) {
    const std::string possible = pcie_text(gpu.pcie_generation, gpu.pcie_width);
    const std::string now = pcie_text(gpu.pcie_generation_now, gpu.pcie_width_now);
    if (now.empty() || now == possible) return possible;
    return possible.empty() ? now + " now" : now + " of " + possible;
}

template <class Value>
std::string number_cell(const std::optional<Value>& value) {
    return value ? fmt::format("{}", *value) : std::string();
}

std::string size_cell(const std::optional<std::uint64_t>& bytes) {
    return bytes ? bytes_text(*bytes) : std::string();
}

/// "" where no more than the number of each GPU is known.
std::string gpu_table(const Machine& machine) {
    const bool any_mig = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                     [](const Gpu& gpu) { return gpu.mig == true; });
    const bool any_name = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                      [](const Gpu& gpu) { return !gpu.name.empty(); });
    const auto name = [&](const Gpu& gpu) {
        return gpu.name.empty() && any_name ? gpu.vendor : gpu.name;
    };
    Table table({"GPU", "name", "memory", "used", "PCI", "PCIe", "NUMA", "MIG", "near CPUs"});
    for (const Gpu& gpu : machine.gpus)
        table.row({fmt::format("{}", gpu.index), name(gpu), size_cell(gpu.memory_bytes),
                   size_cell(gpu.memory_used_bytes), gpu.pci ? gpu.pci->text() : "", pcie_cell(gpu),
                   number_cell(gpu.numa_node), any_mig && gpu.mig ? (*gpu.mig ? "on" : "off") : "",
                   cpu_list(gpu.cpus)});
    return table.said() > 1 ? table.text() : "";
}

/// The words of `words_of` that hold for all GPUs in one line, the others with the GPUs that they
/// hold for, in the order of the GPUs.
template <class WordsOf>
std::string facts_of_gpus(const Machine& machine, const WordsOf& words_of) {
    std::vector<std::vector<std::string>> words;
    for (const Gpu& gpu : machine.gpus) words.push_back(words_of(gpu));
    const auto is_common = [&](const std::string& word) {
        return words.size() > 1 && std::all_of(words.begin(), words.end(), [&](const auto& each) {
                   return std::find(each.begin(), each.end(), word) != each.end();
               });
    };
    std::vector<std::string> common;
    std::vector<std::pair<std::string, std::vector<int>>> holders;
    for (std::size_t gpu = 0; gpu < words.size(); ++gpu) {
        std::vector<std::string> own;
        for (const std::string& word : words[gpu]) {
            if (!is_common(word))
                own.push_back(word);
            else if (gpu == 0)
                common.push_back(word);
        }
        if (own.empty()) continue;
        const std::string fact = join(own, ", ");
        auto found = std::find_if(holders.begin(), holders.end(),
                                  [&](const auto& holder) { return holder.first == fact; });
        if (found == holders.end()) found = holders.insert(holders.end(), {fact, {}});
        found->second.push_back(machine.gpus[gpu].index);
    }
    std::string out;
    if (!common.empty()) out += fmt::format("  every GPU: {}\n", printable(join(common, ", ")));
    for (const auto& [fact, indices] : holders)
        out += fmt::format("  GPU {}: {}\n", index_list(indices), printable(fact));
    return out;
}

/// The modes and the architecture, which are usually the same everywhere.
std::vector<std::string> modes(const Gpu& gpu) {
    std::vector<std::string> words;
    if (!gpu.architecture.empty()) words.push_back(gpu.architecture);
    if (gpu.compute_capability)
        words.push_back(fmt::format("compute capability {}.{}", *gpu.compute_capability / 10,
                                    *gpu.compute_capability % 10));
    if (gpu.ecc) words.emplace_back(*gpu.ecc ? "ECC on" : "ECC off");
    if (gpu.persistence)
        words.emplace_back(*gpu.persistence ? "persistence on" : "persistence off");
    return words;
}

std::vector<std::string> troubles(const Gpu& gpu) {
    std::vector<std::string> words;
    if (gpu.responding == false) words.emplace_back("does not answer the driver");
    if (gpu.compute_mode == "prohibited") words.emplace_back("compute mode prohibited");
    if (gpu.compute_mode == "exclusive-process")
        words.emplace_back("compute mode exclusive: one process");
    if (gpu.uncorrected_errors.value_or(0) > 0)
        words.push_back(fmt::format("{} memory errors not corrected", *gpu.uncorrected_errors));
    if (!gpu.throttle_reasons.empty())
        words.push_back("clocks held down: " + join(gpu.throttle_reasons, ", "));
    if (gpu.row_remap_failed == true) words.emplace_back("memory could not be repaired");
    if (gpu.row_remap_pending == true) words.emplace_back("memory repair waits for a reset");
    std::vector<int> down;
    for (const detect::GpuLink& link : gpu.links)
        if (link.active == false) down.push_back(link.link);
    if (!down.empty())
        words.push_back(fmt::format("{} of {} links down ({})", down.size(), gpu.links.size(),
                                    index_list(down)));
    if (gpu.fabric_state == "not started" || gpu.fabric_state == "in progress")
        words.push_back("fabric " + gpu.fabric_state);
    if (gpu.fabric_state == "completed" && !gpu.fabric_status.empty() &&
        gpu.fabric_status != "success")
        words.push_back("fabric: " + gpu.fabric_status);
    return words;
}

std::vector<std::string> c2c(const Gpu& gpu) {
    if (!gpu.c2c_gbytes_per_s) return {};
    return {fmt::format("NVLink-C2C to the CPU, {} GB/s", rate_text(*gpu.c2c_gbytes_per_s))};
}

/// Pairs "0-1 2-3" for which `applies`.
template <class Applies>
std::string pairs_where(const Machine& machine, const Applies& applies) {
    std::vector<std::string> pairs;
    std::size_t all = 0;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b, ++all)
            if (applies(a, b))
                pairs.push_back(fmt::format("{}-{}", machine.gpus[a].index, machine.gpus[b].index));
    if (pairs.size() > 1 && pairs.size() == all) return "every pair";
    constexpr std::size_t kMostPairs = 14;
    if (pairs.size() <= kMostPairs) return join(pairs, " ");
    return fmt::format("{} of {} pairs", pairs.size(), all);
}

/// What is known of all pairs with the same path.
struct PathClass {
    std::size_t pairs = 0;
    int links = 0;
    PathType path = PathType::SYS;
    std::set<double> nominal_gbytes_per_s;  ///< of the pair, by the links' maker
    std::set<double> nccl_gbytes_per_s;     ///< by NCCL's constants
};

std::map<std::string, PathClass> path_classes(const Machine& machine) {
    std::map<std::string, PathClass> classes;
    const bool bandwidths = machine.gpu_path_gbytes_per_s.size() == machine.gpus.size();
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b) {
            PathClass& found = classes[path_text(machine, a, b)];
            ++found.pairs;
            found.path = machine.gpu_paths[a][b];
            if (machine.gpu_links.size() > a && machine.gpu_links[a].size() > b)
                found.links = machine.gpu_links[a][b];
            if (const auto rate = detect::nominal_nvlink_gbytes_per_s(machine.gpus[a]);
                rate && found.links > 0)
                found.nominal_gbytes_per_s.insert(*rate * found.links);
            if (!bandwidths || machine.gpu_path_gbytes_per_s[a].size() <= b) continue;
            if (const auto& rate = machine.gpu_path_gbytes_per_s[a][b])
                found.nccl_gbytes_per_s.insert(*rate);
        }
    return classes;
}

std::string range_text(const std::set<double>& values) {
    const std::string least = rate_text(*values.begin());
    const std::string most = rate_text(*values.rbegin());
    return least == most ? least : least + " to " + most;
}

std::string_view meaning(PathType path, bool amd) {
    switch (path) {
        case PathType::NVL:
            return amd ? "xGMI" : "NVLink";
        case PathType::NVB:
            return amd ? "xGMI through a third GPU" : "NVLink through a third GPU";
        case PathType::C2C:
            return "NVLink-C2C";
        case PathType::PIX:
            return "one PCIe switch";
        case PathType::PXB:
            return "several PCIe switches";
        case PathType::PHB:
            return "through the CPU of one NUMA node";
        case PathType::SYS:
            return "between NUMA nodes";
        case PathType::DIS:
            return "not told";
        default:
            return "";
    }
}

/// "18 NVLinks, 450 GB/s in one direction, NCCL counts with 371 GB/s".
std::string class_text(const Machine& machine, const PathClass& found) {
    std::vector<std::string> words;
    const bool amd = machine.gpus.front().vendor == "amd";
    if (found.links > 0)
        words.push_back(
            counted(static_cast<std::size_t>(found.links), amd ? "xGMI link" : "NVLink"));
    else if (const std::string_view words_of_path = meaning(found.path, amd);
             !words_of_path.empty())
        words.emplace_back(words_of_path);
    if (!found.nominal_gbytes_per_s.empty())
        words.push_back(range_text(found.nominal_gbytes_per_s) + " GB/s in one direction");
    if (!found.nccl_gbytes_per_s.empty())
        words.push_back(fmt::format("{} counts with {} GB/s", amd ? "RCCL" : "NCCL",
                                    range_text(found.nccl_gbytes_per_s)));
    return join(words, ", ");
}

/// One line for each kind of path, nearest first.
std::string legend(const Machine& machine) {
    const std::map<std::string, PathClass> classes = path_classes(machine);
    if (classes.size() == 1 && classes.begin()->second.pairs > 1) {
        const auto& [name, found] = *classes.begin();
        return fmt::format("  every pair {}: {}\n", name, class_text(machine, found));
    }
    std::vector<std::pair<std::string, PathClass>> order(classes.begin(), classes.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.path, -a.second.links) <
               std::pair(b.second.path, -b.second.links);
    });
    std::vector<std::pair<std::string, std::string>> lines;
    for (const auto& [name, found] : order) lines.emplace_back(name, class_text(machine, found));
    return fact_lines(lines);
}

/// Beyond this many GPUs a matrix of equal cells tells nothing that its legend does not.
constexpr std::size_t kMostEqualColumns = 8;

std::string path_matrix(const Machine& machine) {
    const std::size_t gpus = machine.gpus.size();
    if (gpus > kMostEqualColumns && path_classes(machine).size() == 1) return {};
    std::vector<std::string> header = {"GPU"};
    for (const Gpu& gpu : machine.gpus) header.push_back(fmt::format("{}", gpu.index));
    Table table(header, gpus > kMostEqualColumns ? 1 : 2);
    for (std::size_t a = 0; a < gpus; ++a) {
        std::vector<std::string> cells = {fmt::format("{}", machine.gpus[a].index)};
        for (std::size_t b = 0; b < gpus; ++b)
            cells.push_back(a == b ? "-" : path_text(machine, a, b));
        table.row(cells);
    }
    return table.text();
}

/// `matrix` holds a GPU x GPU fact of some pairs.
template <class Cell>
std::string pair_fact(const Machine& machine, const std::vector<std::vector<Cell>>& matrix,
                      Cell value, std::string_view what) {
    const std::string pairs = pairs_where(machine, [&](std::size_t a, std::size_t b) {
        return matrix.size() > a && matrix[a].size() > b && matrix[a][b] == value;
    });
    return pairs.empty() ? "" : fmt::format("  {}: {}\n", what, pairs);
}

/// What is known of pairs besides their paths.
std::string pair_facts(const Machine& machine) {
    return pair_fact(machine, machine.peer_access, detect::PeerAccess::ok,
                     "peer access allowed by the driver") +
           pair_fact(machine, machine.peer_access, detect::PeerAccess::refused,
                     "peer access refused by the driver") +
           pair_fact(machine, machine.gpu_acs_redirect, detect::AcsRedirect::on,
                     "PCIe traffic sent through the CPU by ACS");
}

}  // namespace

std::string gpu_section(const Machine& machine) {
    if (machine.gpus.empty()) return {};
    return titled("GPUs", gpu_table(machine) + facts_of_gpus(machine, modes) +
                              facts_of_gpus(machine, c2c) + facts_of_gpus(machine, troubles));
}

std::string link_section(const Machine& machine) {
    if (!has_paths(machine)) return titled("pairs of GPUs", pair_facts(machine));
    const std::string title = machine.nvswitch
                                  ? "paths between GPUs (NCCL's words; NVLinks lead to switches)"
                                  : "paths between GPUs (NCCL's words)";
    return titled(title, path_matrix(machine) + legend(machine) + pair_facts(machine));
}

}  // namespace toporun::launcher
