#pragma once

#include <string>
#include <vector>

#include "detect/detect.hpp"
#include "detect/files.hpp"

namespace toporun::detect {

/// The configuration files that NCCL would read and that are there, strongest first.
std::vector<std::string> conf_files(const Sources& sources, const Files& files);

/// The topology files that are there: the one that NCCL_TOPO_FILE names or else the one that NCCL
/// reads by itself, then those that vendors' images ship.
std::vector<std::string> topology_files(const Sources& sources, const Files& files);

}  // namespace toporun::detect
