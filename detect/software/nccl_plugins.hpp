#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detect/detect.hpp"
#include "detect/files.hpp"
#include "detect/machine.hpp"
#include "detect/software/bounded_reader.hpp"

namespace toporun::detect {

struct FoundPlugins {
    std::vector<NcclPlugin> plugins;
    bool partial = false;  ///< the reader was spent before every place was looked at
};

/// The net, tuner, env and profiler plugins on the library path, then those in the loader's cache
/// (its bytes), each file once, the first of a name first: the loader takes that one. Directories
/// of the library path may lie on a slow file system: nothing more is looked at once `reader` is
/// spent.
FoundPlugins find_nccl_plugins(const Sources& sources, const BoundedReader& reader,
                               std::string_view loader_cache);

/// Who makes a plugin, by its name and place: "aws-ofi", "gib", "hpcx", "fastsocket", "tcpx",
/// "tcpxo", "" unknown.
std::string nccl_plugin_maker(std::string_view file);

}  // namespace toporun::detect
