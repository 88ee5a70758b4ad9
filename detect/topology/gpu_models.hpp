#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::detect {

/// What the name of a GPU tells of it.
struct GpuModel {
    int compute_capability = 0;  ///< major*10 + minor; 0 for AMD
    int pcie_generation = 0;
    std::string_view amd_architecture;  ///< "gfx942", "" for NVIDIA
};

/// The words of letters and digits in a product name: "Tesla", "V100", "SXM2", "32GB".
std::vector<std::string_view> name_words(std::string_view name);

/// Whether `pattern` is a word of the name; with '*' at its end, whether a word starts so.
bool has_name_word(std::string_view name, std::string_view pattern);

/// By a product name in any form that tools print ("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB",
/// "A100-SXM4-40GB"); nothing for others. Source: NVIDIA's and AMD's product pages.
std::optional<GpuModel> gpu_model(std::string_view name);

/// The product name behind PCI ids, as NVML prints it; "" for others. Source: the PCI id list.
std::string gpu_name(unsigned vendor, unsigned device);

}  // namespace toporun::detect
