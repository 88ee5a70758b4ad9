#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_table.hpp"

/// `rocm-smi --showtopo` and its parts (--showtopoweight, --showtopohops, --showtopotype,
/// --showtoponuma, --showtopoaccess): one table each under a heading, NUMA nodes as lines. And
/// `amd-smi topology`, whose tables have other headings and bus ids in place of numbers.
namespace toporun::detect {
namespace {

enum class Section { none, weight, hops, type, access, bandwidth };

struct Heading {
    std::string_view words;
    Section section;
};
constexpr std::array kHeadings = {
    Heading{"Weight between two GPUs", Section::weight},
    Heading{"Hops between two GPUs", Section::hops},
    Heading{"Link Type between two GPUs", Section::type},
    Heading{"ccess between two GPUs", Section::access},  // "Access", "Link access"
    Heading{"ccessibility between two GPUs", Section::access},
    Heading{"andwidth between two GPUs", Section::bandwidth},
    Heading{"ACCESS TABLE:", Section::access},
    Heading{"WEIGHT TABLE:", Section::weight},
    Heading{"HOPS TABLE:", Section::hops},
    Heading{"LINK TYPE TABLE:", Section::type},
    Heading{" TABLE:", Section::bandwidth},  // bandwidth, coherency, atomics, DMA
};

/// The driver's weight of one xGMI hop (Linux amdkfd/kfd_crat.c, KFD_CRAT_XGMI_WEIGHT times the
/// hops); over PCIe it is 20 for each end and the processors' distance between.
constexpr int kXgmiWeight = 15;

bool number(std::string_view word) {
    return to_integer(word).has_value();
}

/// "50000-50000", least and most in MB/s.
bool bandwidth(std::string_view word) {
    const std::size_t dash = word.find('-');
    return dash != std::string_view::npos && dash > 0 && word.size() <= 24 &&
           number(word.substr(0, dash)) && number(word.substr(dash + 1));
}

bool is_cell(std::string_view word) {
    return (word.size() <= 5 && number(word)) || bandwidth(word) || word == "XGMI" ||
           word == "PCIE" || word == "True" || word == "False" || word == "N/A" || word == "TRUE" ||
           word == "FALSE" || word == "SELF" || word == "ENABLED" || word == "DISABLED";
}

/// "GPU[3]  : (Topology) Numa Node: 1" and, older, "GPU 3   : (Topology) Numa Node: 1".
struct NumaLine {
    int gpu = 0;
    int node = 0;
};
std::optional<NumaLine> numa_line(std::string_view line) {
    const std::string_view text = trim(line);
    const std::size_t at = text.find("Numa Node:");
    if (!text.starts_with("GPU") || at == std::string_view::npos) return std::nullopt;
    const std::size_t start = text.find_first_of("0123456789");
    if (start > 5) return std::nullopt;
    const std::size_t end = text.find_first_not_of("0123456789", start);
    const auto gpu = first_of_list(text.substr(start, end - start));
    const auto node = first_of_list(trim(text.substr(at + 10)));
    if (!gpu || !node) return std::nullopt;
    return NumaLine{*gpu, *node};
}

Section section_heading(std::string_view line) {
    for (const Heading& known : kHeadings)
        if (line.find(known.words) != std::string_view::npos) return known.section;
    return Section::none;
}

/// The section that a table belongs to: the nearest heading above it.
Section section_of(const Lines& lines, std::size_t header) {
    constexpr std::size_t kLinesAbove = 6;
    for (std::size_t i = header + 1; i-- > 0 && i + kLinesAbove >= header;)
        if (const Section found = section_heading(lines.lines[i].text); found != Section::none)
            return found;
    return Section::none;
}

using Cells = std::vector<std::vector<std::string>>;  ///< GPU x GPU, "" unknown

class RocmReader {
  public:
    explicit RocmReader(const Lines& lines) : lines_(lines) {
        reading_.understood.resize(lines.lines.size());
    }

    Reading read() {
        find_gpus();
        read_tables();
        read_lines();
        set_paths();
        set_access();
        note_cut();
        reading_.machine = std::move(machine_);
        return std::move(reading_);
    }

  private:
    void find_gpus() {
        std::vector<int> indices;
        const auto add = [&](int index) {
            if (indices.size() < kMostTableGpus &&
                std::find(indices.begin(), indices.end(), index) == indices.end())
                indices.push_back(index);
        };
        std::vector<bool> ignored;
        for (std::size_t start = 0;;) {
            const auto table = find_gpu_table(lines_, start, is_cell, ignored);
            if (!table) break;
            for (const int index : table->gpus) add(index);
            start = table->end;
        }
        for (const PastedLine& line : lines_.lines)
            if (const auto numa = numa_line(line.text)) add(numa->gpu);
        std::sort(indices.begin(), indices.end());
        machine_ = machine_with_gpus(indices, "amd");
        const Cells empty(indices.size(), std::vector<std::string>(indices.size()));
        weight_ = hops_ = type_ = access_ = empty;
    }

