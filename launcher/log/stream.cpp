#include "launcher/log/stream.hpp"

namespace toporun::launcher {

using namespace detect::nccl_log;

const Line& LogStream::add(std::string_view line, bool cut) {
    if (cut) model_.add_cut_line();
    const std::string_view text = plain_line(line, buffer_);
    line_ = parse_line(text);
    if (!cut && line_.record.level == Level::bare) pass(text);
    taken_ = false;
    torn_.add(text, line_);
    return line_;
}

void LogStream::add_test_row(std::string_view line) {
    if (const auto row = parse_test_row(line)) model_.add(*row);
}

LogStream::~LogStream() {
    torn_.finish();
    model_.add_lost_records(torn_.lost());
}

}  // namespace toporun::launcher
