#include "launcher/failures/kernel_line.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/text.hpp"
#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/digits.hpp"

namespace toporun::launcher::failures {
namespace {

using detect::nccl_log::Cursor;

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// Exactly `size` digits.
std::optional<int> fixed_digits(Cursor& at, std::size_t size) {
    const std::string_view text = at.rest().substr(0, size);
    if (text.size() < size || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
    at.skip(text);
    return static_cast<int>(to_integer(text).value_or(0));
}

/// `10:00:00`
bool time_of_day(Cursor& at, LogTime& time) {
    const auto hour = fixed_digits(at, 2);
    if (!hour || !at.skip(":")) return false;
    const auto minute = fixed_digits(at, 2);
    if (!minute || !at.skip(":")) return false;
    const auto second = fixed_digits(at, 2);
    if (!second || *hour > 23 || *minute > 59 || *second > 60) return false;
    time.seconds = *hour * 3600 + *minute * 60 + *second;
    return true;
}

bool is_date(const LogTime& time) {
    return time.month >= 1 && time.month <= 12 && time.day >= 1 && time.day <= 31;
}

/// `2025-06-03T10:00:00`
bool iso_date(Cursor& at, LogTime& time) {
    const auto year = fixed_digits(at, 4);
    if (!year || !at.skip("-")) return false;
    const auto month = fixed_digits(at, 2);
    if (!month || !at.skip("-")) return false;
    const auto day = fixed_digits(at, 2);
    if (!day || !(at.skip("T") || at.skip(" ") || at.skip("_"))) return false;
    time.year = *year;
    time.month = *month;
    time.day = *day;
    return time_of_day(at, time) && is_date(time);
}

/// `Jun  3 10:00:00`, and the year behind it of ctime().
bool named_month(Cursor& at, LogTime& time) {
    const auto month = std::find(kMonths.begin(), kMonths.end(), at.rest().substr(0, 3));
    if (month == kMonths.end() || !at.skip(*month) || !at.skip(" ")) return false;
    at.skip_blanks();
    const auto two = fixed_digits(at, 2);
    const auto day = two ? two : fixed_digits(at, 1);
    if (!day || !at.skip(" ")) return false;
    time.month = static_cast<int>(month - kMonths.begin()) + 1;
    time.day = *day;
    if (!time_of_day(at, time)) return false;
    if (at.skip(" "))
        if (const auto year = fixed_digits(at, 4); year && *year > 1990) time.year = *year;
    return is_date(time);
}

/// `E0603 10:00:00.1` of glog, `E603 10:00:00.1` of c10.
bool glog_date(Cursor& at, LogTime& time) {
    if (!at.skip("E") && !at.skip("W") && !at.skip("I") && !at.skip("F")) return false;
    std::size_t size = 0;
    while (size < at.rest().size() && is_digit(at.rest()[size])) ++size;
    if (size != 3 && size != 4) return false;
    time.month = *fixed_digits(at, size - 2);
    time.day = *fixed_digits(at, 2);
    return at.skip(" ") && time_of_day(at, time) && is_date(time);
}

bool begins_word(std::string_view line, std::size_t at) {
    return at == 0 || line[at - 1] == ' ' || line[at - 1] == '[' || line[at - 1] == ':' ||
           line[at - 1] == '\t' || line[at - 1] == '"';
}

double days(const LogTime& time, int year) {
    using namespace std::chrono;
    const sys_days day =
        std::chrono::year(year) / time.month / std::min(time.day, 28);  // every month has it
    return static_cast<double>(day.time_since_epoch().count()) + std::max(0, time.day - 28) +
           time.seconds / 86400.0;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// `PCI:0000:3b:00`, `0000:3b:00.0`, `00000000:3B:00`: domain of four digits, bus and device.
std::string bus_of(std::string_view text) {
    if (text.starts_with("PCI:")) text.remove_prefix(4);
    text = text.substr(0, text.find('.'));
    const std::size_t colon = text.find(':');
    if (colon == text.npos || text.size() > 24 ||
        text.find_first_not_of("0123456789abcdefABCDEF:") != text.npos)
        return {};
    if (colon > 4) text.remove_prefix(colon - 4);
    return lower_case(text);
}

}  // namespace

std::optional<LogTime> log_time(std::string_view line) {
    // Of the line's prefix, or of Slurm's `CANCELLED AT`: a message names dates of other things.
    constexpr std::size_t kFarthest = 200, kLongestPrefix = 48;
    line = line.substr(0, kFarthest);
    using Reader = bool (*)(Cursor&, LogTime&);
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (!begins_word(line, i)) continue;
        if (i > kLongestPrefix && !line.substr(0, i).ends_with(" AT ")) continue;
        for (const Reader reader : {&iso_date, &named_month, &glog_date}) {
            Cursor at(line.substr(i));
            LogTime time;
            if (reader(at, time)) return time;
        }
    }
    return std::nullopt;
}

double hours_apart(const LogTime& a, const LogTime& b) {
    constexpr double kYear = 365.25;
    if (a.year > 0 && b.year > 0) return std::abs(days(a, a.year) - days(b, b.year)) * 24;
    const int year = std::max({a.year, b.year, 2000});
    const double apart = std::abs(days(a, year) - days(b, year));
    return std::min(apart, std::abs(kYear - apart)) * 24;
}

std::optional<KernelLine> kernel_line(std::string_view line) {
    constexpr std::string_view kSyslog = " kernel: ", kXid = "NVRM: Xid (";
    KernelLine found;
    const std::size_t kernel = line.find(kSyslog);
    const std::size_t xid = line.find(kXid);
    const bool dated = kernel != line.npos && log_time(line.substr(0, kernel));
    if (!dated && xid == line.npos) return std::nullopt;
    if (dated) {
        const std::string_view before = line.substr(0, kernel);
        const std::size_t blank = before.rfind(' ');
        const std::string_view host = before.substr(blank == before.npos ? 0 : blank + 1);
        const auto plain = [](unsigned char c) {
            return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
        };
        const bool named = !host.empty() && host.size() <= 255 &&
                           std::all_of(host.begin(), host.end(), plain) &&
                           !std::all_of(host.begin(), host.end(), is_digit);
        if (named) found.host = host;
    }
    if (xid == line.npos) return found;
    Cursor at(line.substr(xid + kXid.size()));
    if (const auto bus = at.until(")")) found.bus = bus_of(*bus);
    if (at.until("pid=")) {
        at.skip("'");
        found.pid = at.number<std::int64_t>();
        at.skip("'");
        if (at.skip(", name=")) {
            at.skip("'");
            const std::string_view rest = at.rest().substr(0, 64);
            found.program = rest.substr(0, rest.find_first_of("',"));
        }
    }
    return found;
}

}  // namespace toporun::launcher::failures
