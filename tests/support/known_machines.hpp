#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detect/machine_toml.hpp"
#include "files.hpp"

namespace toporun::tests {

/// Machines of the kinds that users have, from tests/data/machines/NAME.toml.
inline std::vector<std::pair<std::string, detect::Machine>> known_machines() {
    std::vector<std::pair<std::string, detect::Machine>> machines;
    for (const std::string name : {"dgx-h100", "four-a6000", "eight-mi300x", "laptop",
                                   "network-only", "gb200-tray", "sixteen-gpus"}) {
        const std::string file = std::string(TOPORUN_TEST_DATA) + "/machines/" + name + ".toml";
        machines.emplace_back(name, detect::machine_from_toml(read_file(file), name + ".toml"));
    }
    return machines;
}

}  // namespace toporun::tests
