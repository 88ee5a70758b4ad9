#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "detect/gpu/gpu_links.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_table.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/wrapped_row.hpp"

/// `nvidia-smi topo -m`: the matrix, CPU and NUMA affinity, the legend of NICs. The old form has
/// SOC in place of SYS and the names of RDMA devices as columns.
namespace toporun::detect {
namespace {

/// Codes of the tool and NCCL's path types: a CPU is a NUMA domain to NCCL, so NODE is PHB
/// (NCCL src/graph/topo.h).
struct Code {
    std::string_view word;
    PathType path;
};
constexpr std::array kCodes = {
    Code{"X", PathType::LOC},   Code{"PIX", PathType::PIX}, Code{"PXB", PathType::PXB},
    Code{"PSB", PathType::PXB}, Code{"PHB", PathType::PHB}, Code{"NODE", PathType::PHB},
    Code{"SYS", PathType::SYS}, Code{"SOC", PathType::SYS}, Code{"C2C", PathType::C2C},
};

/// The links of "NV12".
std::optional<int> link_count(std::string_view word) {
    if (!word.starts_with("NV") || word.size() < 3 || word.size() > 4) return std::nullopt;
    const auto links = to_integer(word.substr(2));
    if (!links || *links < 1) return std::nullopt;
    return static_cast<int>(*links);
}

std::optional<PathType> code_path(std::string_view word) {
    if (link_count(word)) return PathType::NVL;
    const auto found = std::find_if(kCodes.begin(), kCodes.end(),
                                    [&](const Code& code) { return code.word == word; });
    if (found == kCodes.end()) return std::nullopt;
    return found->path;
}

bool is_cell(std::string_view word) {
    return code_path(word).has_value();
}

/// A cell as NCCL's path and number of links. Nothing: unknown.
struct Pair {
    PathType path = PathType::DIS;
    int links = 0;
    friend bool operator==(const Pair&, const Pair&) = default;
};
using Cell = std::optional<Pair>;

Cell read_cell(std::string_view word) {
    const auto path = code_path(word);
    if (!path) return std::nullopt;
    return Pair{*path, link_count(word).value_or(0)};
}

class TopoReader {
  public:
    explicit TopoReader(const Lines& lines) : lines_(lines) {
        reading_.understood.resize(lines.lines.size());
    }

    std::optional<Reading> read() {
        auto table = find_gpu_table(lines_, 0, is_cell, reading_.understood);
        if (!table) return std::nullopt;
        table_ = std::move(*table);
        machine_ = machine_with_gpus(table_.gpus, "nvidia");
        machine_.notes = table_.notes;
        fill_cells();
        read_legends();
        links_told_ = links_told();
        set_paths();
        set_nics();
        drop_cut_affinity();
        for (const GpuTableRow& row : table_.rows)
            if (row.column < gpus()) set_affinity(row);
        set_numa_nodes();
        note_missing_rows();
        note_second_table();
        reading_.machine = std::move(machine_);
        return std::move(reading_);
    }

  private:
    std::size_t gpus() const { return table_.gpus.size(); }
    const std::string& name(std::size_t column) const { return table_.columns[column]; }

    /// A row with fewer cells than columns is sure up to its X, if that is in its place; behind it
    /// one cannot know which cell was lost, unless the row just ends there.
    std::size_t sure_cells(const GpuTableRow& row) {
        const std::size_t count = row.cells.size();
        const bool x_in_place = row.column >= count || row.cells[row.column] == "X";
        if (count == table_.columns.size() && x_in_place) return count;
        if (!x_in_place) {
            machine_.notes.push_back(
                fmt::format("row {}: the X is not in its own column, the row is left out",
                            printable(name(row.column))));
            return 0;
        }
        machine_.notes.push_back(fmt::format("row {} is cut: {} cells of {}",
                                             printable(name(row.column)), count,
                                             table_.columns.size()));
        // The last word of a cut line may be the beginning of a longer one: NV1 of NV18.
        if (row.affinity.empty()) return count > 0 ? count - 1 : 0;
        return std::min(count, row.column + 1);
    }

    void fill_cells() {
        const std::size_t columns = table_.columns.size();
        cells_.assign(gpus(), std::vector<Cell>(columns));
        for (const GpuTableRow& row : table_.rows) {
            const std::size_t sure = sure_cells(row);
            for (std::size_t other = 0; other < sure; ++other) {
                const Cell cell = read_cell(row.cells[other]);
                if (row.column < gpus()) put(row.column, other, cell);
                if (other < gpus()) put(other, row.column, cell);
            }
        }
    }

