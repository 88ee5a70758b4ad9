#include "launcher/failures/labels.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.hpp"

namespace toporun::launcher::failures {
namespace {

constexpr std::size_t kLongestLabel = 160;
constexpr std::size_t kMostLabels = 16;

bool is_number(char c) {
    return c >= '0' && c <= '9';
}

std::string shape_of(std::string_view text) {
    std::string shape;
    for (const char c : text)
        if (!is_number(c))
            shape += c;
        else if (!shape.ends_with('0'))
            shape += '0';
    return shape;
}

/// Where the text of that shape at the beginning of `line` ends, 0 for none.
std::size_t end_of_shape(std::string_view shape, std::string_view line) {
    std::size_t at = 0;
    for (const char c : shape) {
        if (at >= line.size()) return 0;
        if (c != '0') {
            if (line[at++] != c) return 0;
            continue;
        }
        if (!is_number(line[at])) return 0;
        while (at < line.size() && is_number(line[at])) ++at;
    }
    return at;
}

/// A time of day, `05:03:41` or `07:42:11.527Z`: it differs from line to line.
bool is_time(std::string_view word) {
    for (std::size_t i = 1; i + 1 < word.size(); ++i)
        if (word[i] == ':' && is_number(word[i - 1]) && is_number(word[i + 1])) return true;
    return false;
}

std::optional<int> number_behind(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == text.npos) return std::nullopt;
    std::size_t end = at + mark.size();
    while (end < text.size() && is_number(text[end])) ++end;
    const auto number = to_integer(text.substr(at + mark.size(), end - at - mark.size()));
    return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

}  // namespace

void Labels::clear() {
    shapes_.clear();
    pending_.clear();
}

std::size_t Labels::end_of_label(std::string_view line) const {
    for (const std::string& shape : shapes_)
        if (const std::size_t end = end_of_shape(shape, line); end > 0) return end;
    return 0;
}

void Labels::suspect(std::string_view label) {
    if (label.size() <= kLongestLabel && shapes_.size() < kMostLabels) pending_ = shape_of(label);
}

Labels::Answer Labels::confirm(std::string_view line) {
    if (pending_.empty()) return Answer::nothing;
    const std::string shape = std::exchange(pending_, {});
    constexpr std::string_view kFrame = "  File \"";
    if (line.starts_with(kFrame)) return Answer::bare;
    const std::size_t end = end_of_shape(shape, line);
    if (end == 0 || !line.substr(end).starts_with(kFrame)) return Answer::nothing;
    shapes_.push_back(shape);
    return Answer::labelled;
}

void Labels::tell(std::string_view label, Origin& origin) {
    std::vector<std::string> words;
    for (const std::string& word : split(label, ' '))
        if (!word.empty() && word != "|" && !is_time(word)) words.push_back(word);
    origin.label = join(words, " ");
    for (const char* mark : {"rank:", "rank=", "rank "})
        if (!origin.rank) origin.rank = number_behind(label, mark);
    if (const std::size_t at = label.find("]<std"); at != label.npos && !origin.rank)
        if (const std::size_t open = label.rfind('[', at); open != label.npos)
            if (const auto rank = to_integer(label.substr(open + 1, at - open - 1)))
                origin.rank = static_cast<int>(*rank);
    if (words.size() != 1 || !origin.host.empty()) return;
    std::string_view host = words.front();
    if (host.ends_with(':')) host.remove_suffix(1);
    const bool plain = std::all_of(host.begin(), host.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '.';
    });
    if (plain && host != "stderr" && host != "stdout") origin.host = host;
}

}  // namespace toporun::launcher::failures
