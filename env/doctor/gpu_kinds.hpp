#pragma once

#include <optional>

#include "detect/machine.hpp"

/// What the product name of a GPU tells of the way it is built in. One table for all checks; a name
/// that is not in it is of no kind.
namespace toporun::env::doctor {

/// A module of a board with NVLinks (SXM), for which NVLink is always wired.
bool is_sxm(const detect::Gpu& gpu);
/// Consumer cards: no GPUDirect RDMA, and mostly no peer access.
bool is_geforce(const detect::Gpu& gpu);
/// GPUs of servers: they are not in desktops and laptops.
bool is_server_gpu(const detect::Gpu& gpu);
/// A GPU of a laptop: fewer PCIe lanes are wired.
bool is_laptop_gpu(const detect::Gpu& gpu);
/// A GPU of a rack that NVLink joins (GB200, GB300).
bool is_rack_gpu(const detect::Gpu& gpu);
/// A card with several NVLink connectors, of which one or none may have a bridge.
bool has_bridge_connectors(const detect::Gpu& gpu);
/// A card that is sold with its NVLink bridges (H100 NVL, H200 NVL).
bool is_sold_bridged(const detect::Gpu& gpu);
/// The driver allows peer access between two of them below one PCIe switch, on bare metal.
bool has_peer_access(const detect::Gpu& gpu);
/// AMD's modules of eight on a board, each joined to each by xGMI (MI300X and later).
bool is_mi300_class(const detect::Gpu& gpu);

/// major*10 + minor: the driver's word, else by the name; nothing when neither is known.
std::optional<int> compute_capability(const detect::Gpu& gpu);

}  // namespace toporun::env::doctor
