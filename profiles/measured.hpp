#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What was measured on one machine: the evidence on which a level may be raised or lowered. Valid
/// for that machine alone, with the driver and kernel that it had.
namespace toporun::profiles {

/// Copies between two GPUs, one direction, the slower of the two.
struct MeasuredPair {
    std::string a;                           ///< PCI id, "0000:18:00.0"
    std::string b;                           ///< PCI id
    std::optional<double> p2p_gbytes_per_s;  ///< empty: not measured
    std::optional<double> shm_gbytes_per_s;  ///< through host memory
    bool intact = true;                      ///< data over P2P arrived as it was sent
};

struct Measured {
    std::string name;
    std::string file;
    std::string driver;             ///< NVIDIA's, "" = not recorded
    std::string kernel;             ///< release, "" = not recorded
    std::vector<std::string> gpus;  ///< PCI ids of every GPU of the machine
    std::vector<MeasuredPair> pairs;
};

}  // namespace toporun::profiles
