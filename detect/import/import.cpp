#include "detect/import/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/importer.hpp"
#include "detect/import/merge.hpp"
#include "detect/import/settle_joined.hpp"
#include "detect/import/settle_machine.hpp"
#include "detect/machine_toml.hpp"
#include "detect/topology/machine_paths.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kMachineFormat = "toporun machine (TOML)";

/// A word by which the beginnings of a format are known, for a text that is not understood.
struct Resemblance {
    std::string_view word;
    std::string_view format;
};
constexpr Resemblance kResemblances[] = {
    {"GPU0", "nvidia-smi topo -m"},
    {"CPU Affinity", "nvidia-smi topo -m"},
    {"(Topology)", "rocm-smi --showtopo"},
    {"NVIDIA-SMI", "nvidia-smi"},
    {"GPU 0:", "nvidia-smi -L"},
    {"<system", "NCCL topology XML"},
    {"<topology", "hwloc XML"},
    {"NCCL INFO", "NCCL log"},
    {"hca_id", "ibv_devinfo"},
    {"CA '", "ibstat"},
    {"==>", "ibdev2netdev"},
    {"\"ifname\"", "ip -j addr"},
    {"inet ", "ip addr"},
    {"/sys/class/infiniband", "/sys/class/infiniband"},
    {"gpu_paths", kMachineFormat},
    {"toporun.machine", kMachineFormat},
};

/// What most reports hold, where nothing in the text looks like a format.
constexpr std::string_view kUsualFormats[] = {"nvidia-smi topo -m", "ip addr", "NCCL log"};

/// The formats nearest to a text: all of them are more than a line holds.
std::string formats_hint(std::string_view text = {}) {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> nearest;
    const auto add = [&](std::string_view format) {
        if (nearest.size() < kMost &&
            std::find(nearest.begin(), nearest.end(), format) == nearest.end())
            nearest.emplace_back(format);
    };
    for (const Resemblance& known : kResemblances)
        if (text.find(known.word) != std::string_view::npos) add(known.format);
    for (const std::string_view format : kUsualFormats) add(format);
    return fmt::format("formats: {} and {} more, see docs/captures.md", join(nearest, ", "),
                       capture_formats().size() - nearest.size());
}

/// A command that was pasted with its output, or the fence of a report: `$ cmd`, `# cmd`,
/// `user@host:~$ cmd`, `+ cmd` of sh -x, "```".
bool no_content(std::string_view line) {
    const std::string_view text = trim(line);
    if (text.empty() || text.starts_with("```") || text.starts_with("~~~")) return true;
    for (const std::string_view prompt : {"$ ", "# ", "% ", "+ ", "> "})
        if (text.starts_with(prompt)) return true;
    if (text == "$" || text == "#") return true;
    const std::string_view start = text.substr(0, 200);
    const std::size_t at = start.find('@');
    const std::size_t end = start.find_first_of("$#");
    if (at == std::string_view::npos || end == std::string_view::npos || end < at) return false;
    return end + 1 == text.size() || text[end + 1] == ' ';
}

const PastedLine* first_content(const Lines& lines) {
    const auto found = std::find_if(lines.lines.begin(), lines.lines.end(),
                                    [](const PastedLine& line) { return !no_content(line.text); });
    return found == lines.lines.end() ? nullptr : &*found;
}

[[noreturn]] void not_understood(const Lines& lines) {
    if (trim(lines.whole.substr(0, 65536)).empty() && lines.whole.size() <= 65536)
        throw Error("the file is empty", lines.file + ":1:1", formats_hint());
    if (lines.lines.empty())
        throw Error("a binary file in no format that is known", lines.file + ":1:1",
                    formats_hint());
    const PastedLine* line = first_content(lines);
    if (line == nullptr)
        throw lines.error(lines.lines.front(), 0, "there is no output below the commands",
                          formats_hint());
    const std::size_t column = line->text.find_first_not_of(" \t");
    std::string what = fmt::format("no format is recognised; this line begins '{}'",
                                   printable(std::string_view(line->text).substr(column, 40)));
    const std::string_view beginning = lines.whole.substr(0, 65536);
    for (const Resemblance& known : kResemblances) {
        if (beginning.find(known.word) == std::string_view::npos) continue;
        what += fmt::format("; '{}' is a part of {}, but its table is missing or cut", known.word,
                            known.format);
        break;
    }
    throw lines.error(*line, column, what, formats_hint(beginning));
}

