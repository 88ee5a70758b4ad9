#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What was measured on one machine: the evidence on which a level may be raised or lowered. Valid
/// for that machine alone, with the driver, kernel and IOMMU mode that it had.
namespace toporun::profiles {

struct MeasuredGpu {
    std::string pci;   ///< "0000:18:00.0", lower case
    std::string uuid;  ///< "GPU-...", "" = not recorded
};

/// Copies between two GPUs, one direction, the slower of the two.
struct MeasuredPair {
    std::string a;                           ///< PCI id of one of Measured::gpus
    std::string b;                           ///< PCI id of another
    std::optional<double> p2p_gbytes_per_s;  ///< empty: not measured
    std::optional<double> shm_gbytes_per_s;  ///< through host memory
    bool intact = true;                      ///< data over P2P arrived as it was sent
};

struct Measured {
    std::string name;
    std::string file;
    std::string date;               ///< "2026-11-30"
    std::string tool;               ///< what measured: "toporun probe 0.4"
    std::string driver;             ///< NVIDIA's, "" = not recorded
    std::string kernel;             ///< release, "" = not recorded
    std::string iommu;              ///< as Software::iommu_mode, "" = not recorded
    std::vector<MeasuredGpu> gpus;  ///< every GPU of the machine
    std::vector<MeasuredPair> pairs;
};

/// Whether the file is a measured profile: it has a [measured] table. Throws Error for TOML that
/// cannot be read.
bool is_measured(std::string_view text, std::string_view file);

/// Reads a measured profile. Throws Error with file:line:column, unknown keys refused with a
/// suggestion.
Measured read_measured(std::string_view text, std::string_view file);

}  // namespace toporun::profiles
