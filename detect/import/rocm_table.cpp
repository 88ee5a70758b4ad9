#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_table.hpp"

/// The table of plain `rocm-smi`, one row for each GPU, with or without the column of ids:
///
///     Device  Node  IDs              Temp        Power     ...  VRAM%  GPU%
///                   (DID,     GUID)  (Junction)  (Socket)
///     0       2     0x74a1,   28851  42.0C       131.0W    ...  0%     0%
namespace toporun::detect {
namespace {

bool is_header(std::string_view line) {
    const std::string_view text = trim(line);
    return (text.starts_with("Device ") || text.starts_with("GPU ")) &&
           text.find("SCLK") != text.npos && text.find("VRAM%") != text.npos;
}

/// A rule, or a title between two.
bool is_rule(std::string_view text) {
    return text.size() >= 8 && text.starts_with("===") && text.ends_with("===");
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return is_header(line.text); });
}

/// "0x74a1," as the PCI device of vendor AMD.
std::string device_id(std::string_view word) {
    constexpr std::size_t kSize = 7;
    if (word.size() != kSize || !word.starts_with("0x") || word.back() != ',') return {};
    const std::string_view digits = word.substr(2, 4);
    if (digits.find_first_not_of("0123456789abcdef") != digits.npos) return {};
    return fmt::format("1002:{}", digits);
}

std::optional<Gpu> row(std::string_view text) {
    const auto word = words(text);
    if (word.size() < 6 || text.find('%') == text.npos) return std::nullopt;
    const auto index = to_integer(word[0]);
    if (!index || *index < 0 || *index >= static_cast<long long>(kMostTableGpus))
        return std::nullopt;
    Gpu gpu;
    gpu.index = static_cast<int>(*index);
    gpu.vendor = "amd";
    for (std::size_t i = 1; i < 4 && gpu.pci_id.empty(); ++i) gpu.pci_id = device_id(word[i]);
    return gpu;
}

Reading read(const Lines& lines) {
    Reading reading;
    reading.understood.resize(lines.lines.size());
    reading.machine = machine_with_gpus({}, "amd");
    std::set<int> known;
    bool inside = false, rows = false;
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string_view text = trim(lines.lines[i].text);
        if (is_header(text)) {
            inside = reading.understood[i] = true;
            rows = false;
        } else if (is_rule(text)) {
            reading.understood[i] = true;
            inside = inside && !rows;  // the rule behind the last row
        } else if (!inside) {
            continue;
        } else if (!rows && text.starts_with("(")) {  // units below the header
            reading.understood[i] = true;
        } else if (auto gpu = row(text)) {
            reading.understood[i] = rows = true;
            if (known.insert(gpu->index).second) reading.machine.gpus.push_back(std::move(*gpu));
        }
    }
    reading.machine.gpus_known = !reading.machine.gpus.empty();
    if (reading.machine.gpus.empty())
        reading.machine.notes.emplace_back("the table of rocm-smi is cut before its first GPU");
    return reading;
}

}  // namespace

Importer rocm_table_importer() {
    return {"rocm-smi", recognise, read};
}

}  // namespace toporun::detect
