#pragma once

#include <string>
#include <vector>

#include "launcher/failures/failure_log.hpp"
#include "launcher/log/source.hpp"

namespace toporun::tests {

/// The evidence of some files, read as `toporun report` does.
inline launcher::failures::FailureLog read_failures(const std::vector<std::string>& files) {
    launcher::failures::FailureLog log;
    for (const std::string& file : files) {
        log.begin_file(file);
        launcher::read_log_lines(file, [&](std::string_view line, bool) {
            const auto parsed = detect::nccl_log::parse_line(line);
            log.add(line, &parsed);
        });
    }
    return log;
}

/// The same for a text.
inline launcher::failures::FailureLog read_failures_of_text(std::string_view text) {
    launcher::failures::FailureLog log;
    log.begin_file("job.log");
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const auto parsed = detect::nccl_log::parse_line(text.substr(0, end));
        log.add(text.substr(0, end), &parsed);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return log;
}

}  // namespace toporun::tests
