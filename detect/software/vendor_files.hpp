#pragma once

#include <string>
#include <vector>

#include "detect/files.hpp"

namespace toporun::detect {

/// Directories and files of cloud and fabric makers that are there: they mean that somebody's own
/// script, plugin or image decides some of NCCL's settings.
std::vector<std::string> vendor_files(const Files& files);

/// The cloud's name for the size of this machine, from what cloud-init keeps on disk for every user
/// ("Standard_ND96isr_H100_v5"); "" when it is not there or does not tell.
std::string cloud_instance_type(const Files& files);

}  // namespace toporun::detect
