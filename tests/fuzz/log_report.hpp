#pragma once

#include <string_view>

namespace toporun::fuzz {

/// A log that did not come from toporun, read in the short and in the long way: the reports are the
/// same and hold nothing that a terminal obeys. The first byte is the number of lines of a block.
void run_log_report(std::string_view text);

}  // namespace toporun::fuzz
