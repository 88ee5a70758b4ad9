#include "launcher/log/stream.hpp"

namespace toporun::launcher {

using namespace detect::nccl_log;

const Line& LogStream::add(std::string_view line, bool cut) {
    if (cut) model_.add_cut_line();
    line_ = parse_line(plain_line(line, buffer_));
    model_.add(line_);
    return line_;
}

}  // namespace toporun::launcher