    std::size_t position(int index) const {
        const auto found = std::find_if(machine_.gpus.begin(), machine_.gpus.end(),
                                        [&](const Gpu& gpu) { return gpu.index == index; });
        return static_cast<std::size_t>(found - machine_.gpus.begin());
    }

    Cells* cells_of(Section section) {
        switch (section) {
            case Section::weight:
                return &weight_;
            case Section::hops:
                return &hops_;
            case Section::type:
                return &type_;
            case Section::access:
                return &access_;
            case Section::bandwidth:
            case Section::none:
                break;
        }
        return nullptr;
    }

    void read_tables() {
        for (std::size_t start = 0;;) {
            const auto table = find_gpu_table(lines_, start, is_cell, reading_.understood);
            if (!table) break;
            start = table->end;
            Cells* cells = cells_of(section_of(lines_, table->header));
            if (cells == nullptr) continue;
            for (const GpuTableRow& row : table->rows) {
                if (row.column >= table->gpus.size()) continue;
                const std::size_t a = position(table->gpus[row.column]);
                for (std::size_t i = 0; i < std::min(row.cells.size(), table->gpus.size()); ++i) {
                    const std::size_t b = position(table->gpus[i]);
                    if (a < machine_.gpus.size() && b < machine_.gpus.size())
                        (*cells)[a][b] = row.cells[i];
                }
            }
            if (table->rows.size() < table->gpus.size()) cut_ = true;
            machine_.notes.insert(machine_.notes.end(), table->notes.begin(), table->notes.end());
        }
    }

    void read_lines() {
        for (std::size_t i = 0; i < lines_.lines.size(); ++i) {
            const std::string_view text = trim(lines_.lines[i].text);
            if (const auto numa = numa_line(text)) {
                const std::size_t at = position(numa->gpu);
                if (at < machine_.gpus.size()) machine_.gpus[at].numa_node = numa->node;
                reading_.understood[i] = true;
            }
            if (text.starts_with("===") || text.ends_with(" TABLE:") ||
                text.find("(Topology) Numa") != std::string_view::npos ||
                text.starts_with("Format:"))
                reading_.understood[i] = true;
        }
    }

    /// Of a pair that one half of the table tells.
    static std::string_view either(const Cells& cells, std::size_t a, std::size_t b) {
        return cells[a][b].empty() || cells[a][b] == kUnknownCell ? cells[b][a] : cells[a][b];
    }

    /// Weights of one xGMI hop: 15, on some boards 41 or 13.
    static bool one_hop(long long weight) {
        return weight == kXgmiWeight || weight == 41 || weight == 13;
    }

    enum class Link { unknown, xgmi, xgmi_hops, pcie };

    Link link(std::size_t a, std::size_t b) const {
        const auto hops = to_integer(either(hops_, a, b));
        const auto weight = to_integer(either(weight_, a, b));
        const std::string_view type = either(type_, a, b);
        if (type == "PCIE") return Link::pcie;
        if (type == "XGMI") {
            // The column of hops says 1 for every pair that xGMI reaches; the weight tells
            // (ROCm/rccl src/misc/rocm_smi_wrap.cc, rocm_smi_getLinkInfo).
            const bool far = weight && *weight > 0 && !one_hop(*weight);
            return far || hops.value_or(1) > 1 ? Link::xgmi_hops : Link::xgmi;
        }
        if (!weight || *weight <= 0) return Link::unknown;
        if (*weight == kXgmiWeight) return Link::xgmi;
        // rocm-smi counts one hop for what xGMI reaches, or the true number, and two or more over
        // PCIe.
        const bool over_xgmi =
            *weight % kXgmiWeight == 0 && (hops.value_or(1) <= 1 || *hops == *weight / kXgmiWeight);
        return over_xgmi ? Link::xgmi_hops : Link::pcie;
    }

    /// PCIe switches are not in the tables: what stays inside a NUMA node is PHB, as NCCL calls the
    /// way through its host bridge. Two hops are GPU, CPU, GPU; more cross to another CPU.
    PathType pcie_path(std::size_t a, std::size_t b) const {
        const auto& first = machine_.gpus[a].numa_node;
        const auto& second = machine_.gpus[b].numa_node;
        if (first && second && *first >= 0 && *second >= 0)
            return first == second ? PathType::PHB : PathType::SYS;
        const auto hops = to_integer(either(hops_, a, b));
        return hops && *hops <= 2 ? PathType::PHB : PathType::SYS;
    }

