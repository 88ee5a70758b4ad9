#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detect/detect.hpp"
#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// The net, tuner, env and profiler plugins on the library path, then those in the loader's cache
/// (its bytes), each file once, the first of a name first: the loader takes that one.
std::vector<NcclPlugin> find_nccl_plugins(const Sources& sources, const Files& files,
                                          std::string_view loader_cache);

/// Who makes a plugin, by its name and place: "aws-ofi", "gib", "hpcx", "fastsocket", "tcpx",
/// "tcpxo", "" unknown.
std::string nccl_plugin_maker(std::string_view file);

}  // namespace toporun::detect
