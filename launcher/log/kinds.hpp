#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "detect/nccl_log/line.hpp"

namespace toporun::launcher {

/// Names of the kinds of NCCL's lines, in the order of detect::nccl_log::Event.
inline constexpr std::array<std::string_view, std::variant_size_v<detect::nccl_log::Event>>
    kLineKinds = {"unknown",
                  "version",
                  "bootstrap",
                  "network_devices",
                  "using_network",
                  "plugin",
                  "init",
                  "shape",
                  "connection",
                  "variable",
                  "warning",
                  "collective",
                  "channels",
                  "ring_order",
                  "ring_link",
                  "trees",
                  "pattern",
                  "affinity",
                  "init_timings",
                  "nvls_support",
                  "nvls_ready",
                  "gpu_direct",
                  "choice",
                  "tuning_columns",
                  "tuning_row",
                  "error_trail",
                  "communicator_end",
                  "provider",
                  "test_rank",
                  "cuda_driver",
                  "network_plugin",
                  "queue_pair",
                  "virtual_device",
                  "no_verbs",
                  "mnnvl",
                  "collnet",
                  "no_graph"};

/// Lines of each kind, those of the topology (graph.hpp) apart.
struct LineKinds {
    std::array<std::uint64_t, kLineKinds.size()> lines{};
    std::uint64_t topology = 0;
};

}  // namespace toporun::launcher
