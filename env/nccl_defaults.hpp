#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/inputs.hpp"
#include "env/matrix.hpp"

/// What NCCL does by itself, by version (NCCL src/graph/paths.cc, 2.8.3 to 2.30.7).
namespace toporun::env {

/// NVL or NVB: over NVLink, directly or through a third GPU.
bool is_nvlink(detect::PathType path);

struct LevelDefault {
    detect::PathType level = detect::PathType::PXB;
    std::string why;      ///< "the default of 2.23 and later"
    bool certain = true;  ///< false: the version or the CPU is unknown, `why` says what was assumed
    /// The highest of those that it may be (2.9 and later); `level` where it is certain.
    detect::PathType at_most = level;
};

/// The P2P level without NCCL_P2P_LEVEL where `gpus` GPUs of this host are in the communicator.
LevelDefault default_p2p_level(const Inputs& inputs, int gpus);

/// The names that NCCL_P2P_LEVEL may have in this version, nearest first.
std::vector<std::string> level_names(std::optional<int> nccl);

/// NCCL's reading of NCCL_P2P_LEVEL: an exact name, or the old digits (0 LOC, 1 PIX, 2 PXB, 3 PHB,
/// above SYS). Nothing: NCCL ignores the value.
std::optional<detect::PathType> level_of_value(const std::string& value, std::optional<int> nccl);

/// Whether the digits of the old scale decide `value`.
bool is_level_digit(const std::string& value);

/// What may keep NCCL from P2P or shared memory beside the level.
struct TransportSwitches {
    detect::PathType level = detect::PathType::PXB;
    bool shm_disabled = false;                    ///< NCCL_SHM_DISABLE=1
    bool ignore_disabled_p2p = false;             ///< NCCL_IGNORE_DISABLED_P2P of 1 or more
    std::vector<std::vector<bool>> network = {};  ///< network_pairs()
};

/// `defaults` as the user's own variables change them.
TransportSwitches with_users_switches(const Inputs& inputs, TransportSwitches defaults);

/// The driver's answer for the pair is not known, no NVLink joins it, and a stock driver refuses
/// peer access to one of the two: the answer that pair_transport() assumes.
bool assumed_refused(const Inputs& inputs, const PairMatrix& matrix, int a, int b);

/// P2P, P2P-indirect, SHM, NET, or NONE where NCCL stops with an error.
std::string pair_transport(const Inputs& inputs, const PairMatrix& matrix, int a, int b,
                           const TransportSwitches& switches);

}  // namespace toporun::env
