#include "launcher/log/footprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <vector>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

constexpr std::uint64_t kNodeBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kShareOfMemory = 100;  // 1 %
constexpr int kMostEntries = 65536;

}  // namespace

std::uint64_t footprint_budget(std::optional<std::uint64_t> memory_bytes) {
    return memory_bytes ? std::min(kNodeBytes, *memory_bytes / kShareOfMemory) : kNodeBytes;
}

std::uint64_t directory_bytes(const std::filesystem::path& directory) {
    namespace fs = std::filesystem;
    std::uint64_t bytes = 0;
    std::error_code error;
    fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied,
                                        error);
    for (int entries = 0;
         !error && at != fs::recursive_directory_iterator() && entries < kMostEntries;
         ++entries, at.increment(error)) {
        std::error_code gone;
        if (at->symlink_status(gone).type() != fs::file_type::regular) continue;
        const std::uintmax_t size = at->file_size(gone);
        if (!gone) bytes += size;
    }
    return bytes;
}

std::optional<std::string> footprint_warning(const std::string& directory, std::uint64_t bytes,
                                             std::uint64_t budget) {
    if (bytes <= budget) return std::nullopt;
    return fmt::format(
        "the files of this run take {} in {}, more than the {} meant for them; NCCL's log grows "
        "with what NCCL has to say, --no-log does without it",
        format_bytes(bytes), printable(directory), format_bytes(budget));
}

std::uint64_t log_cap(std::span<const std::uint64_t> sizes, std::uint64_t budget) {
    std::vector<std::uint64_t> ascending(sizes.begin(), sizes.end());
    std::sort(ascending.begin(), ascending.end());
    std::uint64_t left = budget;
    for (std::size_t i = 0; i < ascending.size(); ++i) {
        const std::uint64_t each = left / (ascending.size() - i);
        if (ascending[i] > each) return each;
        left -= ascending[i];
    }
    return UINT64_MAX;
}

std::optional<std::uint64_t> memory_bytes(const detect::Limits& limits) {
    if (!limits.memory_bytes || !limits.memory_limit_bytes)
        return limits.memory_bytes ? limits.memory_bytes : limits.memory_limit_bytes;
    return std::min(*limits.memory_bytes, *limits.memory_limit_bytes);
}

}  // namespace toporun::launcher
