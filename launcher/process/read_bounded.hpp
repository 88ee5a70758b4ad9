#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace toporun::launcher {

/// The first `limit` bytes of a regular file; "" for anything else that stands there.
std::string read_bounded(const std::filesystem::path& path, std::size_t limit);

}  // namespace toporun::launcher
