#include <algorithm>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/software/iommu.hpp"
#include "detect/software/kernel_modules.hpp"

/// What the kernel says of itself: /proc/cmdline, dmesg on the IOMMU, `uname -a`, `sysctl
/// kernel.numa_balancing`; and its modules, `lsmod` or /proc/modules.
namespace toporun::detect {
namespace {

/// A kernel's command line: by itself, in dmesg, or words on the IOMMU alone.
std::optional<std::string> command_line(std::string_view text) {
    constexpr std::size_t kLongest = 4096;  // Linux: COMMAND_LINE_SIZE is less
    constexpr std::string_view kLog = "Command line: ";
    const std::size_t log = text.substr(0, kLongest).find(kLog);
    if (log != std::string_view::npos) text.remove_prefix(log + kLog.size());
    text = trim(text.substr(0, kLongest));
    const std::vector<std::string_view> word = words(text);
    const auto starts = [&](std::string_view begin) {
        return std::any_of(word.begin(), word.end(),
                           [&](std::string_view w) { return w.starts_with(begin); });
    };
    const bool settings = std::all_of(word.begin(), word.end(), [](std::string_view w) {
        return w.find("iommu") != std::string_view::npos && w.find('=') != std::string_view::npos;
    });
    if (log == std::string_view::npos && !starts("BOOT_IMAGE=") && !starts("root=") && !settings)
        return std::nullopt;
    return word.empty() ? std::nullopt : std::optional(std::string(text));
}

/// "iommu: Default domain type: Translated": the mode, "" for other lines (Linux
/// drivers/iommu/iommu.c).
std::string default_domain(std::string_view text) {
    constexpr std::string_view kBegin = "iommu: Default domain type: ";
    const std::size_t at = text.find(kBegin);
    if (at == std::string_view::npos) return {};
    const std::string_view type = text.substr(at + kBegin.size());
    if (type.starts_with("Translated")) return "translating";
    return type.starts_with("Passthrough") ? "pass-through" : "";
}

/// "kernel.numa_balancing = 1"
std::optional<bool> numa_balancing(std::string_view text) {
    const std::size_t equal = text.find('=');
    if (equal == std::string_view::npos || trim(text.substr(0, equal)) != "kernel.numa_balancing")
        return std::nullopt;
    const auto mode = to_integer(trim(text.substr(equal + 1)));
    return mode ? std::optional(*mode != 0) : std::nullopt;
}

struct KernelName {
    std::string_view host, release, architecture;
};

bool is_architecture(std::string_view word) {
    return word == "x86_64" || word == "aarch64" || word == "ppc64le" || word == "riscv64";
}

/// "Linux gpu01 5.15.0-91-generic #101-Ubuntu SMP Tue ... x86_64 x86_64 x86_64 GNU/Linux", "Linux
/// version 5.15.0-91-generic (buildd@...", "aarch64" (`uname -m`).
std::optional<KernelName> kernel_name(std::string_view text) {
    const std::string_view line = trim(text.substr(0, 1024));
    if (is_architecture(line)) return KernelName{{}, {}, line};
    const std::size_t begin = line.find("Linux ");
    if (begin != 0 && (begin == std::string_view::npos || !line.starts_with("["))) return {};
    const std::vector<std::string_view> word = words(line.substr(begin));
    if (word.size() < 4 || word[2].empty() || word[2][0] < '0' || word[2][0] > '9') return {};
    if (word[1] == "version") return KernelName{{}, word[2], {}};
    if (begin != 0 || !word[3].starts_with("#")) return {};
    const auto last = std::find_if(word.rbegin(), word.rend(), is_architecture);
    if (last == word.rend()) return {};
    return KernelName{word[1], word[2], *last};
}

/// Units of an IOMMU at work, in dmesg.
bool names_iommu_unit(std::string_view text) {
    for (const std::string_view sign :
         {"Adding to iommu group", "iommu: Adding device", "DMAR: IOMMU enabled", "Directed I/O",
          "AMD-Vi: ", "arm-smmu", "virtio_iommu"})
        if (text.find(sign) != std::string_view::npos) return true;
    return false;
}

/// After the drivers that are built in, those of IOMMUs among them, the kernel frees their memory
/// and starts the first process (Linux init/main.c): a log from the first line to there is whole.
bool ends_kernel_init(std::string_view text) {
    return text.find("Freeing unused kernel") != std::string_view::npos ||
           text.find(" as init process") != std::string_view::npos;
}

bool is_log_line(std::string_view text) {
    return text.starts_with("[") && text.find("] ") < 20;
}

bool recognise_kernel(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return command_line(line.text) || !default_domain(line.text).empty() ||
               numa_balancing(line.text) || kernel_name(line.text);
    });
}

