#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

/// `nvidia-smi -q`, whole or by -d: sections by indentation, "key : value" lines.
namespace toporun::detect {
namespace {

std::optional<int> small_number(std::string_view value) {
    const auto number = first_of_list(value.substr(0, value.find('x')));
    if (!number || *number < 1 || *number > 64) return std::nullopt;
    return number;
}

std::optional<bool> on(std::string_view value) {
    if (value == "Enabled" || value == "Yes") return true;
    if (value == "Disabled" || value == "No") return false;
    return std::nullopt;
}

std::string lower(std::string_view text) {
    std::string out(text.substr(0, 64));
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return out;
}

constexpr std::string_view kLost = "GPU is lost";

/// The driver's words for a value that it does not have.
bool missing(std::string_view value) {
    return value.empty() || value == "N/A" || value == "[N/A]" || value == "Unknown Error" ||
           value == kLost || value == "Requested functionality has been deprecated" ||
           value == "ERR!";
}

/// What a key of a GPU means: its path of sections, joined by '/'. A '*' at the start stands for
/// any section above (drivers since 535 call the clocks' section otherwise).
struct Rule {
    std::string_view path;
    void (*set)(Gpu& gpu, std::string_view value);
};
void throttled(Gpu& gpu, std::string_view value, std::string_view reason) {
    if (value == "Active") gpu.throttle_reasons.emplace_back(reason);
}
/// Of one kind of memory, or of one kind of error: they add up.
void uncorrected(Gpu& gpu, std::string_view value) {
    if (const auto errors = error_count(value))
        gpu.uncorrected_errors = gpu.uncorrected_errors.value_or(0) + *errors;
}
constexpr Rule kRules[] = {
    {"Product Name", [](Gpu& gpu, std::string_view v) { gpu.name = v; }},
    {"Product Architecture", [](Gpu& gpu, std::string_view v) { gpu.architecture = v; }},
    {"Persistence Mode", [](Gpu& gpu, std::string_view v) { gpu.persistence = on(v); }},
    {"GPU UUID", [](Gpu& gpu, std::string_view v) { gpu.uuid = v; }},
    {"MIG Mode/Current", [](Gpu& gpu, std::string_view v) { gpu.mig = on(v); }},
    {"ECC Mode/Current", [](Gpu& gpu, std::string_view v) { gpu.ecc = on(v); }},
    {"Ecc Mode/Current", [](Gpu& gpu, std::string_view v) { gpu.ecc = on(v); }},
    {"FB Memory Usage/Total",
     [](Gpu& gpu, std::string_view v) { gpu.memory_bytes = mebibytes(v); }},
    {"FB Memory Usage/Used",
     [](Gpu& gpu, std::string_view v) { gpu.memory_used_bytes = mebibytes(v); }},
    {"PCI/GPU Link Info/PCIe Generation/Max",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_generation = small_number(v); }},
    {"PCI/GPU Link Info/PCIe Generation/Current",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_generation_now = small_number(v); }},
    {"PCI/GPU Link Info/Link Width/Max",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_width = small_number(v); }},
    {"PCI/GPU Link Info/Link Width/Current",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_width_now = small_number(v); }},
    {"Compute Mode", [](Gpu& gpu, std::string_view v) { gpu.compute_mode = compute_mode(v); }},
    {"*ECC Errors/Volatile/Double Bit/Total", uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable", uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable Parity", uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable SEC-DED", uncorrected},
    {"*ECC Errors/Volatile/DRAM Uncorrectable", uncorrected},
    {"Remapped Rows/Pending", [](Gpu& gpu, std::string_view v) { gpu.row_remap_pending = on(v); }},
    {"Remapped Rows/Remapping Failure Occurred",
     [](Gpu& gpu, std::string_view v) { gpu.row_remap_failed = on(v); }},
    {"Fabric/State", [](Gpu& gpu, std::string_view v) { gpu.fabric_state = lower(v); }},
    {"Fabric/Status", [](Gpu& gpu, std::string_view v) { gpu.fabric_status = lower(v); }},
    {"*/HW Slowdown", [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "hw-slowdown"); }},
    {"*HW Slowdown/HW Thermal Slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "hw-thermal"); }},
    {"*HW Slowdown/HW Power Brake Slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "power-brake"); }},
    {"*/SW Thermal Slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "sw-thermal"); }},
};

/// "GPU 00000000:18:00.0"
std::optional<PciAddress> gpu_line(std::string_view text) {
    if (!text.starts_with("GPU ")) return std::nullopt;
    return PciAddress::parse(trim(text.substr(4)));
}

bool log_heading(std::string_view text) {
    return text.starts_with("===") && text.find("NVSMI LOG") != std::string_view::npos;
}

/// The keys above the first GPU, where the line NVSMI LOG was not copied.
bool heads_log(std::string_view text) {
    const std::size_t colon = text.find(" : ");
    if (colon == std::string_view::npos) return false;
    const std::string_view key = trim(text.substr(0, colon));
    return key == "Timestamp" || key == "Driver Version" || key == "CUDA Version" ||
           key == "Attached GPUs";
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return log_heading(trim(line.text)) || gpu_line(trim(line.text)).has_value();
    });
}

