#pragma once

#include <optional>
#include <string_view>

#include "detect/nccl_log/line.hpp"

namespace toporun::detect::nccl_log {

/// The first record in `line` and where it starts; nothing when there is no record prefix.
struct FoundRecord {
    Record record;       ///< message: the rest of the line
    std::size_t at = 0;  ///< where its host begins
};
std::optional<FoundRecord> find_record(std::string_view line);

}  // namespace toporun::detect::nccl_log
