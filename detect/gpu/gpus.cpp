#include "detect/gpu/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/helper_process.hpp"
#include "base/text.hpp"
#include "detect/gpu/amd.hpp"
#include "detect/gpu/gpu_links.hpp"
#include "detect/gpu/nvml_facts.hpp"
#include "detect/gpu/nvml_report.hpp"
#include "detect/gpu/paths.hpp"
#include "detect/gpu/pci_gpus.hpp"

namespace toporun::detect {
namespace {

/// Generation and lanes in use by sysfs, where NVML did not tell.
void read_pcie_link_now(PciTree& pci, Gpu& gpu) {
    if (!gpu.pci || (gpu.pcie_generation_now && gpu.pcie_width_now)) return;
    const PcieLink& link = pci.link(*gpu.pci);
    if (!gpu.pcie_generation_now) gpu.pcie_generation_now = link.generation_now;
    if (!gpu.pcie_width_now) gpu.pcie_width_now = link.width_now;
}

/// Narrows what the card can do to what it can do in its slot, as NVML has it.
void limit_to_slot(PciTree& pci, Gpu& gpu) {
    const auto device = gpu.pci ? pci.device(*gpu.pci) : std::nullopt;
    if (!device || device->bridges.empty()) return;
    const PcieLink& slot = pci.link(device->bridges.front());
    if (gpu.pcie_generation && slot.generation)
        gpu.pcie_generation = std::min(*gpu.pcie_generation, *slot.generation);
    if (gpu.pcie_width && slot.width) gpu.pcie_width = std::min(*gpu.pcie_width, *slot.width);
}

/// Only lanes tell of a fault: an idle GPU lowers the generation by itself.
void note_trained_down(const Gpu& gpu, std::vector<std::string>& notes) {
    if (gpu.pcie_width && gpu.pcie_width_now && *gpu.pcie_width_now < *gpu.pcie_width)
        notes.push_back(fmt::format("GPU {}: the PCIe link runs with {} of {} lanes", gpu.index,
                                    *gpu.pcie_width_now, *gpu.pcie_width));
}

bool any_nvidia(const std::vector<Gpu>& gpus) {
    return std::any_of(gpus.begin(), gpus.end(),
                       [](const Gpu& gpu) { return gpu.vendor == "nvidia"; });
}

bool nvml_is_named(const Sources& sources) {
    return sources.nvml_library != kDefaultNvmlLibrary;
}

/// NVML is worth a process only where something says NVIDIA. WSL shows the GPU as /dev/dxg alone.
/// The default library belongs to this machine and is never asked about a tree.
bool should_ask_nvml(const Sources& sources, const Files& files, const std::vector<Gpu>& gpus) {
    if (nvml_is_named(sources)) return true;
    if (!files.real()) return false;
    return any_nvidia(gpus) || files.exists("/dev/nvidiactl") || files.exists("/dev/dxg");
}

std::string outcome_text(const NvmlReport& report, const std::string& library) {
    const std::string text = printable(report.text.data());
    switch (report.outcome) {
        case NvmlOutcome::no_library:
            return fmt::format("library not loaded: {}", text);
        case NvmlOutcome::no_symbol:
            return fmt::format("{} lacks the symbol {}", printable(library), text);
        case NvmlOutcome::init_failed:
            return fmt::format("nvmlInit failed: {} ({})", text, report.code);
        case NvmlOutcome::count_failed:
            return fmt::format("counting GPUs failed: {} ({})", text, report.code);
        case NvmlOutcome::ok:
            break;
    }
    return {};
}

/// NVML's report by way of the helper process; a failure is one note. Of a deep look that does not
/// come to its end the first report counts.
std::unique_ptr<NvmlReport> query_nvml(const Sources& sources, std::vector<std::string>& notes) {
    constexpr std::size_t kSize = sizeof(NvmlReport);
    const auto work = [&](const HelperOutput& send) {
        ask_nvml({sources.nvml_library, sources.deep}, [&](const NvmlReport& report) {
            send({reinterpret_cast<const char*>(&report), kSize});
        });
    };
    const HelperResult answer = run_helper(work, sources.nvml_limit, 2 * kSize);
    const std::size_t reports = answer.bytes.size() / kSize;
    if (!answer.finished)
        notes.push_back(fmt::format("NVML: {}{}", answer.failure,
                                    reports == 0 ? "" : " to the questions of a deep look"));
    if (!answer.finished && reports == 0) return nullptr;
    const std::string_view last =
        std::string_view(answer.bytes).substr(reports == 0 ? 0 : (reports - 1) * kSize, kSize);
    auto report = decode_nvml_report(last);
    if (!report) {
        notes.emplace_back("NVML: the answer cannot be understood");
    } else if (report->outcome != NvmlOutcome::ok) {
        notes.push_back("NVML: " + outcome_text(*report, sources.nvml_library));
        return nullptr;
    }
    return report;
}

Gpu merge(const NvmlGpu& told, int index, const std::vector<Gpu>& on_bus) {
    const auto address = PciAddress::parse(told.pci.data());
    const auto seen = std::find_if(on_bus.begin(), on_bus.end(),
                                   [&](const Gpu& gpu) { return address && gpu.pci == address; });
    Gpu gpu = seen == on_bus.end() ? Gpu{} : *seen;
    gpu.index = index;
    gpu.vendor = "nvidia";
    gpu.pci = address;
    take_nvml_facts(told, gpu);
    return gpu;
}

/// Notes of what is wrong with a GPU by NVML's own word.
void note_faults(const NvmlGpu& told, const Gpu& gpu, std::vector<std::string>& notes) {
    if (!gpu.pci) {
        const std::string words = printable(told.failure.data());
        const std::string why = words.empty() ? "" : " (" + words + ")";
        notes.push_back(told.failure_code == nvml::kNoPermission
                            ? fmt::format("NVML: GPU {} is not for this process{}", gpu.index, why)
                            : fmt::format("NVML: GPU {} does not answer{}; it may have fallen off "
                                          "the bus",
                                          gpu.index, why));
    }
    for (const std::string& fault : fabric_faults(told.fabric_health))
        notes.push_back(fmt::format("GPU {}: NVLink fabric: {}", gpu.index, fault));
}

void take_gpus(const NvmlReport& report, Machine& machine) {
    const std::vector<Gpu> on_bus = std::move(machine.gpus);
    machine.gpus.clear();
    for (std::uint32_t i = 0; i < report.gpu_count; ++i) {
        machine.gpus.push_back(merge(report.gpus[i], static_cast<int>(i), on_bus));
        note_faults(report.gpus[i], machine.gpus.back(), machine.notes);
    }
    int withheld = 0;
    for (const Gpu& gpu : on_bus)
        if (gpu.vendor == "nvidia" &&
            std::none_of(machine.gpus.begin(), machine.gpus.end(),
                         [&](const Gpu& other) { return other.pci == gpu.pci; })) {
            ++withheld;
            machine.notes.push_back(
                fmt::format("GPU {} is on the PCI bus but not given to this job", gpu.pci->text()));
        }
    if (any_nvidia(on_bus)) machine.software.gpus_withheld = withheld;
}

PeerAccess access_of(const NvmlPair& there, const NvmlPair& back) {
    const std::int32_t words[] = {there.read, there.write, back.read, back.write};
    if (std::any_of(std::begin(words), std::end(words),
                    [](std::int32_t w) { return w != kUnknownNumber && w != nvml::kP2pOk; }))
        return PeerAccess::refused;
    if (there.read == nvml::kP2pOk && there.write == nvml::kP2pOk) return PeerAccess::ok;
    return PeerAccess::unknown;
}

void take_peer_access(const NvmlReport& report, Machine& machine) {
    const std::size_t count = report.gpu_count;
    machine.peer_access.assign(count, std::vector(count, PeerAccess::ok));
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b)
            if (a != b)
                machine.peer_access[a][b] = access_of(report.pairs[a][b], report.pairs[b][a]);
    // A GPU reaches itself; that alone is no knowledge of peers.
    const auto unknown = [](const auto& row) {
        return std::count(row.begin(), row.end(), PeerAccess::unknown) + 1 ==
               static_cast<std::ptrdiff_t>(row.size());
    };
    if (count > 1 && std::all_of(machine.peer_access.begin(), machine.peer_access.end(), unknown))
        machine.peer_access.clear();
}

void take_links(const NvmlReport& report, const Files& files, Machine& machine) {
    const auto class_of = [&](const PciAddress& address) {
        const auto found = files.hex(pci_directory(address) + "/class");
        return found ? std::optional(static_cast<unsigned>(*found)) : std::nullopt;
    };
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        machine.gpus[i].links = nvml_links(report, i, class_of);
    const NvLinks links = count_links(machine.gpus);
    machine.gpu_links = pair_links(links);
    machine.nvswitch = std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) {
        return std::any_of(gpu.links.begin(), gpu.links.end(), leads_to_switch);
    });
    for (std::size_t i = 0; i < links.inactive.size(); ++i)
        if (links.inactive[i] > 0)
            machine.notes.push_back(fmt::format("GPU {}: {} of {} NVLinks are down", i,
                                                links.inactive[i], report.gpus[i].link_count));
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...": the first dotted number.
/// The open modules say "NVIDIA UNIX Open Kernel Module for x86_64  570.124.06".
std::optional<std::string> driver_version(const Files& files) {
    const auto text = files.line("/proc/driver/nvidia/version");
    if (!text || text->find("Kernel Module") == std::string::npos) return std::nullopt;
    for (const std::string& word : split(*text, ' '))
        if (word.find('.') != std::string::npos &&
            word.find_first_not_of("0123456789.") == std::string::npos)
            return word;
    return std::nullopt;
}

