#include "detect/import/joined_text.hpp"

#include <algorithm>
#include <string_view>

namespace toporun::detect {
namespace {

constexpr std::string_view kBlanks = " \t";

/// Terminals are 80 columns wide at least; a shorter line was not broken by its length.
constexpr std::size_t kShortestBroken = 60;

/// Where in the XML the text ends that it has seen.
class XmlPosition {
  public:
    void advance(std::string_view piece) {
        for (const char c : piece) step(c);
    }
    bool in_tag() const { return place_ == Place::tag || place_ == Place::value; }
    bool in_value() const { return place_ == Place::value; }

  private:
    enum class Place { content, tag, value, comment };

    void step(char c) {
        recent_ = (recent_ + c).substr(recent_.size() < 4 ? 0 : 1);
        switch (place_) {
            case Place::content:
                if (c == '<') place_ = Place::tag;
                break;
            case Place::tag:
                if (recent_ == "<!--") {
                    place_ = Place::comment;
                } else if (c == '"' || c == '\'') {
                    quote_ = c;
                    place_ = Place::value;
                } else if (c == '>') {
                    place_ = Place::content;
                }
                break;
            case Place::value:
                // A value has no "<": its end was lost.
                if (c == quote_ || c == '<') place_ = Place::tag;
                break;
            case Place::comment:
                if (recent_.ends_with("-->")) place_ = Place::content;
                break;
        }
    }

    Place place_ = Place::content;
    char quote_ = '"';
    std::string recent_;  ///< the last four characters
};

}  // namespace

JoinedText::JoinedText(const Lines& lines) : lines_(lines) {
    std::size_t longest = kShortestBroken;
    for (const PastedLine& line : lines.lines) longest = std::max(longest, line.text.size());
    XmlPosition position;
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string& line = lines.lines[i].text;
        starts_.push_back(text_.size());
        text_ += line;
        const std::size_t top = line.find("<system");
        if (top != std::string::npos) position = {};  // whatever stands in the prose before
        position.advance(std::string_view(line).substr(top == std::string::npos ? 0 : top));
        const std::string_view next =
            i + 1 < lines.lines.size() ? std::string_view(lines.lines[i + 1].text) : "";
        // Between attributes a line end stands for the blank between them; a name is only broken by
        // a length that no line exceeds.
        const bool between = line.empty() || next.empty() || line.ends_with('"') ||
                             line.ends_with('\'') ||
                             kBlanks.find(line.back()) != std::string_view::npos ||
                             kBlanks.find(next.front()) != std::string_view::npos;
        const bool broken =
            position.in_value() || (position.in_tag() && !between && line.size() >= longest);
        if (broken && !next.empty())
            ++mended_;
        else
            text_ += '\n';
    }
}

std::size_t JoinedText::line_of(std::size_t byte) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), byte);
    return after == starts_.begin() ? 0 : static_cast<std::size_t>(after - starts_.begin()) - 1;
}

std::string JoinedText::place(std::size_t byte) const {
    if (lines_.lines.empty()) return lines_.file;
    const std::size_t line = line_of(byte);
    return lines_.error(lines_.lines[line], byte - starts_[line], "").where();
}

}  // namespace toporun::detect
