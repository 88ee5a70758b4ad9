#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// A GID in the shortest form, "fe80::1"; "" for an entry that is empty (all zero) or no address.
std::string canonical_gid(const std::string& text);

/// The GID table of a port directory (/sys/class/infiniband/D/ports/P) without its empty entries.
/// Not `whole`: the search ends after a few empty entries, for a table of 256 costs a millisecond
/// and is filled from the start. The entry `wanted` is read in any case.
std::vector<Gid> read_gids(const Files& files, const std::string& port_directory,
                           bool is_infiniband, bool whole, std::optional<int> wanted = {});

/// The error counters of a port that are not zero.
std::vector<PortCounter> read_port_errors(const Files& files, const std::string& port_directory);

}  // namespace toporun::detect
