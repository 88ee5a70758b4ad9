#include <algorithm>

#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

/// Marks that Markdown or a page around it could act on. Texts come from logs.
std::string escaped(std::string_view text) {
    constexpr std::string_view kMarks = "\\`*_{}[]<>&#|!~$";
    std::string out;
    for (const char c : text) {
        if (c == '<') {
            out += "&lt;";
        } else if (c == '&') {
            out += "&amp;";
        } else {
            if (kMarks.find(c) != std::string_view::npos) out += '\\';
            out += c;
        }
    }
    return out;
}

/// A list or a rule within the list, out of a name or a log at the beginning of a line: "- x",
/// "+ x", "---", "1. x", "2) x".
std::string without_marker(std::string words) {
    const std::size_t digits = words.find_first_not_of("0123456789");
    if (digits == std::string::npos) return words;
    if (digits == 0 && std::string_view("-+=").find(words[0]) != std::string_view::npos)
        words.insert(0, "\\");
    else if (digits > 0 && (words[digits] == '.' || words[digits] == ')'))
        words.insert(digits, "\\");
    return words;
}

}  // namespace

std::string markdown(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
        const std::string words = without_marker(escaped(line.substr(indent)));
        if (words.empty())
            out += '\n';
        else if (indent == 0)
            out += "## " + words + "\n\n";
        else
            out += std::string(indent > 2 ? 2 : 0, ' ') + "- " + words + "\n";
    }
    return out;
}

}  // namespace toporun::launcher