/// Whether the text is a machine that toporun saved (or that somebody wrote in that form).
bool machine_file(const Lines& lines) {
    for (const PastedLine& line : lines.lines) {
        const std::string_view text = trim(line.text);
        if (text.starts_with("#") || text.empty()) continue;
        if (text.starts_with("schema") && text.find(kMachineSchema) != std::string_view::npos)
            return true;
        for (const std::string_view table :
             {"[[gpus]]", "[[nics]]", "[cpu]", "[limits]", "[software]"})
            if (text == table) return true;
        if (text.starts_with("gpu_paths") && text.find('=') != std::string_view::npos) return true;
        // Other lines that may stand before the first table: `hostname = "node-a"`, matrix rows.
        if (text.find_first_of("=]") == std::string_view::npos && !text.ends_with(","))
            return false;
    }
    return false;
}

/// The lines of the first task or host alone, when several speak.
Lines first_source(const Lines& lines) {
    Lines out;
    out.file = lines.file;
    out.whole = lines.whole;
    out.sources = {lines.sources[0], lines.sources[1]};
    std::copy_if(lines.lines.begin(), lines.lines.end(), std::back_inserter(out.lines),
                 [](const PastedLine& line) { return line.source <= 1; });
    return out;
}

/// What all importers read out of one text.
class CaptureReader {
  public:
    explicit CaptureReader(const Capture& capture) : all_(read_lines(capture.text, capture.name)) {
        if (all_.sources.size() > 2) first_ = first_source(all_);
        understood_.resize(all_.lines.size());
    }

    /// Throws Error when nothing is recognised, or what is recognised cannot be read.
    Machine read() {
        if (machine_file(all_)) return machine_from_toml(all_.whole, all_.file);
        for (const Importer& importer : importers()) take(importer);
        if (parts_.empty()) {
            if (error_) throw Error(*error_);
            not_understood(all_);
        }
        Machine machine = merge_machines(std::move(parts_));
        if (error_)
            machine.notes.push_back(fmt::format("{} ({})", error_->what(), error_->where()));
        add_notes(machine);
        estimate_path_bandwidth(machine);
        return machine;
    }

  private:
    void take(const Importer& importer) {
        const Lines& lines = first_ && !importer.every_source ? *first_ : all_;
        if (!importer.recognise(lines)) return;
        try {
            Reading reading = importer.read(lines);
            settle_machine(reading.machine);
            mark(lines, reading.understood);
            used_first_ = used_first_ || &lines != &all_;
            parts_.push_back({std::string(importer.format), std::move(reading.machine)});
        } catch (const Error& error) {
            if (!error_) error_ = error;
        }
    }

