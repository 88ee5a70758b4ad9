#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "detect/machine.hpp"

namespace toporun::launcher {

/// What the files of one node may take while a job runs, in bytes: 64 MiB, and 1 % of
/// `memory_bytes` (the smaller of the machine's memory and the memory limit; empty = unknown) when
/// that is less. The rings keep within three quarters of it (profiler/ring_slots.hpp). How much
/// NCCL logs is NCCL's affair: nothing ends its writing, toporun can only say so.
std::uint64_t footprint_budget(std::optional<std::uint64_t> memory_bytes);

/// The memory that counts for it: the machine's or the limit of the control group, if that is less.
std::optional<std::uint64_t> memory_bytes(const detect::Limits& limits);

/// Bytes in all regular files below `directory`. Links are not followed; what cannot be read or
/// vanishes meanwhile counts nothing. Looks at 65536 entries at most.
std::uint64_t directory_bytes(const std::filesystem::path& directory);

/// The warning when `bytes` in the private `directory` are more than `budget`, nothing below.
std::optional<std::string> footprint_warning(const std::string& directory, std::uint64_t bytes,
                                             std::uint64_t budget);

/// Bytes of logs that are read for a report: some hundred ranks of the usual 100 KiB, parsed within
/// the 2 s that toporun may add after the end of the training.
inline constexpr std::uint64_t kMostLogBytes = std::uint64_t{32} << 20;

/// How many bytes of the beginning of each log are read, so that all together are within `budget`:
/// the largest number with which that holds. Short logs are whole, what they leave goes to the
/// longer ones. UINT64_MAX when all are whole. NCCL says at the beginning of a log what it found
/// and chose, so that the beginnings of all are worth more than some of them whole.
std::uint64_t log_cap(std::span<const std::uint64_t> sizes, std::uint64_t budget);

}  // namespace toporun::launcher
