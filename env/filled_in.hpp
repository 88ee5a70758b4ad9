#pragma once

#include <array>
#include <string_view>

namespace toporun::env {

/// Groups of variables that --leave takes by one name: what torchrun is told of several nodes, and
/// what the ranks of a Python program are told of their place.
inline constexpr std::string_view kRendezvousGroup = "rendezvous";
inline constexpr std::string_view kRanksGroup = "ranks";

/// The variables that are filled in where they were left out (docs/launchers.md).
inline constexpr std::array<std::string_view, 8> kRendezvousVariables = {
    "PET_NNODES",       "PET_NODE_RANK",     "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID",     "PET_RDZV_CONF"};
inline constexpr std::array<std::string_view, 7> kRankVariables = {
    "RANK",        "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"};

}  // namespace toporun::env
