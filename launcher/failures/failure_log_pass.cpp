#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/digits.hpp"
#include "launcher/failures/failure_log.hpp"

namespace toporun::launcher::failures {
namespace {

std::size_t end_of_digits(std::string_view text, std::size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
}

/// Where the text behind `2026-03-01 12:00:07,123 ` begins; 0 for no date.
std::size_t end_of_date(std::string_view line) {
    constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
    if (line.size() <= kShape.size() || line[4] != '-' || line[7] != '-' || line[13] != ':' ||
        line[16] != ':' || (line[10] != ' ' && line[10] != 'T'))
        return 0;
    for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18})
        if (!is_digit(line[i])) return 0;
    std::size_t at = kShape.size();
    if (line[at] == '.' || line[at] == ',') ++at;
    at = end_of_digits(line, at);
    if (at < line.size() && line[at] == 'Z') ++at;
    return at < line.size() && line[at] == ' ' ? at + 1 : 0;
}

/// Whether one of the prefixes of prefix.hpp may begin with `text`.
bool begins_prefix(std::string_view text) {
    if (text.empty()) return false;
    const char first = text.front();
    if (is_digit(first) || first == '[' || first == '(' || first == ' ') return true;
    if (first != 'E' && first != 'W' && first != 'I' && first != 'F') return false;
    return (text.size() > 1 && is_digit(text[1])) || text.starts_with("ERROR:") ||
           text.starts_with("WARNING:") || text.starts_with("INFO:");
}

}  // namespace

bool FailureLog::tells_no_rank(std::string_view line) const {
    while (!line.empty()) {
        const char first = line.front();
        detect::nccl_log::Cursor at(line);
        if (first == ' ') {  // srun's label, or none
            std::size_t end = 1;
            while (end < line.size() && line[end] == ' ') ++end;
            end = end_of_digits(line, end);
            return end == line.size() || line[end] != ':';
        }
        if (is_digit(first)) {  // a date, or srun's label
            const std::size_t end = end_of_date(line);
            if (end == 0) {
                const std::size_t after = end_of_digits(line, 0);
                return after == line.size() || line[after] != ':';
            }
            line.remove_prefix(end);
            if (begins_prefix(line) && !line.starts_with("[rank")) return false;
            if (!line.starts_with("[rank")) return true;
        } else if (at.skip("[rank")) {
            if (at.rest().empty() || !is_digit(at.rest().front())) return false;
            const auto rank = at.number<std::size_t>();
            if (!rank || *rank >= known_ranks_.size() || !known_ranks_[*rank] || !at.skip("]:"))
                return false;
            at.skip(" ");
            return !begins_prefix(at.rest());
        } else {
            return first != '[' && first != '(';
        }
    }
    return true;
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
