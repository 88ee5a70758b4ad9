#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "detect/files.hpp"

namespace toporun::detect {

/// Reads files up to a number of bytes in all and up to a point in time. A launch must not wait for
/// a search on a slow file system.
class BoundedReader {
  public:
    /// Without bounds.
    explicit BoundedReader(const Files& files) : files_(files) {}
    BoundedReader(const Files& files, std::uint64_t most_bytes, std::chrono::milliseconds most_time)
        : files_(files),
          bytes_left_(most_bytes),
          end_(std::chrono::steady_clock::now() + most_time) {}

    const Files& files() const { return files_; }
    std::uint64_t bytes_left() const { return bytes_left_; }
    /// The time is over, or nothing may be read any more.
    bool spent() const {
        return bytes_left_ == 0 || (end_ && std::chrono::steady_clock::now() >= *end_);
    }
    /// As Files::read_at, but never more than is left.
    std::optional<std::string> read_at(const std::string& path, std::uint64_t offset,
                                       std::size_t size) {
        const auto allowed = static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes_left_));
        if (allowed == 0) return std::nullopt;
        auto bytes = files_.read_at(path, offset, allowed);
        if (bytes && bytes_left_ != kEndless) bytes_left_ -= bytes->size();
        return bytes;
    }

  private:
    static constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

    const Files& files_;
    std::uint64_t bytes_left_ = kEndless;
    std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace toporun::detect
