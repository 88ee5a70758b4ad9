#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_table.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/topology/gpu_models.hpp"

/// `rocm-smi --showproductname`, `--showbus`, `--showid`, `--showmeminfo vram`: a line a GPU and
/// fact.
namespace toporun::detect {
namespace {

constexpr unsigned kVendorAmd = 0x1002;

struct FactLine {
    int gpu = 0;
    std::string_view key, value;
};

/// "GPU[3]		: Card Series: 		AMD Instinct MI300X".
std::optional<FactLine> fact_line(std::string_view line) {
    const std::string_view text = trim(line);
    if (!text.starts_with("GPU[")) return std::nullopt;
    const std::size_t bracket = text.substr(0, 12).find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    const auto gpu =
        number_in(text.substr(4, bracket - 4), 0, static_cast<int>(kMostTableGpus) - 1);
    const std::string_view rest = trim(text.substr(bracket + 1));
    if (!gpu || !rest.starts_with(":")) return std::nullopt;
    const auto pair = key_and_value(rest.substr(1));
    if (!pair || pair->second.empty()) return std::nullopt;
    return FactLine{*gpu, pair->first, pair->second};
}

std::optional<std::uint64_t> bytes(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value >> 50 != 0)
        return std::nullopt;
    return value;
}

std::string name_of_id(std::string_view text) {
    unsigned id = 0;
    if (!text.starts_with("0x")) return {};
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), id, 16);
    return error == std::errc() && end == text.data() + text.size() ? gpu_name(kVendorAmd, id) : "";
}

/// Whether the line is one of those that are looked at.
bool take_fact(const FactLine& fact, Gpu& gpu) {
    const std::string_view value = fact.value;
    if (value == "N/A") return fact.key.starts_with("Card ");
    if (fact.key == "Card Series" || fact.key == "Card series") {
        gpu.name = value;
        return true;
    }
    if (fact.key == "PCI Bus") {
        gpu.pci = PciAddress::parse(value);
        return gpu.pci.has_value();
    }
    if (fact.key == "Device ID" || fact.key == "GPU ID") {
        if (gpu.name.empty()) gpu.name = name_of_id(value);
        return true;
    }
    if (fact.key == "VRAM Total Memory (B)") {
        gpu.memory_bytes = bytes(value);
        return gpu.memory_bytes.has_value();
    }
    if (fact.key == "VRAM Total Used Memory (B)") {
        gpu.memory_used_bytes = bytes(value);
        return gpu.memory_used_bytes.has_value();
    }
    return fact.key.starts_with("Card ") || fact.key == "GFX Version";
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        const auto fact = fact_line(line.text);
        Gpu unused;
        return fact && take_fact(*fact, unused);
    });
}

Reading read(const Lines& lines) {
    Reading reading;
    std::vector<int> indices;
    for (const PastedLine& line : lines.lines)
        if (const auto fact = fact_line(line.text))
            if (Gpu unused; take_fact(*fact, unused)) indices.push_back(fact->gpu);
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    reading.machine = machine_with_gpus(indices, "amd");
    for (const PastedLine& line : lines.lines) {
        const auto fact = fact_line(line.text);
        reading.understood.push_back(line.text.starts_with("==="));
        if (!fact) continue;
        for (Gpu& gpu : reading.machine.gpus)
            if (gpu.index == fact->gpu) reading.understood.back() = take_fact(*fact, gpu);
    }
    return reading;
}

}  // namespace

Importer rocm_facts_importer() {
    return {"rocm-smi --showproductname", recognise, read};
}

}  // namespace toporun::detect