    /// Every pair stands in the table twice. Where the two differ the longer way is kept.
    void put(std::size_t gpu, std::size_t other, const Cell& cell) {
        Cell& known = cells_[gpu][other];
        if (!known || !cell || gpu == other) {
            if (!known) known = cell;
            return;
        }
        if (*known == *cell) return;
        if (gpu < other && contradictions_++ < 8)
            machine_.notes.push_back(fmt::format("{} and {}: the two halves of the table differ",
                                                 printable(name(gpu)), printable(name(other))));
        if (cell->path > known->path || (cell->path == known->path && cell->links < known->links))
            known = cell;
    }

    void set_paths() {
        const std::size_t count = gpus();
        PciePaths pcie(count, std::vector<std::optional<PathType>>(count));
        machine_.gpu_links.assign(count, std::vector<int>(count));
        bool complete = true;
        for (std::size_t a = 0; a < count; ++a)
            for (std::size_t b = 0; b < count; ++b) {
                if (a == b) continue;
                const Cell& cell = cells_[a][b];
                complete = complete && cell;
                machine_.gpu_links[a][b] = cell ? cell->links : -1;
                if (cell && cell->links == 0) pcie[a][b] = cell->path;
            }
        if (complete) {
            machine_.gpu_paths = gpu_path_matrix(pcie, machine_.gpu_links);
        } else {
            set_known_paths(pcie);
        }
        machine_.nvswitch = behind_switches();
        if (links_told_) return;
        for (std::size_t a = 0; a < count; ++a)
            for (std::size_t b = 0; b < count; ++b)
                if (a != b) machine_.gpu_links[a][b] = -1;
        if (count > 1)
            machine_.notes.emplace_back(
                "the table is that of `nvidia-smi topo -mp`, paths by PCI alone: NVLinks are "
                "unknown, `nvidia-smi topo -m` tells them");
    }

    /// As gpu_path_matrix, but a pair that the text does not tell stays open.
    void set_known_paths(PciePaths pcie) {
        for (std::size_t a = 0; a < gpus(); ++a)
            for (std::size_t b = 0; b < gpus(); ++b)
                if (a != b && !cells_[a][b]) pcie[a][b] = PathType::SYS;  // to be complete
        machine_.gpu_paths = gpu_path_matrix(pcie, machine_.gpu_links);
        for (std::size_t a = 0; a < gpus(); ++a)
            for (std::size_t b = 0; b < gpus(); ++b)
                if (a != b && !cells_[a][b]) machine_.gpu_paths[a][b] = PathType::DIS;
    }

    /// Switches are certain where a GPU would need more links than it has to reach every other one
    /// directly, or has all of them to one other.
    bool behind_switches() const {
        return std::any_of(machine_.gpu_links.begin(), machine_.gpu_links.end(),
                           [](const std::vector<int>& row) {
                               int sum = 0, most = 0;
                               for (const int links : row) {
                                   sum += std::max(links, 0);
                                   most = std::max(links, most);
                               }
                               return sum > kMostDirectLinks || most >= kMostDirectLinks;
                           });
    }

    /// "NIC0: mlx5_0" and the explanations of the codes.
    void read_legends() {
        for (std::size_t i = 0; i < lines_.lines.size(); ++i) {
            const auto word = words(lines_.lines[i].text);
            if (word.empty()) continue;
            if (word.size() > 5 && word[1] == "NICs" && word[2] == "found" && all_digits(word[0])) {
                // "76 NICs found in the topology, only displaying 32 in the matrix."
                machine_.notes.push_back(fmt::format(
                    "the table shows not all of {} adapters: the others, near ones too, are "
                    "unknown",
                    printable(word[0].substr(0, 8))));
                reading_.understood[i] = true;
            }
            const bool heading = trim(lines_.lines[i].text) == "Legend:" ||
                                 trim(lines_.lines[i].text) == "NIC Legend:";
            const bool code =
                word.size() > 2 && word[1] == "=" && (code_path(word[0]) || word[0] == "NV#");
            const bool nic =
                word.size() == 2 && word[0].starts_with("NIC") && word[0].ends_with(":");
            if (nic)
                legend_.try_emplace(std::string(word[0].substr(0, word[0].size() - 1)), word[1]);
            if (heading || code || nic) reading_.understood[i] = true;
        }
    }

