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
/// A text that lists GPUs without Machine::gpus_known (all that is on the bus) adds facts to the
/// GPUs of the others, wherever it stands.
Machine merge_machines(std::vector<NamedMachine> parts);

/// Takes a list of GPUs away that no text knows to be the machine's: when everything is merged.
void drop_listed_gpus(Machine& machine);

}  // namespace toporun::detect