    void set_paths() {
        const std::size_t count = machine_.gpus.size();
        std::vector<std::vector<PathType>> paths(count, std::vector(count, PathType::LOC));
        std::vector<std::vector<int>> links(count, std::vector(count, 0));
        bool any = false, over_hops = false;
        for (std::size_t a = 0; a < count; ++a)
            for (std::size_t b = 0; b < count; ++b) {
                if (a == b) continue;
                const Link kind = link(a, b);
                any = any || kind != Link::unknown;
                over_hops = over_hops || kind == Link::xgmi_hops;
                paths[a][b] = kind == Link::xgmi   ? PathType::NVL
                              : kind == Link::pcie ? pcie_path(a, b)
                                                   : PathType::DIS;
                links[a][b] = kind == Link::pcie ? 0 : -1;  // how many is not in the tables
            }
        if (over_hops)
            machine_.notes.emplace_back(
                "some pairs reach each other over several xGMI hops: their path is unknown");
        if (!any && count > 1)
            machine_.notes.emplace_back(
                "no table of link types or weights: paths between the GPUs are unknown");
        if (!any) return;
        machine_.gpu_paths = std::move(paths);
        machine_.gpu_links = std::move(links);
    }

    void set_access() {
        const std::size_t count = machine_.gpus.size();
        const auto known = [](const std::vector<std::string>& row) {
            return std::any_of(row.begin(), row.end(), [](const std::string& cell) {
                return !cell.empty() && cell != kUnknownCell;
            });
        };
        if (std::none_of(access_.begin(), access_.end(), known)) return;
        machine_.peer_access.assign(count, std::vector(count, PeerAccess::unknown));
        for (std::size_t a = 0; a < count; ++a)
            for (std::size_t b = 0; b < count; ++b) {
                const char first = access_[a][b].empty() ? '?' : access_[a][b].front();
                if (a == b || first == 'T' || first == 'E')
                    machine_.peer_access[a][b] = PeerAccess::ok;
                if (a != b && (first == 'F' || first == 'D'))
                    machine_.peer_access[a][b] = PeerAccess::refused;
            }
    }

    void note_cut() {
        if (cut_)
            machine_.notes.emplace_back(
                "a table is cut, rows are missing; what only they tell is "
                "unknown");
        const bool numa = std::any_of(machine_.gpus.begin(), machine_.gpus.end(),
                                      [](const Gpu& gpu) { return gpu.numa_node.has_value(); });
        if (!numa)
            machine_.notes.emplace_back("the section of NUMA nodes is missing: they are unknown");
        for (Gpu& gpu : machine_.gpus)
            if (gpu.numa_node && *gpu.numa_node < 0) gpu.numa_node.reset();
    }

    const Lines& lines_;
    Reading reading_;
    Machine machine_;
    Cells weight_, hops_, type_, access_;
    bool cut_ = false;
};

bool recognise(const Lines& lines) {
    bool table = false;
    for (const PastedLine& line : lines.lines) {
        if (numa_line(line.text)) return true;
        table = table || section_heading(line.text) != Section::none;
    }
    std::vector<bool> ignored;
    return table && find_gpu_table(lines, 0, is_cell, ignored).has_value();
}

Reading read(const Lines& lines) {
    return RocmReader(lines).read();
}

/// The text of `amd-smi topology` with "GPU0", "GPU1" in place of the bus ids.
struct NumberedLines {
    Lines lines;
    std::vector<PciAddress> gpus;  ///< by number, in the order of the text
};

NumberedLines number_gpus(const Lines& lines) {
    NumberedLines out{lines, {}};
    for (PastedLine& line : out.lines.lines) {
        const auto word = words(line.text);
        // Only tables: the bus id is the first word of their rows and of their header.
        if (word.empty() || !PciAddress::parse(word[0])) continue;
        std::string numbered;
        for (const std::string_view part : word) {
            const auto address = PciAddress::parse(part);
            auto found = std::find(out.gpus.begin(), out.gpus.end(), address);
            if (address && found == out.gpus.end() && out.gpus.size() < kMostTableGpus)
                found = out.gpus.insert(found, *address);
            numbered += address && found != out.gpus.end()
                            ? fmt::format("GPU{} ", found - out.gpus.begin())
                            : std::string(part) + ' ';
        }
        line.text = std::move(numbered);
    }
    return out;
}

bool recognise_amd(const Lines& lines) {
    const bool heading =
        std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
            return trim(line.text).ends_with(" TABLE:") &&
                   section_heading(line.text) != Section::none;
        });
    if (!heading) return false;
    std::vector<bool> ignored;
    return find_gpu_table(number_gpus(lines).lines, 0, is_cell, ignored).has_value();
}

Reading read_amd(const Lines& lines) {
    const NumberedLines numbered = number_gpus(lines);
    Reading reading = RocmReader(numbered.lines).read();
    for (Gpu& gpu : reading.machine.gpus)
        if (static_cast<std::size_t>(gpu.index) < numbered.gpus.size())
            gpu.pci = numbered.gpus[static_cast<std::size_t>(gpu.index)];
    return reading;
}

}  // namespace

Importer rocm_smi_importer() {
    return {"rocm-smi --showtopo", recognise, read};
}

Importer amd_smi_importer() {
    return {"amd-smi topology", recognise_amd, read_amd};
}

}  // namespace toporun::detect
