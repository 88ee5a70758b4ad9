#pragma once

#include <string>
#include <string_view>

#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// One stream of log text, line by line, for a model.
class LogStream {
  public:
    explicit LogStream(LogModel& model) : model_(model) {}

    /// A line without its line end. `cut`: it was longer and its rest is lost. Returns what it
    /// says, valid until the next call and as long as `line`.
    const detect::nccl_log::Line& add(std::string_view line, bool cut = false);

  private:
    LogModel& model_;
    detect::nccl_log::Line line_;
    std::string buffer_;
};

}  // namespace toporun::launcher