Reading read_kernel(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    std::string asked, domain;
    bool told = false, unit = false, other_log_line = false, begun = false, whole = false;
    for (const PastedLine& line : lines.lines) {
        const auto command = command_line(line.text);
        const std::string type = default_domain(line.text);
        const auto balancing = numa_balancing(line.text);
        told = told || command;
        if (command && asked.empty()) asked = iommu_mode_of_command_line(*command);
        const auto name = kernel_name(line.text);
        if (name && !name->release.empty()) machine.software.kernel = printable(name->release);
        if (name && !name->host.empty()) machine.hostname = printable(name->host);
        if (name && !name->architecture.empty()) machine.cpu.architecture = name->architecture;
        if (!type.empty()) domain = type;
        if (balancing) machine.software.numa_balancing = balancing;
        const bool log = is_log_line(line.text), iommu = names_iommu_unit(line.text);
        unit = unit || iommu;
        begun = begun || (log && name && !name->release.empty());
        whole = whole || (begun && log && ends_kernel_init(line.text));
        other_log_line = other_log_line || (log && type.empty() && !iommu && !command &&
                                            line.text.find("ommu") == std::string::npos);
        reading.understood.push_back(command || !type.empty() || balancing || iommu || log || name);
    }
    // The kernel prints its default without an IOMMU too, as in most guests.
    const bool none = whole && !unit && other_log_line;
    if (domain == "translating" && !unit && other_log_line && !none) {
        domain.clear();
        machine.notes.emplace_back(
            "the kernel's log names no IOMMU: whether one translates is unknown");
    }
    std::string& mode = machine.software.iommu_mode;
    mode = none ? "off" : asked == "off" || domain.empty() ? asked : domain;
    if (!mode.empty()) machine.software.iommu_translating = mode == "translating";
    if (mode.empty() && told) mode = kIommuDefault;
    return reading;
}

struct ModuleLine {
    std::string_view name;
    std::vector<std::string> users;
};

/// "nvidia 56823808 2 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)", in lsmod without
/// the last words.
std::optional<ModuleLine> module_line(std::string_view text) {
    const std::vector<std::string_view> word = words(text.substr(0, 4096));
    if (word.size() < 3 || !to_integer(word[1]) || !to_integer(word[2])) return std::nullopt;
    const bool proc = word.size() > 4 && word[4] == "Live";
    if (!proc && word.size() > 4) return std::nullopt;
    ModuleLine line{word[0], {}};
    if (word.size() > 3)
        for (const std::string& user : split(word[3], ','))
            if (!user.empty() && user != "-" && !user.starts_with("[")) line.users.push_back(user);
    return line;
}

bool lsmod_header(std::string_view text) {
    const std::vector<std::string_view> word = words(text.substr(0, 256));
    return word.size() == 4 && word[0] == "Module" && word[1] == "Size" && word[2] == "Used";
}

bool recognise_modules(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return lsmod_header(line.text) ||
               (line.text.find(" Live 0x") != std::string::npos && module_line(line.text));
    });
}

Reading read_modules(const Lines& lines) {
    constexpr std::size_t kLeastModules = 20;  // a machine with GPUs has far more
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    bool header = false;
    std::string text;
    std::set<std::string, std::less<>> names, users;
    for (const PastedLine& line : lines.lines) {
        const bool heading = lsmod_header(line.text);
        header = header || heading;
        std::optional<ModuleLine> module;
        if (header || line.text.find(" Live 0x") != std::string::npos)
            module = module_line(line.text);
        reading.understood.push_back(heading || module);
        if (!module) continue;
        names.emplace(module->name);
        users.insert(module->users.begin(), module->users.end());
        text += std::string(module->name) + " \n";
    }
    // The output of a grep or a cut list lacks some that it names as users.
    const bool whole = names.size() >= kLeastModules &&
                       std::includes(names.begin(), names.end(), users.begin(), users.end());
    if (whole)
        machine.software.modules = modules_in(text);
    else
        machine.notes.emplace_back(
            "a part of the list of modules: which others are loaded is unknown");
    return reading;
}

}  // namespace

Importer kernel_text_importer() {
    return {"/proc/cmdline", recognise_kernel, read_kernel};
}

Importer lsmod_importer() {
    return {"lsmod", recognise_modules, read_modules};
}

}  // namespace toporun::detect