    /// Of `topo -mp` (--matrix_pci) the cells are paths by PCI alone, whatever NVLinks there are.
    /// It is known by its command, and by its legend, which lacks the line on NV#. The old legend
    /// with SOC had none either, before NVLink.
    bool links_told() const {
        bool legend = false, linked = false;
        for (const PastedLine& line : lines_.lines) {
            const auto word = words(line.text);
            for (std::size_t i = 0; i + 1 < word.size(); ++i)
                if (word[i] == "topo" && (word[i + 1] == "-mp" || word[i + 1] == "--matrix_pci"))
                    return false;
            if (word.size() < 2 || word[1] != "=") continue;
            if (word[0] == "NV#" || word[0] == "SOC") return true;
            legend = legend || word[0] == "PIX";
        }
        for (const auto& row : cells_)
            for (const Cell& cell : row) linked = linked || (cell && cell->links > 0);
        return linked || !legend;
    }

    void set_nics() {
        const std::size_t count = table_.columns.size() - gpus();
        if (count == 0) return;
        machine_.nics_known = true;
        std::size_t nameless = 0;
        for (std::size_t i = gpus(); i < table_.columns.size(); ++i) {
            Nic nic;
            nic.name = name(i);
            nic.state = "unknown";
            const auto found = legend_.find(nic.name);
            if (found != legend_.end()) nic.name = found->second;
            if (found != legend_.end() || !nic.name.starts_with("NIC"))
                nic.rdma_device = nic.name;
            else
                ++nameless;
            if (named_efa(nic.name)) nic.kind = NicKind::efa;
            machine_.nics.push_back(std::move(nic));
        }
        if (nameless > 0)
            machine_.notes.push_back(fmt::format(
                "the legend is missing: which RDMA devices {} are is unknown",
                count == 1 ? "NIC0"
                           : fmt::format("{} to {}", name(gpus()), table_.columns.back())));
        machine_.gpu_nic_paths.assign(gpus(), std::vector<std::optional<PathType>>(count));
        for (std::size_t gpu = 0; gpu < gpus(); ++gpu)
            for (std::size_t nic = 0; nic < count; ++nic)
                if (const Cell& cell = cells_[gpu][gpus() + nic])
                    machine_.gpu_nic_paths[gpu][nic] = cell->path;
    }

    /// A row that ends before the others, or below a header that was cut, may have lost a part of
    /// its last word: that is no fact any more.
    void drop_cut_affinity() {
        only_numa_ = only_numa();
        if (only_numa_) return;
        std::size_t most = table_.affinity_columns > 1 ? 2 : 0;
        for (const GpuTableRow& row : table_.rows) most = std::max(most, row.affinity.size());
        std::vector<std::string> cut;
        for (GpuTableRow& row : table_.rows) {
            const bool header = table_.header_cut && row.affinity.size() <= table_.affinity_columns;
            const bool node = table_.numa_affinity && !table_.cpu_affinity;
            if (row.column >= gpus() || row.affinity.empty() || row.affinity.back() == "N/A" ||
                node || (row.affinity.size() >= most && !header))
                continue;
            row.affinity.pop_back();
            cut.push_back(printable(name(row.column)));
        }
        if (!cut.empty())
            machine_.notes.push_back(
                fmt::format("{} {}: the line ends in the columns on CPUs and NUMA nodes, its last "
                            "word is left out",
                            cut.size() == 1 ? "row" : "rows", join(cut, ", ")));
    }

    void set_affinity(const GpuTableRow& row) {
        Gpu& gpu = machine_.gpus[row.column];
        std::size_t at = 0;
        const auto next = [&]() -> std::string {
            return at < row.affinity.size() ? row.affinity[at++] : "";
        };
        if (table_.cpu_affinity && !only_numa_) {
            std::string list = next();
            while (list.ends_with(",") && at < row.affinity.size()) list += next();
            if (const auto cpus = cpu_list(list))
                gpu.cpus = *cpus;
            else if (!list.empty() && list != "N/A")
                machine_.notes.push_back(fmt::format("row {}: '{}' is not a list of CPUs",
                                                     printable(name(row.column)),
                                                     printable(list.substr(0, 40))));
        }
        if (!table_.numa_affinity) return;
        const std::string nodes = next();
        gpu.numa_node = first_of_list(nodes);
        if (gpu.numa_node && nodes.find_first_of(",-") != std::string::npos && !numa_list_noted_) {
            numa_list_noted_ = true;
            machine_.notes.push_back(fmt::format(
                "row {}: of the NUMA nodes {} the first is taken, the others are memory "
                "without CPUs",
                name(row.column), nodes));
        }
        if (at < row.affinity.size()) gpu.memory_numa_node = first_of_list(next());
    }

