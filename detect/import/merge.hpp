#pragma once

#include <string>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::detect {

/// What one text says, and its name for notes.
struct NamedMachine {
    std::string name;
    Machine machine;
};

/// Several partial descriptions as one machine, in the order given. GPUs are the same by bus id,
/// UUID or index, network interfaces by name, RDMA device (and port) or bus id; an entry that names
/// both an interface and an RDMA device joins the two. Matrices follow the new order. A known fact
/// replaces an unknown one, a more specific one a general one; where two facts contradict each
/// other the first stays and a note names both texts. Notes of a text carry its name when there are
/// several.
Machine merge_machines(std::vector<NamedMachine> parts);

}  // namespace toporun::detect
