#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// How much of a port is read.
struct PortDepth {
    bool deep = false;
    std::optional<int> gid_index;  ///< an entry of the GID table that is read in any case
};

/// The ports of /sys/class/infiniband: merged into the interface of the same port where there is
/// one (an Ethernet interface becomes `roce`; bonds, VLANs and VFs keep their kind), else appended
/// as a Nic named after the RDMA device (`infiniband`, `roce`, `efa`). Error counters are read on a
/// tree or when `deep`: each may be a question to the adapter's firmware, which a launch must not
/// wait for.
void add_rdma_devices(PciTree& pci, const PortDepth& depth, std::vector<Nic>& nics);

}  // namespace toporun::detect
