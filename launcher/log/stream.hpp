#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

    // The short ways of failures::LogScan.

    /// Lines without a record and without other words of NCCL may be left out now.
    bool may_pass() const { return torn_.may_pass(); }
    /// Whole lines are written, as far as is known, and the last one went to the model as it stood.
    bool is_whole() const { return taken_ && torn_.is_whole(); }
    /// A line that is passed over: it may be a row of nccl-tests.
    void pass(std::string_view line) {
        if (may_be_test_row(line)) add_test_row(line);
    }
    /// Takes a record that stands alone in its line; false when it must come through add().
    /// `process`: as process_of() gave it.
    bool add_alone(const detect::nccl_log::Line& line, std::size_t process) {
        if (!torn_.at_once(line)) return false;
        model_.add(line, process);
        return true;
    }
    /// Texts of records that were put together again since the last call.
    std::vector<std::string> take_repaired() { return torn_.take_repaired(); }
    /// The model's number of the record's process.
    std::optional<std::size_t> process_of(const detect::nccl_log::Record& record) {
        return model_.process_of(record);
    }

  private:
    void add_test_row(std::string_view line);

    LogModel& model_;
    detect::nccl_log::Line line_;
    std::string buffer_;
    bool taken_ = false;  ///< `line_`, by the model
    TornLines torn_{[this](const detect::nccl_log::Line& line) {
        taken_ |= &line == &line_;
        model_.add(line);
    }};
};

}  // namespace toporun::launcher