    /// Empty cells under "CPU Affinity": the only number is the NUMA node. In a single row it may
    /// as well be the beginning of a list that was cut.
    bool only_numa() const {
        return table_.numa_affinity && !table_.header_cut &&
               std::all_of(table_.rows.begin(), table_.rows.end(), [&](const GpuTableRow& row) {
                   const auto& affinity = row.affinity;
                   return row.column >= gpus() || affinity.empty() || affinity[0] == "N/A" ||
                          (affinity[0].find_first_of(",-/") == std::string::npos &&
                           (affinity.size() == 1 || affinity[1] == "N/A"));
               });
    }

    /// The CPUs near a GPU are those of its NUMA node.
    void set_numa_nodes() {
        std::map<int, CpuSet> nodes;
        std::vector<int> unclear;
        for (const Gpu& gpu : machine_.gpus) {
            if (!gpu.numa_node || gpu.cpus.empty()) continue;
            const auto [node, added] = nodes.try_emplace(*gpu.numa_node, gpu.cpus);
            if (!added && node->second != gpu.cpus) unclear.push_back(*gpu.numa_node);
        }
        for (const auto& node : nodes) {
            if (std::find(unclear.begin(), unclear.end(), node.first) != unclear.end()) continue;
            const bool shared = std::any_of(nodes.begin(), nodes.end(), [&](const auto& other) {
                return other.first != node.first && !(other.second & node.second).empty();
            });
            if (!shared) machine_.cpu.numa_nodes.push_back({node.first, node.second, std::nullopt});
        }
        // Nodes without a GPU are not in the table: seen by CPUs that no listed node has.
        CpuSet all;
        for (const NumaNode& node : machine_.cpu.numa_nodes) all = all | node.cpus;
        if (!all.empty() && all.indices().back() + 1 != all.count())
            machine_.notes.emplace_back(
                "NUMA nodes without a GPU are not in the table, there are some");
    }

    void note_missing_rows() {
        std::vector<bool> seen(table_.columns.size());
        for (const GpuTableRow& row : table_.rows) seen[row.column] = true;
        std::vector<std::string> gpu_rows, nic_rows;
        for (std::size_t i = 0; i < seen.size(); ++i)
            if (!seen[i]) (i < gpus() ? gpu_rows : nic_rows).push_back(printable(name(i)));
        if (!gpu_rows.empty())
            machine_.notes.push_back(
                fmt::format("the table is cut, missing: {} of {}; what only they tell is unknown",
                            gpu_rows.size() == 1 ? "the row" : "the rows", join(gpu_rows, ", ")));
        if (!nic_rows.empty())
            machine_.notes.push_back(
                fmt::format("the table is cut, missing: {} of {}; the rows of the GPUs tell their "
                            "paths",
                            nic_rows.size() == 1 ? "the row" : "the rows", join(nic_rows, ", ")));
    }

    void note_second_table() {
        std::vector<bool> ignored(lines_.lines.size());
        if (const auto other = find_gpu_table(lines_, table_.end, is_cell, ignored)) {
            machine_.notes.push_back(fmt::format("a second table from line {} on is left out",
                                                 lines_.lines[other->header].number));
            for (std::size_t i = other->header; i < other->end; ++i)
                if (ignored[i]) reading_.understood[i] = true;
        }
    }

    const Lines& lines_;
    Reading reading_;
    Machine machine_;
    GpuTable table_;
    std::vector<std::vector<Cell>> cells_;  ///< GPU x column
    std::map<std::string, std::string, std::less<>> legend_;
    std::size_t contradictions_ = 0;
    bool numa_list_noted_ = false, only_numa_ = false, links_told_ = true;
};

bool recognise(const Lines& lines) {
    std::vector<bool> ignored;
    const auto table = find_gpu_table(lines, 0, is_cell, ignored);
    if (!table) return false;
    // One GPU: its row is "GPU0 X" in other tables as well.
    const auto is_path = [](const std::string& cell) { return is_cell(cell) && cell != "X"; };
    return table->cpu_affinity || table->numa_affinity ||
           std::any_of(table->rows.begin(), table->rows.end(), [&](const GpuTableRow& row) {
               return std::any_of(row.cells.begin(), row.cells.end(), is_path);
           });
}

Reading read(const Lines& lines) {
    return *TopoReader(lines).read();
}

}  // namespace

Importer nvidia_topo_importer() {
    return {"nvidia-smi topo -m", recognise, read};
}

}  // namespace toporun::detect
