#include "detect/nccl_log/record.hpp"

#include "detect/nccl_log/cursor.hpp"

namespace toporun::detect::nccl_log {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_host_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
}

/// The digits that `text` ends with, cut off from it together with the ':' before them.
std::optional<std::int64_t> take_last_number(std::string_view& text) {
    std::size_t start = text.size();
    while (start > 0 && is_digit(text[start - 1])) --start;
    if (start == text.size() || start == 0 || text[start - 1] != ':') return std::nullopt;
    const auto value = whole_number<std::int64_t>(text.substr(start));
    text = text.substr(0, start - 1);
    return value;
}

/// Whether `text` ends in `12:00:07`, of a logger: two digits each, which no ids are.
bool ends_with_time_of_day(std::string_view text) {
    constexpr std::string_view kShape = "dd:dd:dd";
    if (text.size() < kShape.size()) return false;
    text.remove_prefix(text.size() - kShape.size());
    for (std::size_t i = 0; i < kShape.size(); ++i)
        if (kShape[i] == 'd' ? !is_digit(text[i]) : text[i] != kShape[i]) return false;
    return true;
}

/// `host:pid:tid` at the end of `text`.
bool read_origin(std::string_view text, Record& record) {
    if (ends_with_time_of_day(text)) return false;
    const auto tid = take_last_number(text);
    if (!tid) return false;
    const auto pid = take_last_number(text);
    if (!pid) return false;
    std::size_t start = text.size();
    while (start > 0 && is_host_char(text[start - 1])) --start;
    if (start == text.size()) return false;
    record.host = text.substr(start);
    record.pid = *pid;
    record.tid = *tid;
    return true;
}

struct LevelWord {
    std::string_view word;
    Level level;
};
// "INFO" alone: NCCL before 2.4. The bracketed form is RCCL's.
constexpr LevelWord kLevels[] = {
    {"NCCL INFO ", Level::info},      {"NCCL WARN ", Level::warn}, {"NCCL TRACE ", Level::trace},
    {"NCCL CALL ", Level::trace},     {"INFO ", Level::info},      {"WARN ", Level::warn},
    {"[FATAL ERROR]: ", Level::warn}, {"[ERROR]: ", Level::warn},
};

std::optional<Level> skip_level(Cursor& cursor) {
    for (const LevelWord& row : kLevels) {
        if (cursor.skip(row.word)) return row.level;
    }
    return std::nullopt;
}

/// False for most lines that hold no record, without a look at their words.
bool has_level_word(std::string_view line) {
    constexpr std::string_view kWords[] = {"NCCL ", "INFO ", "WARN ", "ERROR]: "};
    return std::any_of(std::begin(kWords), std::end(kWords),
                       [&](std::string_view word) { return line.find(word) != line.npos; });
}

bool looks_like_source(std::string_view word) {
    const std::size_t colon = word.rfind(':');
    return colon != std::string_view::npos && colon > 0 &&
           whole_number<int>(word.substr(colon + 1)).has_value();
}

/// What may stand between `[dev]` and the level: a time in milliseconds (TRACE), `file.cc:12`,
/// `(function)` (2.30.7).
std::optional<Level> read_level(Cursor& cursor, Record& record) {
    constexpr int kWordsBefore = 3;
    for (int i = 0; i <= kWordsBefore; ++i) {
        record.old_form = cursor.rest().starts_with("INFO ");
        if (const auto level = skip_level(cursor)) return level;
        const std::string_view word = cursor.word();
        const bool location = looks_like_source(word);
        const bool time = !word.empty() && word.find_first_not_of("0123456789.") == word.npos;
        const bool function = word.starts_with('(') && word.ends_with(')');
        if (!location && !time && !function) return std::nullopt;
        if (location) record.source = word;
        cursor.skip_blanks();
    }
    return std::nullopt;
}

/// The part after `host:pid:tid `.
bool read_tail(Cursor& cursor, Record& record) {
    if (cursor.skip("[")) {
        const auto device = cursor.number<int>();
        if (!device || !cursor.skip("] ")) return false;
        record.device = *device;
    }
    const auto level = read_level(cursor, record);
    if (!level) return false;
    record.level = *level;
    return true;
}

}  // namespace

std::optional<FoundRecord> find_record(std::string_view line) {
    if (!has_level_word(line)) return std::nullopt;
    for (std::size_t at = line.find(' '); at != line.npos; at = line.find(' ', at + 1)) {
        if (at == 0 || !is_digit(line[at - 1])) continue;
        FoundRecord found;
        if (!read_origin(line.substr(0, at), found.record)) continue;
        Cursor cursor(line.substr(at + 1));
        if (!read_tail(cursor, found.record)) continue;
        found.record.message = cursor.rest();
        found.at = static_cast<std::size_t>(found.record.host.data() - line.data());
        return found;
    }
    return std::nullopt;
}

}  // namespace toporun::detect::nccl_log