void note_gpus_without_nvml(const Files& files, Machine& machine) {
    const bool sys_alone = !files.exists("/dev") && !files.exists("/proc");  // a capture
    if (!sys_alone && !files.exists("/dev/nvidiactl"))
        machine.notes.emplace_back(
            "GPUs are on the PCI bus but /dev/nvidiactl is missing: no driver here, or a container "
            "that was started without GPUs");
    machine.notes.emplace_back(
        "GPUs without NVML: NVLinks, peer access, memory and MIG mode are unknown");
}

}  // namespace

void detect_gpus(const Sources& sources, PciTree& pci, Machine& machine) {
    const Files& files = pci.files();
    machine.gpus = pci_gpus(pci);
    machine.software.driver = driver_version(files);
    std::unique_ptr<NvmlReport> report;
    if (should_ask_nvml(sources, files, machine.gpus)) report = query_nvml(sources, machine.notes);
    if (report && report->gpu_count == 0 && !any_nvidia(machine.gpus)) report.reset();
    if (report) {
        take_gpus(*report, machine);
        take_links(*report, files, machine);
        take_peer_access(*report, machine);
        if (report->driver[0] != '\0') machine.software.driver = report->driver.data();
    } else {
        for (Gpu& gpu : machine.gpus) limit_to_slot(pci, gpu);
        if (any_nvidia(machine.gpus))
            note_gpus_without_nvml(files, machine);
        else
            detect_amd_gpus(pci, machine);
    }
    for (Gpu& gpu : machine.gpus) {
        read_pcie_link_now(pci, gpu);
        note_trained_down(gpu, machine.notes);
    }
    take_told_paths(report.get(), machine);
}

}  // namespace toporun::detect
