#include "detect/mounts.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// mountinfo writes blanks, tabs, line ends and backslashes as \ooo.
std::string unescape(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool octal = text[i] == '\\' && i + 3 < text.size() &&
                           std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                       text.begin() + static_cast<std::ptrdiff_t>(i) + 4,
                                       [](char c) { return c >= '0' && c <= '7'; });
        if (!octal) {
            out += text[i];
            continue;
        }
        const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
        out += static_cast<char>(code & 0xff);
        i += 3;
    }
    return out;
}

}  // namespace

std::vector<Mount> read_mounts(const Files& files) {
    std::vector<Mount> mounts;
    for (const std::string& line : split(files.read("/proc/self/mountinfo").value_or(""), '\n')) {
        // 36 35 98:0 /root /point rw,noatime shared:1 - type source super-options
        const std::vector<std::string> words = split(line, ' ');
        const auto dash = std::find(words.begin(), words.end(), "-");
        if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
        mounts.push_back({unescape(words[3]), unescape(words[4]), dash[1], dash[3]});
    }
    return mounts;
}

}  // namespace toporun::detect
