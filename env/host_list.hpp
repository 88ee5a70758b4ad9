#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::env {

/// No cluster has more hosts in one job; what names more is a slip or hostile.
inline constexpr std::size_t kMostHosts = 65536;

/// The hosts of Slurm's compressed list "gpu-[1-3,10],login,r[0-1]n[08-10]", in its order: several
/// brackets in a name multiply, the last runs fastest; leading zeros are kept. Throws Error for
/// brackets that do not match, ranges that run backwards, names that hold blanks or control
/// characters, and more than kMostHosts. Empty parts are passed over.
std::vector<std::string> expand_host_list(std::string_view list);

}  // namespace toporun::env