class QueryReader {
  public:
    explicit QueryReader(const Lines& lines) : lines_(lines) {
        reading_.understood.resize(lines.lines.size());
    }

    Reading read() {
        for (std::size_t i = 0; i < lines_.lines.size(); ++i)
            if (take(lines_.lines[i].text)) reading_.understood[i] = true;
        reading_.machine = gpus_.take();
        reading_.machine.gpus_known = !reading_.machine.gpus.empty();
        reading_.machine.software.driver = driver_;
        if (attached_ && *attached_ != count_)
            reading_.machine.notes.push_back(fmt::format(
                "{} of {} GPUs are listed, their numbers are a guess", count_, *attached_));
        return std::move(reading_);
    }

  private:
    struct Section {
        std::size_t indent = 0;
        std::string_view name;
    };

    bool take(std::string_view line) {
        const std::string_view text = trim(line);
        if (log_heading(text)) return inside_ = true;
        if (text.empty()) return false;
        if (const auto pci = gpu_line(text)) {
            gpu_ = gpus_.at(count_);
            if (gpu_ != nullptr) gpu_->pci = pci;
            ++count_;
            sections_.clear();
            inside_ = true;
            base_ = line.find_first_not_of(" \t");
            return true;
        }
        if (!inside_ && !heads_log(text)) return false;
        inside_ = true;
        return key_line(line, text);
    }

    bool key_line(std::string_view line, std::string_view text) {
        const std::size_t indent = line.find_first_not_of(" \t");
        const std::size_t colon = text.find(" : ");
        const std::string_view key = trim(text.substr(0, colon));
        const std::string_view value =
            colon == std::string_view::npos ? std::string_view() : trim(text.substr(colon + 3));
        while (!sections_.empty() && sections_.back().indent >= indent) sections_.pop_back();
        if (gpu_ == nullptr) {
            if (key == "Driver Version" && !missing(value)) driver_ = value;
            if (key == "Attached GPUs") attached_ = first_of_list(value);
            return colon != std::string_view::npos;
        }
        if (indent <= base_) {  // another output begins here
            gpu_ = nullptr;
            return inside_ = false;
        }
        if (value == kLost) gpu_->responding = false;
        if (colon != std::string_view::npos && !missing(value)) apply(key, value);
        constexpr std::size_t kDeepest = 16;
        if (sections_.size() < kDeepest && key.size() < 64) sections_.push_back({indent, key});
        return true;
    }

    void apply(std::string_view key, std::string_view value) {
        std::string path;
        for (const Section& section : sections_) path += std::string(section.name) + '/';
        path += key;
        for (const Rule& rule : kRules) {
            const bool any = rule.path.starts_with("*");
            const bool match = any ? path.ends_with(rule.path.substr(1)) : path == rule.path;
            if (match) rule.set(*gpu_, value);
        }
    }

    const Lines& lines_;
    Reading reading_;
    GpuList gpus_;
    Gpu* gpu_ = nullptr;
    bool inside_ = false;
    int count_ = 0;
    std::size_t base_ = 0;  ///< indentation of the line of the GPU
    std::vector<Section> sections_;
    std::optional<int> attached_;
    std::optional<std::string> driver_;
};

Reading read(const Lines& lines) {
    return QueryReader(lines).read();
}

}  // namespace

Importer nvidia_query_importer() {
    return {"nvidia-smi -q", recognise, read};
}

}  // namespace toporun::detect
