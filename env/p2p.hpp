#pragma once

#include <string>
#include <utility>
#include <vector>

#include "env/inputs.hpp"
#include "env/matrix.hpp"

namespace toporun::env {

struct P2pDecision {
    std::vector<Setting> settings;  ///< NCCL_P2P_LEVEL always, NCCL_P2P_DISABLE when it matters
    std::vector<Pair> pairs;        ///< of gpus_in_job()
    std::vector<Finding> findings;
};

/// Which GPU pairs should use P2P, and the level that gives it, for the GPUs of gpus_in_job().
P2pDecision decide_p2p(const Inputs& inputs);

using GpuPair = std::pair<int, int>;  ///< positions in Machine::gpus, the lower first

/// A reason to keep PCIe P2P off although the driver offers it.
struct P2pFault {
    std::string id;
    std::string what;
    std::string evidence;
    std::string fix;
    std::string remark;
    /// Those of the pairs that it concerns; empty = it is there, but not known for which pair: then
    /// it is said and nothing is done about it.
    std::vector<GpuPair> pairs;
};

/// The faults that make P2P over PCIe hang or lose data, gravest first. `pcie`: the pairs that use
/// it by NCCL's own choice; without one there is no fault.
std::vector<P2pFault> p2p_faults(const Inputs& inputs, const PairMatrix& matrix,
                                 const std::vector<GpuPair>& pcie);

/// A measurement of this machine found wrong data on `pairs`, which are not empty.
P2pFault measured_fault(const std::vector<GpuPair>& pairs, const profiles::Measured& measured);

}  // namespace toporun::env
