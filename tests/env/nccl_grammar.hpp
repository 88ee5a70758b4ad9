#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detect/machine.hpp"

/// What the readers of each variable understand (NCCL 2.7 to 2.31: src/misc/param.cc,
/// src/misc/socket.cc, src/graph/paths.cc, src/debug.cc, src/transport/net_ib.cc), written down
/// apart from the code that decides.
namespace toporun::tests {

struct Reader {
    const detect::Machine& machine;
    std::optional<int> nccl;  ///< version code
};

/// Why the reader of this version would not take `value` as it is meant; "" when it would. A
/// variable without a rule here is a fault too: whoever exports one writes its rule down.
std::string grammar_fault(const std::string& name, const std::string& value, const Reader& reader);

/// Whether the variable is one that no tool may set on its own.
bool never_set(std::string_view name);

}  // namespace toporun::tests
