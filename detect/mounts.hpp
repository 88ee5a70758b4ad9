#pragma once

#include <string>
#include <vector>

#include "detect/files.hpp"

namespace toporun::detect {

/// One line of /proc/self/mountinfo.
struct Mount {
    std::string root;  ///< the part of the file system that is mounted
    std::string point;
    std::string type;
    std::string super_options;  ///< "rw,size=65536k"
};

/// The mounts of this process, in the kernel's order; octal escapes in paths are resolved.
std::vector<Mount> read_mounts(const Files& files);

}  // namespace toporun::detect
