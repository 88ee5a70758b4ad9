#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toporun::launcher::failures {

/// A date and time as a line shows it: of the clock and time zone of whoever wrote it.
struct LogTime {
    int year = 0;  ///< 0: not told
    int month = 1;
    int day = 1;
    int seconds = 0;  ///< of the day
};

/// The first date with a time in the first 200 bytes of `line`: `2025-06-03T10:00:00`,
/// `2025-06-03_10:00:00`, `Jun  3 10:00:00`, `[Tue Jun  3 10:00:00 2025]`, and glog's `E0603
/// 10:00:00.1` and `[E603 10:00:00.1` at the beginning of a word.
std::optional<LogTime> log_time(std::string_view line);

/// Hours between two times, without a sign; a year that one of them does not tell is that of the
/// other, or the one before or after.
double hours_apart(const LogTime& a, const LogTime& b);

/// What a line of the kernel's log names beside its message.
struct KernelLine {
    std::string host;                 ///< of syslog's form
    std::string bus;                  ///< PCI address of the GPU of an Xid, "0000:3b:00"
    std::optional<std::int64_t> pid;  ///< of the process that an Xid names
    std::string program;              ///< and its name
};

/// Nothing for a line that does not look like the kernel's.
std::optional<KernelLine> kernel_line(std::string_view line);

}  // namespace toporun::launcher::failures
