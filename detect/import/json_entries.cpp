#include "detect/import/json_entries.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kLongestEntry = std::size_t{1} << 20;  // 256 VFs of an adapter: 80 KiB
constexpr int kDeepest = 64;                                 // `ip -j -d` nests 5

/// Walks over the bytes of all lines, as if there were no line breaks.
struct Cursor {
    const Lines& lines;
    std::size_t line = 0;
    std::size_t column = 0;

    bool at_end() const { return line >= lines.lines.size(); }
    /// Steps over line ends (and empty lines).
    void settle() {
        while (!at_end() && column >= lines.lines[line].text.size()) ++line, column = 0;
    }
    char byte() const { return lines.lines[line].text[column]; }
    void next() {
        ++column;
        settle();
    }
    void skip_blanks() {
        while (!at_end() && (byte() == ' ' || byte() == '\t')) next();
    }
};

/// A list begins with `[`, `{` and then a key or the end of an empty entry.
bool list_begins(Cursor cursor) {
    if (cursor.byte() != '[') return false;
    for (const char wanted : {'{', '"'}) {
        cursor.next();
        cursor.skip_blanks();
        if (cursor.at_end()) return false;
        if (cursor.byte() != wanted && !(wanted == '"' && cursor.byte() == '}')) return false;
    }
    return true;
}

/// Takes one entry; the cursor is on its `{` and ends behind its `}` or where it breaks off.
JsonEntry take_entry(Cursor& cursor) {
    JsonEntry entry;
    entry.first_line = cursor.line;
    entry.column = cursor.column;
    entry.complete = false;
    int depth = 0;
    bool quoted = false;
    bool escaped = false;
    std::size_t line = cursor.line;
    while (!cursor.at_end() && entry.text.size() < kLongestEntry) {
        for (; line < cursor.line; ++line) entry.line_starts.push_back(entry.text.size());
        const char c = cursor.byte();
        entry.text += c;
        cursor.next();
        if (quoted) {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        quoted = c == '"';
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        if (depth > kDeepest) break;
        if (depth == 0) {
            entry.complete = true;
            break;
        }
    }
    return entry;
}

/// Takes the entries of a list; the cursor is on its `[` and ends behind its `]` or where it breaks
/// off.
void take_list(Cursor& cursor, JsonEntries& into) {
    cursor.next();
    cursor.skip_blanks();
    while (!cursor.at_end() && cursor.byte() == '{') {
        JsonEntry entry = take_entry(cursor);
        const bool complete = entry.complete;
        if (entry.text != "{}") into.entries.push_back(std::move(entry));
        if (!complete) return;
        cursor.skip_blanks();
        if (cursor.at_end() || cursor.byte() != ',') break;
        cursor.next();
        cursor.skip_blanks();
    }
    if (!cursor.at_end() && cursor.byte() == ']') cursor.next();
}

}  // namespace

bool has_json_list(const Lines& lines) {
    Cursor cursor{lines};
    for (cursor.settle(); !cursor.at_end(); cursor.next())
        if (list_begins(cursor)) return true;
    return false;
}

JsonEntries json_entries(const Lines& lines) {
    JsonEntries found;
    found.understood.assign(lines.lines.size(), false);
    Cursor cursor{lines};
    cursor.settle();
    while (!cursor.at_end()) {
        if (!list_begins(cursor)) {
            cursor.next();
            continue;
        }
        const std::size_t first = cursor.line;
        take_list(cursor, found);
        const std::size_t end = cursor.column > 0 ? cursor.line + 1 : cursor.line;
        for (std::size_t i = first; i < std::min(end, lines.lines.size()); ++i)
            found.understood[i] = true;
    }
    return found;
}

Error json_error(const Lines& lines, const JsonEntry& entry, std::size_t at,
                 const std::string& what) {
    std::size_t line = entry.first_line;
    std::size_t column = entry.column + at;
    for (const std::size_t start : entry.line_starts) {
        if (start > at) break;
        ++line;
        column = at - start;
    }
    return lines.error(lines.lines[line], column, what);
}

}  // namespace toporun::detect
