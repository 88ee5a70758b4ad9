#include "detect/topology/gpu_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace toporun::detect {
namespace {

struct ModelRow {
    std::string_view word;  ///< of the name, as a whole word
    GpuModel model;
};

constexpr std::array kModels{
    ModelRow{"P100", {60, 3, ""}},        ModelRow{"V100", {70, 3, ""}},
    ModelRow{"V100S", {70, 3, ""}},       ModelRow{"T4", {75, 3, ""}},
    ModelRow{"A100", {80, 4, ""}},        ModelRow{"A800", {80, 4, ""}},
    ModelRow{"A30", {80, 4, ""}},         ModelRow{"A10", {86, 4, ""}},
    ModelRow{"A10G", {86, 4, ""}},        ModelRow{"A40", {86, 4, ""}},
    ModelRow{"A6000", {86, 4, ""}},       ModelRow{"A5500", {86, 4, ""}},
    ModelRow{"A5000", {86, 4, ""}},       ModelRow{"A4500", {86, 4, ""}},
    ModelRow{"A4000", {86, 4, ""}},       ModelRow{"3090", {86, 4, ""}},
    ModelRow{"L4", {89, 4, ""}},          ModelRow{"L20", {89, 4, ""}},
    ModelRow{"L40", {89, 4, ""}},         ModelRow{"L40S", {89, 4, ""}},
    ModelRow{"4090", {89, 4, ""}},        ModelRow{"H100", {90, 5, ""}},
    ModelRow{"H200", {90, 5, ""}},        ModelRow{"H800", {90, 5, ""}},
    ModelRow{"H20", {90, 5, ""}},         ModelRow{"GH200", {90, 5, ""}},
    ModelRow{"B100", {100, 5, ""}},       ModelRow{"B200", {100, 5, ""}},
    ModelRow{"GB200", {100, 5, ""}},      ModelRow{"B300", {103, 6, ""}},
    ModelRow{"GB300", {103, 6, ""}},      ModelRow{"5090", {120, 5, ""}},
    ModelRow{"MI50", {0, 4, "gfx906"}},   ModelRow{"MI60", {0, 4, "gfx906"}},
    ModelRow{"MI100", {0, 4, "gfx908"}},  ModelRow{"MI210", {0, 4, "gfx90a"}},
    ModelRow{"MI250", {0, 4, "gfx90a"}},  ModelRow{"MI250X", {0, 4, "gfx90a"}},
    ModelRow{"MI300A", {0, 5, "gfx942"}}, ModelRow{"MI300X", {0, 5, "gfx942"}},
    ModelRow{"MI325X", {0, 5, "gfx942"}}, ModelRow{"MI350X", {0, 5, "gfx950"}},
    ModelRow{"MI355X", {0, 5, "gfx950"}},
};

struct IdRow {
    unsigned vendor;
    unsigned device;
    std::string_view name;
};

constexpr std::array kIds{
    IdRow{0x10de, 0x15f8, "Tesla P100-PCIE-16GB"},
    IdRow{0x10de, 0x15f9, "Tesla P100-SXM2-16GB"},
    IdRow{0x10de, 0x1db1, "Tesla V100-SXM2-16GB"},
    IdRow{0x10de, 0x1db4, "Tesla V100-PCIE-16GB"},
    IdRow{0x10de, 0x1db5, "Tesla V100-SXM2-32GB"},
    IdRow{0x10de, 0x1db6, "Tesla V100-PCIE-32GB"},
    IdRow{0x10de, 0x1db8, "Tesla V100-SXM3-32GB"},
    IdRow{0x10de, 0x1eb8, "Tesla T4"},
    IdRow{0x10de, 0x20b0, "NVIDIA A100-SXM4-40GB"},
    IdRow{0x10de, 0x20b2, "NVIDIA A100-SXM4-80GB"},
    IdRow{0x10de, 0x20b5, "NVIDIA A100 80GB PCIe"},
    IdRow{0x10de, 0x20b7, "NVIDIA A30"},
    IdRow{0x10de, 0x20f1, "NVIDIA A100-PCIE-40GB"},
    IdRow{0x10de, 0x2204, "NVIDIA GeForce RTX 3090"},
    IdRow{0x10de, 0x2230, "NVIDIA RTX A6000"},
    IdRow{0x10de, 0x2231, "NVIDIA RTX A5000"},
    IdRow{0x10de, 0x2235, "NVIDIA A40"},
    IdRow{0x10de, 0x2236, "NVIDIA A10"},
    IdRow{0x10de, 0x2237, "NVIDIA A10G"},
    IdRow{0x10de, 0x2330, "NVIDIA H100 80GB HBM3"},
    IdRow{0x10de, 0x2331, "NVIDIA H100 PCIe"},
    IdRow{0x10de, 0x2321, "NVIDIA H100 NVL"},
    IdRow{0x10de, 0x2335, "NVIDIA H200"},
    IdRow{0x10de, 0x233b, "NVIDIA H200 NVL"},
    IdRow{0x10de, 0x2684, "NVIDIA GeForce RTX 4090"},
    IdRow{0x10de, 0x26b1, "NVIDIA RTX 6000 Ada Generation"},
    IdRow{0x10de, 0x26b5, "NVIDIA L40"},
    IdRow{0x10de, 0x26b9, "NVIDIA L40S"},
    IdRow{0x10de, 0x26ba, "NVIDIA L20"},
    IdRow{0x10de, 0x27b8, "NVIDIA L4"},
    IdRow{0x10de, 0x2901, "NVIDIA B200"},
    IdRow{0x10de, 0x2b85, "NVIDIA GeForce RTX 5090"},
};

bool is_word_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

struct Series {
    std::string_view digits;  ///< of the number of a GeForce card: "50" of 5090, 5060
    GpuModel model;
};

constexpr std::array kGeForceSeries{Series{"50", {120, 5, ""}}, Series{"40", {89, 4, ""}},
                                    Series{"30", {86, 4, ""}}, Series{"20", {75, 3, ""}}};

/// GeForce cards and the workstation cards of a generation are not listed one by one. "RTX 6000 Ada
/// Generation" has the number of older cards.
std::optional<GpuModel> model_of_series(std::string_view name) {
    if (has_name_word(name, "RTX") && has_name_word(name, "Blackwell")) return GpuModel{120, 5, ""};
    if (has_name_word(name, "RTX") && has_name_word(name, "Ada")) return GpuModel{89, 4, ""};
    if (!has_name_word(name, "GeForce")) return std::nullopt;
    for (const std::string_view word : name_words(name))
        for (const Series& series : kGeForceSeries)
            if (word.size() == 4 && word.starts_with(series.digits)) return series.model;
    return std::nullopt;
}

}  // namespace

std::vector<std::string_view> name_words(std::string_view name) {
    std::vector<std::string_view> words;
    for (std::size_t begin = 0; begin < name.size();) {
        std::size_t end = begin;
        while (end < name.size() && is_word_char(name[end])) ++end;
        if (end > begin) words.push_back(name.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

bool has_name_word(std::string_view name, std::string_view pattern) {
    const bool start = pattern.ends_with('*');
    if (start) pattern.remove_suffix(1);
    const auto words = name_words(name);
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
        return start ? word.starts_with(pattern) : word == pattern;
    });
}

std::optional<GpuModel> gpu_model(std::string_view name) {
    if (const auto model = model_of_series(name)) return model;
    const auto* found = std::find_if(kModels.begin(), kModels.end(), [&](const ModelRow& row) {
        return has_name_word(name, row.word);
    });
    if (found == kModels.end()) return std::nullopt;
    return found->model;
}

std::string gpu_name(unsigned vendor, unsigned device) {
    const auto* found = std::find_if(kIds.begin(), kIds.end(), [&](const IdRow& row) {
        return row.vendor == vendor && row.device == device;
    });
    return found == kIds.end() ? std::string() : std::string(found->name);
}

}  // namespace toporun::detect