    /// Both lists of lines are in the order of their numbers.
    void mark(const Lines& lines, const std::vector<bool>& understood) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < lines.lines.size(); ++i) {
            while (at < all_.lines.size() && all_.lines[at].number < lines.lines[i].number) ++at;
            if (at < all_.lines.size() &&
                (understood.empty() || (i < understood.size() && understood[i])))
                understood_[at] = true;
        }
    }

    void add_notes(Machine& machine) const {
        std::size_t others = 0, count = 0;
        const PastedLine* first = nullptr;
        for (std::size_t i = 0; i < all_.lines.size(); ++i) {
            const PastedLine& line = all_.lines[i];
            if (understood_[i] || no_content(line.text)) continue;
            if (used_first_ && line.source > 1) {
                ++others;
                continue;
            }
            if (first == nullptr) first = &line;
            ++count;
        }
        if (count > 0)
            machine.notes.push_back(fmt::format("{} {} not understood, the first: line {}, '{}'",
                                                count, count == 1 ? "line was" : "lines were",
                                                first->number,
                                                printable(trim(first->text).substr(0, 40))));
        if (others > 0)
            machine.notes.push_back(
                fmt::format("the lines of '{}' were read, {} {} of other tasks or hosts left out",
                            printable(all_.sources[1]), others, others == 1 ? "line" : "lines"));
    }

    Lines all_;
    std::optional<Lines> first_;
    std::vector<bool> understood_;  ///< per line of all_
    bool used_first_ = false;
    std::vector<NamedMachine> parts_;
    std::optional<Error> error_;
};

/// "NIC3" of a table without its legend is one of the devices that another text names.
void note_nameless_adapters(Machine& machine) {
    const auto nameless = [](const Nic& nic) {
        return !nic.rdma_device && nic.name.starts_with("NIC") && nic.name.size() > 3 &&
               nic.name.find_first_not_of("0123456789", 3) == std::string::npos;
    };
    const bool any = std::any_of(machine.nics.begin(), machine.nics.end(), nameless);
    const auto named = std::find_if(machine.nics.begin(), machine.nics.end(),
                                    [](const Nic& nic) { return nic.rdma_device.has_value(); });
    if (any && named != machine.nics.end())
        machine.notes.push_back(fmt::format(
            "NIC0 and the like may be the same adapters as {} and the like: the NIC Legend below "
            "the table tells",
            printable(*named->rdma_device)));
}

}  // namespace

std::span<const Importer> importers() {
    static const std::vector<Importer> kImporters = {
        nvidia_topo_importer(),
        nvidia_p2p_importer(),
        nvidia_list_importer(),
        nvidia_smi_importer(),
        nvidia_query_importer(),
        nvidia_xml_importer(),
        nvidia_csv_importer(),
        dcgm_links_importer(),
        rocm_smi_importer(),
        rocm_facts_importer(),
        rocm_table_importer(),
        amd_smi_importer(),
        hwloc_xml_importer(),
        nccl_topology_xml_importer(),
        nccl_log_importer(),
        ip_json_importer(),
        ip_addr_importer(),
        ip_brief_importer(),
        ifconfig_importer(),
        ibstat_importer(),
        ibv_devinfo_importer(),
        ibdev2netdev_importer(),
        rdma_link_importer(),
        show_gids_importer(),
        sys_class_infiniband_importer(),
        ip_route_importer(),
        ethtool_importer(),
        lscpu_importer(),
        numactl_importer(),
        ulimit_importer(),
        df_importer(),
        kernel_text_importer(),
        lsmod_importer(),
        lspci_importer(),
    };
    return kImporters;
}

std::vector<std::string> capture_formats() {
    std::vector<std::string> names;
    for (const Importer& importer : importers()) names.emplace_back(importer.format);
    names.emplace_back(kMachineFormat);
    return names;
}

Machine import_capture(const Capture& capture) {
    return CaptureReader(capture).read();
}

Machine join_captures(std::vector<NamedMachine> parts) {
    const bool several = parts.size() > 1;
    Machine machine = merge_machines(std::move(parts));
    settle_joined(machine);
    drop_listed_gpus(machine);
    note_nameless_adapters(machine);
    if (several) estimate_path_bandwidth(machine);  // one text may name GPUs that another links
    return machine;
}

Machine import_captures(std::span<const Capture> captures) {
    std::vector<NamedMachine> parts;
    for (const Capture& capture : captures)
        parts.push_back({capture.name, import_capture(capture)});
    return join_captures(std::move(parts));
}

}  // namespace toporun::detect
