#pragma once

#include <string>
#include <string_view>

#include "launcher/log/model.hpp"
#include "launcher/log/torn.hpp"

namespace toporun::launcher {

/// One stream of log text, line by line, for a model. The model has all of it at the end only.
class LogStream {
  public:
    explicit LogStream(LogModel& model) : model_(model) {}
    ~LogStream();
    LogStream(const LogStream&) = delete;
    LogStream& operator=(const LogStream&) = delete;

    /// A line without its line end. `cut`: it was longer and its rest is lost. Returns what it
    /// says, valid until the next call and as long as `line`.
    const detect::nccl_log::Line& add(std::string_view line, bool cut = false);

  private:
    LogModel& model_;
    detect::nccl_log::Line line_;
    std::string buffer_;
    TornLines torn_{[this](const detect::nccl_log::Line& line) { model_.add(line); }};
};

}  // namespace toporun::launcher
