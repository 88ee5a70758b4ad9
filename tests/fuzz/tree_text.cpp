#include "tree_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace toporun::fuzz {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kLongestName = 100;  ///< of a ustar header
constexpr std::size_t kLongestPrefix = 155;

void put(std::string& header, std::size_t at, std::string_view value, std::size_t room) {
    value = value.substr(0, room);
    header.replace(at, value.size(), value);
}

std::string header(const std::string& path, const std::optional<std::string>& target,
                   std::size_t size) {
    std::string bytes(kBlock, '\0');
    // A longer path has its first directories in a field of their own.
    std::size_t slash = 0;
    if (path.size() > kLongestName) slash = path.find('/', path.size() - kLongestName - 1);
    if (slash == 0 || slash == std::string::npos) {
        put(bytes, 0, path, kLongestName);
    } else {
        put(bytes, 345, std::string_view(path).substr(0, slash), kLongestPrefix);
        put(bytes, 0, std::string_view(path).substr(slash + 1), kLongestName);
    }
    put(bytes, 100, "0000644", 7);
    put(bytes, 124, fmt::format("{:011o}", size), 11);
    bytes[156] = target ? '2' : '0';
    put(bytes, 157, target.value_or(""), kLongestName);
    put(bytes, 257, "ustar", 5);
    put(bytes, 263, "00", 2);
    put(bytes, 148, "        ", 8);
    unsigned sum = 0;
    for (const char c : bytes) sum += static_cast<unsigned char>(c);
    put(bytes, 148, fmt::format("{:06o}", sum), 6);
    bytes[154] = '\0';
    return bytes;
}

std::string unescaped(std::string_view text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        const bool escape = text.substr(i).starts_with("\\x") && i + 4 <= text.size();
        const char* digits = text.data() + i + 2;
        if (escape && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
            bytes += static_cast<char>(value);
            i += 3;
        } else {
            bytes += text[i];
        }
    }
    return bytes;
}

/// A file that is being written.
struct Entry {
    std::string path;
    std::optional<std::string> target;
    std::string content;
};

std::string tar_entry(const Entry& entry) {
    const std::string content = entry.target ? "" : unescaped(entry.content);
    std::string bytes = header(entry.path, entry.target, content.size()) + content;
    bytes.resize((bytes.size() + kBlock - 1) / kBlock * kBlock);
    return bytes;
}

}  // namespace

std::string tar_of_tree_text(std::string_view text) {
    std::string bytes;
    std::optional<Entry> entry;
    for (const std::string& line : split(text, '\n')) {
        if (!line.starts_with('@')) {
            if (entry) entry->content += line + "\n";
            continue;
        }
        if (entry) bytes += tar_entry(*entry);
        entry = Entry{line.substr(1), std::nullopt, ""};
        const std::size_t arrow = line.find(" -> ");
        if (arrow == std::string::npos) continue;
        entry->path = line.substr(1, arrow - 1);
        entry->target = line.substr(arrow + 4);
    }
    if (entry) bytes += tar_entry(*entry);
    return bytes + std::string(2 * kBlock, '\0');
}

}  // namespace toporun::fuzz
