#pragma once

#include <string>
#include <vector>

namespace toporun::launcher {

/// The traceback, else the message, that torch.distributed.elastic's error handler (`record`) has
/// written as JSON, line by line; nothing when `text` is no such file.
std::vector<std::string> lines_of_error_file(const std::string& text);

}  // namespace toporun::launcher
