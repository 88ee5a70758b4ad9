#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Combinations of GPU, driver, library and platform that were reported to fail, as data
/// (known-bad.toml). A row is a hint, never a verdict: only a copy with compared data settles
/// whether peer access works on a machine.
namespace toporun::profiles {

/// Conditions are joined by "and"; empty members are not compared. A range of a version that is not
/// known does not match.
struct KnownBadRow {
    int row = 0;                        ///< number, stable, unique
    std::vector<std::string> gpus;      ///< part of a GPU's name, any of them
    std::vector<std::string> not_gpus;  ///< no GPU's name may contain one
    int gpu_count_min = 0;              ///< of the GPUs that match `gpus`
    int gpu_count_max = 0;              ///< 0 = any
    std::string driver_since;           ///< NVIDIA driver, inclusive; "" = any
    std::string driver_until;           ///< likewise; a newer driver silences the row
    std::string nccl_since;             ///< likewise
    std::string nccl_until;
    std::string cpu;                 ///< part of the CPU's model or vendor
    std::string architecture;        ///< "x86_64", "aarch64"
    std::vector<std::string> where;  ///< "vm", "bare-metal", "container", "efa"
    std::string peer_access;         ///< "ok", "refused": of some pair of the GPUs
    std::string links;               ///< "none": no pair has NVLink; "some"
    std::string path;                ///< of some pair without NVLink: "PIX", "PHB", "SYS"
    std::optional<bool> iommu_translating;
    std::optional<bool> driver_open;
    std::string symptom;  ///< "hang", "corruption", "error", "slow", "refused"
    std::string what;     ///< one sentence
    std::string fix;
    std::string source;
    std::string confidence;  ///< "high", "medium", "low"
    std::string where_read;  ///< file:line:column
};

struct KnownBad {
    std::vector<KnownBadRow> rows;
};

/// Reads known-bad.toml. Throws Error with file:line:column, unknown keys refused with a
/// suggestion.
KnownBad read_known_bad(std::string_view text, std::string_view file);

/// The table compiled into the program.
KnownBad builtin_known_bad();

}  // namespace toporun::profiles
