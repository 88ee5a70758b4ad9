#pragma once

#include <optional>
#include <string_view>

#include "detect/nccl_log/line.hpp"

namespace toporun::detect::nccl_log {

/// The event in the message of an INFO record.
Event parse_message(std::string_view message);

/// `NCCL version 2.28.9+cuda13.0`, `RCCL version : 2.27.7-HEAD:0d2c4fd`, `RCCL
/// version 2.18.6+hip6.0 HEAD:..`; nothing for anything else, sentences that mention a version
/// among them.
std::optional<Event> parse_version(std::string_view message);

}  // namespace toporun::detect::nccl_log
