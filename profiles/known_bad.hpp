#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Combinations of GPU, driver, library and platform that were reported to fail, as data
/// (known-bad.toml). A row is a hint, never a verdict: only a copy with compared data settles
/// whether peer access works on a machine.
namespace toporun::profiles {

/// Conditions are joined by "and"; empty members are not compared. A condition on a fact that is
/// not known does not hold.
struct KnownBadRow {
    int row = 0;                        ///< number, stable, unique
    std::vector<std::string> gpus;      ///< part of a GPU's name, any of them
    std::vector<std::string> not_gpus;  ///< names that contain one of them do not count
    int gpu_count_min = 0;              ///< of the GPUs that count
    int gpu_count_max = 0;              ///< 0 = any
    std::string driver_since;           ///< NVIDIA driver, inclusive; "" = any
    std::string driver_until;           ///< likewise; a newer driver silences the row
    std::string nccl_since;             ///< likewise
    std::string nccl_until;
    std::string architecture;  ///< "x86_64", "aarch64"
    std::string kernel;        ///< part of the kernel's release
    int nodes_min = 0;         ///< of the job; an unknown number counts as two
    /// All of: "vm", "container", "one-port", "port-per-gpu", "slingshot".
    std::vector<std::string> platform;
    /// "ok", "refused": the driver's word on some pair of these GPUs; "possible": not refused for
    /// all pairs; "not-ok": allowed for none, as far as is known.
    std::string peer_access;
    std::string links;  ///< "none": no pair has NVLink, "some"
    std::string path;   ///< of some pair without NVLink: "PIX", "PHB", "SYS"
    std::optional<bool> driver_open;
    std::string symptom;  ///< "hang", "corruption", "error", "slow"
    std::string what;     ///< one sentence
    std::string fix;      ///< a command to type, or advice where none helps
    std::string remark;   ///< what to know of the fix; ""
    std::string source;
    std::string confidence;  ///< "high", "medium"
    /// The row alone takes P2P over PCIe from these GPUs. Only where the fault was reported for
    /// this very model and driver range with high confidence, and hangs or corrupts.
    bool decides = false;
};

/// GPUs whose stock driver refuses peer access over PCIe, for captures that do not hold the
/// driver's own answer (`nvidia-smi topo -p2p`). Pairs on NVLink are never concerned.
struct StockRefusal {
    std::vector<std::string> gpus;      ///< part of a GPU's name, any of them
    std::vector<std::string> not_gpus;  ///< names that contain one of them do not count
    std::string driver_since;           ///< inclusive; "" = any. An unknown driver is in the range
    bool guest = false;                 ///< in virtual machines only
    std::string what;                   ///< "GeForce RTX 40"
    std::string source;
};

struct KnownBad {
    std::vector<KnownBadRow> rows;
    std::vector<StockRefusal> stock_refusals;
};

/// Reads known-bad.toml. Throws Error with file:line:column, unknown keys refused with a
/// suggestion.
KnownBad read_known_bad(std::string_view text, std::string_view file);

/// The table compiled into the program.
KnownBad builtin_known_bad();

}  // namespace toporun::profiles
