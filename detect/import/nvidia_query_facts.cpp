#include "detect/import/nvidia_query_facts.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kLost = "GPU is lost";

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

void throttled(Gpu& gpu, std::string_view value, std::string_view reason) {
    if (value == "Active") gpu.throttle_reasons.emplace_back(reason);
}

/// Of one kind of memory, or of one kind of error: they add up.
void uncorrected(Gpu& gpu, std::string_view value) {
    if (const auto errors = error_count(value))
        gpu.uncorrected_errors = gpu.uncorrected_errors.value_or(0) + *errors;
}

/// What a path means. A '*' at the start stands for anything before: drivers since 535 call the
/// clocks' section otherwise.
struct Rule {
    std::string_view path;
    std::string_view element;  ///< of -x
    void (*set)(Gpu& gpu, std::string_view value);
};
constexpr Rule kRules[] = {
    {"Product Name", "product_name", [](Gpu& gpu, std::string_view v) { gpu.name = v; }},
    {"Product Architecture", "product_architecture",
     [](Gpu& gpu, std::string_view v) { gpu.architecture = v; }},
    {"Persistence Mode", "persistence_mode",
     [](Gpu& gpu, std::string_view v) { gpu.persistence = on(v); }},
    {"GPU UUID", "uuid", [](Gpu& gpu, std::string_view v) { gpu.uuid = v; }},
    {"MIG Mode/Current", "mig_mode/current_mig",
     [](Gpu& gpu, std::string_view v) { gpu.mig = on(v); }},
    {"ECC Mode/Current", "ecc_mode/current_ecc",
     [](Gpu& gpu, std::string_view v) { gpu.ecc = on(v); }},
    {"Ecc Mode/Current", {}, [](Gpu& gpu, std::string_view v) { gpu.ecc = on(v); }},
    {"FB Memory Usage/Total", "fb_memory_usage/total",
     [](Gpu& gpu, std::string_view v) { gpu.memory_bytes = mebibytes(v); }},
    {"FB Memory Usage/Used", "fb_memory_usage/used",
     [](Gpu& gpu, std::string_view v) { gpu.memory_used_bytes = mebibytes(v); }},
    {"PCI/GPU Link Info/PCIe Generation/Max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_generation = small_number(v); }},
    {"PCI/GPU Link Info/PCIe Generation/Current", "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_generation_now = small_number(v); }},
    {"PCI/GPU Link Info/Link Width/Max", "pci/pci_gpu_link_info/link_widths/max_link_width",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_width = small_number(v); }},
    {"PCI/GPU Link Info/Link Width/Current", "pci/pci_gpu_link_info/link_widths/current_link_width",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_width_now = small_number(v); }},
    {"Compute Mode", "compute_mode",
     [](Gpu& gpu, std::string_view v) { gpu.compute_mode = compute_mode(v); }},
    {"*ECC Errors/Volatile/Double Bit/Total", "ecc_errors/volatile/double_bit/total", uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable", "ecc_errors/volatile/sram_uncorrectable",
     uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable Parity",
     "ecc_errors/volatile/sram_uncorrectable_parity", uncorrected},
    {"*ECC Errors/Volatile/SRAM Uncorrectable SEC-DED",
     "ecc_errors/volatile/sram_uncorrectable_secded", uncorrected},
    {"*ECC Errors/Volatile/DRAM Uncorrectable", "ecc_errors/volatile/dram_uncorrectable",
     uncorrected},
    {"Remapped Rows/Pending", "remapped_rows/remapped_row_pending",
     [](Gpu& gpu, std::string_view v) { gpu.row_remap_pending = on(v); }},
    {"Remapped Rows/Remapping Failure Occurred", "remapped_rows/remapped_row_failure",
     [](Gpu& gpu, std::string_view v) { gpu.row_remap_failed = on(v); }},
    {"Fabric/State", "fabric/state",
     [](Gpu& gpu, std::string_view v) { gpu.fabric_state = lower(v); }},
    {"Fabric/Status", "fabric/status",
     [](Gpu& gpu, std::string_view v) { gpu.fabric_status = lower(v); }},
    {"*/HW Slowdown", "*_reason_hw_slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "hw-slowdown"); }},
    {"*HW Slowdown/HW Thermal Slowdown", "*_reason_hw_thermal_slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "hw-thermal"); }},
    {"*HW Slowdown/HW Power Brake Slowdown", "*_reason_hw_power_brake_slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "power-brake"); }},
    {"*/SW Thermal Slowdown", "*_reason_sw_thermal_slowdown",
     [](Gpu& gpu, std::string_view v) { throttled(gpu, v, "sw-thermal"); }},
};

void take(std::string_view Rule::*form, std::string_view path, std::string_view value, Gpu& gpu) {
    if (value == kLost) gpu.responding = false;
    if (is_missing_value(value)) return;
    for (const Rule& rule : kRules) {
        const std::string_view known = rule.*form;
        const bool match = known.starts_with("*") ? path.ends_with(known.substr(1)) : path == known;
        if (match) rule.set(gpu, value);
    }
}

}  // namespace

bool is_missing_value(std::string_view value) {
    return value.empty() || value == "N/A" || value == "[N/A]" || value == "Unknown Error" ||
           value == kLost || value == "Requested functionality has been deprecated" ||
           value == "ERR!";
}

void take_query_fact(std::string_view path, std::string_view value, Gpu& gpu) {
    take(&Rule::path, path, value, gpu);
}

void take_query_element(std::string_view path, std::string_view value, Gpu& gpu) {
    take(&Rule::element, path, value, gpu);
}

}  // namespace toporun::detect
