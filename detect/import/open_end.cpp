#include "detect/import/open_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// Last words of whole captures that are the beginning of no other.
constexpr std::string_view kWholeWords[] = {"forever", "InfiniBand",  "Ethernet",
                                            "Active",  "Unspecified", "ACTIVE",
                                            "DOWN",    "unlimited",   "/dev/shm"};

bool ends_a_line(std::string_view text) {
    if (text.ends_with('\0')) text.remove_suffix(1);  // UTF-16
    return text.empty() || text.ends_with('\n') || text.ends_with('\r');
}

/// Nothing can follow a closing bracket or a word of the list.
bool whole(std::string_view line) {
    const std::vector<std::string_view> parts = words(line);
    if (parts.empty() || std::string_view(")]}>").find(line.back()) != std::string_view::npos)
        return true;
    return std::find(std::begin(kWholeWords), std::end(kWholeWords), parts.back()) !=
           std::end(kWholeWords);
}

}  // namespace

Reading with_open_end(const Lines& lines, Reading reading) {
    if (lines.lines.empty() || ends_a_line(lines.whole)) return reading;
    const PastedLine& last = lines.lines.back();
    const bool understood = !reading.understood.empty() && reading.understood.back();
    if (understood && !whole(last.text))
        reading.machine.notes.push_back(
            fmt::format("line {}, the last, has no line end: it may be cut within '{}'",
                        last.number, printable(words(last.text).back().substr(0, 40))));
    return reading;
}

}  // namespace toporun::detect
