#pragma once

#include <string>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::tests {

struct SavedMachine {
    std::string name;
    detect::Machine machine;
};

/// The machines put together by hand, and every capture of tests/data that is understood.
std::vector<SavedMachine> own_machines();

/// Every file of the shared collection that is understood: captures, topologies of the rig, the
/// machines composed for reported cases. Empty where the collection is absent.
std::vector<SavedMachine> shared_machines();

}  // namespace toporun::tests
