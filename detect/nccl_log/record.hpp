#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detect/nccl_log/line.hpp"

namespace toporun::detect::nccl_log {

/// The first record in `line` and where its message starts; nothing when there is no record prefix.
struct FoundRecord {
    Record record;  ///< message: the rest of the line
    std::size_t message_at = 0;
};
std::optional<FoundRecord> find_record(std::string_view line);

/// `line` without terminal escape sequences (ECMA-48 CSI) and without line end.
std::string without_escapes(std::string_view line);

}  // namespace toporun::detect::nccl_log
