#include "detect/import/lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "detect/import/line_prefix.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kSample = 65536;  ///< bytes looked at to tell text from a binary file

bool between(char c, char low, char high) {
    return c >= low && c <= high;
}

/// Bytes of a terminal's escape sequence at `at`, 0 when there is none (ECMA-48 5.4: CSI, two-byte
/// and charset sequences; OSC up to BEL or ST, on one line). Also CSI as `cat -v` writes it, and
/// colours that lost their ESC on the way.
std::size_t escape_length(std::string_view line, std::size_t at) {
    const auto csi = [&](std::size_t end) -> std::size_t {
        while (end < line.size() && between(line[end], '0', '?')) ++end;
        while (end < line.size() && between(line[end], ' ', '/')) ++end;
        return end < line.size() && between(line[end], '@', '~') ? end + 1 - at : 0;
    };
    const std::string_view rest = line.substr(at);
    if (rest.starts_with("^[[")) return csi(at + 3);
    if (rest[0] == '[') {
        std::size_t end = at + 1;
        while (end < line.size() && (between(line[end], '0', '9') || line[end] == ';')) ++end;
        return end > at + 1 && end < line.size() && line[end] == 'm' ? end + 1 - at : 0;
    }
    if (rest[0] != '\x1b') return 0;
    if (rest.size() < 2) return 1;
    if (rest[1] == '[') return std::max<std::size_t>(csi(at + 2), 2);
    if (rest[1] == ']') {
        const std::size_t end = rest.find_first_of("\a\x1b", 2);
        if (end == std::string_view::npos) return 2;
        return end + (rest.substr(end).starts_with("\x1b\\") ? 2 : 1);
    }
    return between(rest[1], ' ', '/') && rest.size() > 2 ? 3 : 2;
}

/// The line without escapes; blanks of web pages as blanks, marks without width gone.
std::string clean(std::string_view line) {
    if (line.find_first_of("\x1b^[\xc2\xe2\xef") == std::string_view::npos)
        return std::string(line);
    std::string out;
    out.reserve(line.size());
    for (std::size_t at = 0; at < line.size();) {
        const std::string_view rest = line.substr(at);
        const char c = line[at];
        const std::size_t escape =
            c == '\x1b' || c == '^' || c == '[' ? escape_length(line, at) : 0;
        if (escape > 0) {
            at += escape;
        } else if (rest.starts_with("\u00a0")) {
            out += ' ';
            at += 2;
        } else if (rest.starts_with("\u200b") || rest.starts_with("\ufeff")) {
            at += 3;
        } else {
            out += c;
            ++at;
        }
    }
    return out;
}

void append_utf8(std::string& out, unsigned code) {
    const auto byte = [&](unsigned value) { out += static_cast<char>(value); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xc0 | code >> 6);
        byte(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        byte(0xe0 | code >> 12);
        byte(0x80 | (code >> 6 & 0x3f));
        byte(0x80 | (code & 0x3f));
    } else {
        byte(0xf0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3f));
        byte(0x80 | (code >> 6 & 0x3f));
        byte(0x80 | (code & 0x3f));
    }
}

enum class Encoding { bytes, utf16_little, utf16_big, binary };

Encoding encoding_of(std::string_view text) {
    if (text.starts_with("\xff\xfe")) return Encoding::utf16_little;
    if (text.starts_with("\xfe\xff")) return Encoding::utf16_big;
    const std::string_view sample = text.substr(0, kSample);
    std::size_t zeros[2] = {0, 0}, controls = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
        if (sample[i] == '\0') ++zeros[i % 2];
        if (between(sample[i], '\0', '\x1f') &&
            std::string_view("\t\n\r\x1b\b\f\v").find(sample[i]) == std::string_view::npos)
            ++controls;
    }
    // ASCII in UTF-16: every second byte is zero, hardly any other is.
    if (zeros[1] * 5 > sample.size() * 2 && zeros[0] * 50 < sample.size())
        return Encoding::utf16_little;
    if (zeros[0] * 5 > sample.size() * 2 && zeros[1] * 50 < sample.size())
        return Encoding::utf16_big;
    return controls * 20 > sample.size() ? Encoding::binary : Encoding::bytes;
}

std::string from_utf16(std::string_view text, bool little) {
    const auto unit = [&](std::size_t i) -> unsigned {
        const auto low = static_cast<unsigned char>(text[i + (little ? 0 : 1)]);
        const auto high = static_cast<unsigned char>(text[i + (little ? 1 : 0)]);
        return static_cast<unsigned>(high << 8 | low);
    };
    std::string out;
    out.reserve(text.size() / 2);
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        unsigned code = unit(i);
        if (code >= 0xd800 && code < 0xdc00 && i + 3 < text.size()) {
            const unsigned low = unit(i + 2);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        append_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
    return out;
}

/// Cuts at LF, CR LF and CR. Of several blank lines one is kept.
std::vector<PastedLine> split_lines(std::string_view text) {
    std::vector<PastedLine> lines;
    bool blank = false;
    for (std::size_t at = 0, number = 1; at < text.size(); ++number) {
        const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
        PastedLine line;
        line.text = clean(text.substr(at, end - at));
        line.number = number;
        const bool empty = trim(line.text).empty();
        if (!empty || !blank) lines.push_back(std::move(line));
        blank = empty;
        at = end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
    }
    return lines;
}

}  // namespace

Lines read_lines(std::string_view text, std::string file) {
    Lines lines;
    lines.file = std::move(file);
    lines.whole = text;
    const Encoding encoding = encoding_of(text);
    if (encoding == Encoding::binary) return lines;
    if (encoding == Encoding::bytes)
        lines.lines = split_lines(text);
    else
        lines.lines = split_lines(from_utf16(text, encoding == Encoding::utf16_little));
    strip_prefixes(lines);
    return lines;
}

Error Lines::error(const PastedLine& line, std::size_t column, const std::string& what,
                   const std::string& hint) const {
    return Error(what, fmt::format("{}:{}:{}", file, line.number, line.offset + column + 1), hint);
}

std::string Lines::place(std::size_t byte) const {
    const std::string_view before = whole.substr(0, byte);
    const auto number = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t start = before.rfind('\n');
    const std::size_t column =
        start == std::string_view::npos ? before.size() + 1 : before.size() - start;
    return fmt::format("{}:{}:{}", file, number, column);
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
        out.push_back(line.substr(at, end - at));
        at = end;
    }
    return out;
}

std::vector<std::string_view> cells(std::string_view line) {
    std::vector<std::string_view> out;
    const bool tabs = line.find('\t') != std::string_view::npos;
    for (std::size_t at = 0; at <= line.size();) {
        const std::size_t end = std::min(line.find(tabs ? "\t" : "  ", at), line.size());
        const std::string_view cell = trim(line.substr(at, end - at));
        if (tabs || !cell.empty()) out.push_back(cell);
        at = end + 1;
    }
    return out;
}

}  // namespace toporun::detect
