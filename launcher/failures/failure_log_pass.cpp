#include <cstdint>
#include <cstring>

#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/digits.hpp"
#include "launcher/failures/failure_log.hpp"

namespace toporun::launcher::failures {
namespace {

std::size_t end_of_digits(std::string_view text, std::size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
}

/// Eight bytes of which each is a digit (`d`) or as said, looked at together.
class EightBytes {
  public:
    explicit constexpr EightBytes(std::string_view shape) {
        for (std::size_t i = 0; i < 8; ++i) {
            const bool digit = shape[i] == 'd';
            mask_[i] = digit ? 0xf0 : 0xff;
            value_[i] = digit ? 0x30 : static_cast<std::uint8_t>(shape[i]);
            up_to_nine_[i] = digit ? 6 : 0;  // 0x3a and later leave 0x30
        }
    }
    bool fit(const char* at) const {
        const std::uint64_t text = word(at), mask = word(mask_), value = word(value_);
        return (text & mask) == value && ((text + word(up_to_nine_)) & mask) == value;
    }

  private:
    static std::uint64_t word(const void* bytes) {
        std::uint64_t all = 0;
        std::memcpy(&all, bytes, sizeof all);
        return all;
    }
    std::uint8_t mask_[8] = {};
    std::uint8_t value_[8] = {};
    std::uint8_t up_to_nine_[8] = {};
};

/// Where the text behind `2026-03-01 12:00:07,123 ` begins; 0 for no date.
std::size_t end_of_date(std::string_view line) {
    constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
    constexpr EightBytes kYear("dddd-dd-"), kTime("dd:dd:dd");
    if (line.size() <= kShape.size() || !kYear.fit(line.data()) ||
        !kTime.fit(line.data() + kShape.find(' ') + 1) || !is_digit(line[8]) ||
        !is_digit(line[9]) || (line[10] != ' ' && line[10] != 'T'))
        return 0;
    std::size_t at = kShape.size();
    if (line[at] == '.' || line[at] == ',') ++at;
    at = end_of_digits(line, at);
    if (at < line.size() && line[at] == 'Z') ++at;
    return at < line.size() && line[at] == ' ' ? at + 1 : 0;
}

/// Whether one of the prefixes of prefix.hpp may begin with `text`, or with more of it where it
/// goes on.
bool begins_prefix(std::string_view text, bool goes_on) {
    if (text.empty()) return goes_on;
    const char first = text.front();
    if (is_digit(first) || first == '[' || first == '(' || first == ' ') return true;
    if (first != 'E' && first != 'W' && first != 'I' && first != 'F') return false;
    if (text.size() > 1 ? is_digit(text[1]) : goes_on) return true;
    const auto begins = [&](std::string_view word) {
        return text.starts_with(word) || (goes_on && word.starts_with(text));
    };
    return first == 'E' ? begins("ERROR:") : first == 'W' ? begins("WARNING:") : begins("INFO:");
}

}  // namespace

bool FailureLog::tells_no_rank(std::string_view line, bool goes_on) const {
    // What a number may be followed by where the text ends: nothing, or whatever there is.
    const auto is_label = [&](std::size_t end) {
        return end == line.size() ? goes_on : line[end] == ':';
    };
    while (!line.empty()) {
        const char first = line.front();
        detect::nccl_log::Cursor at(line);
        if (first == ' ') {  // srun's label, or none
            std::size_t end = 1;
            while (end < line.size() && line[end] == ' ') ++end;
            return !is_label(end_of_digits(line, end));
        }
        if (is_digit(first)) {  // a date, or srun's label
            const std::size_t end = end_of_date(line);
            if (end == 0) {
                const std::size_t after = end_of_digits(line, 0);  // a `-`: another form of date
                return !is_label(after) && (after == line.size() || line[after] != '-');
            }
            line.remove_prefix(end);
            if (goes_on || !detect::nccl_log::Cursor(line).skip("[rank"))
                return !begins_prefix(line, goes_on);
        } else if (at.skip("[rank")) {
            std::size_t rank = 0, digits = 0;
            for (; digits < at.rest().size() && is_digit(at.rest()[digits]); ++digits)
                if (rank < known_ranks_.size())
                    rank = rank * 10 + static_cast<std::size_t>(at.rest()[digits] - '0');
            at = detect::nccl_log::Cursor(at.rest().substr(digits));
            if (digits == 0 || rank >= known_ranks_.size() || !known_ranks_[rank] || !at.skip("]:"))
                return false;
            at.skip(" ");
            return !begins_prefix(at.rest(), goes_on);
        } else {
            return first != '[' && first != '(';
        }
    }
    return !goes_on;
}

void FailureLog::add_repaired(std::string_view line) {
    const detect::nccl_log::Line nccl = detect::nccl_log::parse_line(line);
    consider(line, &nccl);
}

void FailureLog::pass(std::uint64_t lines) {
    if (lines == 0) return;
    if (evidence_.files.empty()) begin_file("");
    place_.line += lines;
    place_.order += lines;
    evidence_.file_lines.back() = place_.line;
}

void FailureLog::pass_record(const detect::nccl_log::Line& nccl, NcclProcess& process) {
    pass(1);
    add_nccl(nccl, process);
}

}  // namespace toporun::launcher::failures
