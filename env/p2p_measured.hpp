#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "env/nccl_defaults.hpp"
#include "env/p2p.hpp"

/// The P2P level by what was measured on this very machine.
namespace toporun::env {

/// The measured profile of this machine and its pairs by positions in Machine::gpus, lower first.
struct MeasuredMachine {
    const profiles::Measured* profile = nullptr;  ///< nullptr: none is of this machine
    std::map<GpuPair, const profiles::MeasuredPair*> pairs;
    /// Why the profiles at hand do not hold, "" when one does or there is none: "measured profile
    /// 'a': driver 575.1 was measured, 580.2 is here".
    std::string misfit;
    bool stale = false;  ///< the misfit is of a profile of these very GPUs

    const profiles::MeasuredPair* pair(int a, int b) const;
};

/// Whether the profile was measured on this very machine, as measured_machine() compares them.
bool measured_here(const detect::Machine& machine, const profiles::Measured& measured);

/// The newest measured profile whose GPUs, driver, kernel and IOMMU mode are those of the machine.
/// A fact that one side knows and the other does not is a difference.
MeasuredMachine measured_machine(const Inputs& inputs);

struct MeasuredLevel {
    detect::PathType level = detect::PathType::LOC;  ///< LOC: P2P off
    std::string evidence;                            ///< pairs and bandwidths
};

/// The level that beats NCCL's default `defaults` by the measured pairs: it gives P2P only to pairs
/// where it is intact and not slower, takes it only from pairs where shared memory is not slower
/// or which are in `bad`, leaves none of `bad` on P2P and takes no NVLink. Nothing: the default is
/// best, or no level is better for some pairs and worse for none.
std::optional<MeasuredLevel> measured_level(const Inputs& inputs, const PairMatrix& matrix,
                                            const TransportSwitches& defaults,
                                            const MeasuredMachine& measured,
                                            const std::vector<GpuPair>& bad);

/// NVLink that was measured to lose data, which no setting mends, and a profile of these GPUs that
/// does not hold any longer.
std::vector<Finding> measured_findings(const Inputs& inputs, const PairMatrix& matrix,
                                       const MeasuredMachine& measured);

/// The measured pairs on which data did not arrive over P2P: of `pairs` those.
std::vector<GpuPair> measured_broken(const MeasuredMachine& measured,
                                     const std::vector<GpuPair>& pairs);

}  // namespace toporun::env
