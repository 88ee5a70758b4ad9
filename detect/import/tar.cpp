#include "detect/import/tar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

/// Layout of the header: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar
/// Format".
namespace toporun::detect {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kMostTarEntries = 500'000;
constexpr std::size_t kMostTarPath = 4096;
constexpr std::size_t kMostTarDepth = 64;
constexpr std::size_t kMostTarNotes = 20;

struct TarField {
    std::size_t offset;
    std::size_t size;
};
constexpr TarField kTarName{0, 100}, kTarSize{124, 12}, kTarChecksum{148, 8},
    kTarLinkName{157, 100}, kTarMagic{257, 6}, kTarPrefix{345, 155};
constexpr std::size_t kTarType = 156;

std::string_view tar_field(std::string_view block, TarField at) {
    return block.substr(at.offset, at.size);
}

/// Up to the first NUL.
std::string tar_text(std::string_view block, TarField at) {
    const std::string_view bytes = tar_field(block, at);
    return std::string(bytes.substr(0, bytes.find('\0')));
}

/// Octal digits between blanks and NULs, or GNU's base 256. Nothing for anything else.
std::optional<std::uint64_t> tar_number(std::string_view block, TarField at) {
    std::string_view bytes = tar_field(block, at);
    std::uint64_t value = 0;
    if ((static_cast<unsigned char>(bytes.front()) & 0x80u) != 0) {
        if (static_cast<unsigned char>(bytes.front()) != 0x80) return std::nullopt;  // negative
        for (const char byte : bytes.substr(1)) {
            if (value >> 55 != 0) return std::nullopt;
            value = value << 8 | static_cast<unsigned char>(byte);
        }
        return value;
    }
    const std::size_t first = bytes.find_first_not_of(" ");
    if (first == std::string_view::npos) return 0;
    bytes.remove_prefix(first);
    const std::size_t end = std::min(bytes.find_first_not_of("01234567"), bytes.size());
    for (const char digit : bytes.substr(0, end))
        value = value << 3 | static_cast<unsigned>(digit - '0');
    if (bytes.find_first_not_of(std::string_view(" \0", 2), end) != std::string_view::npos)
        return std::nullopt;
    return value;
}

bool checksum_fits(std::string_view block) {
    const auto stated = tar_number(block, kTarChecksum);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kTarBlock; ++i) {
        const bool own = i >= kTarChecksum.offset && i < kTarChecksum.offset + kTarChecksum.size;
        sum += own ? static_cast<unsigned char>(' ') : static_cast<unsigned char>(block[i]);
    }
    return stated == sum;
}

bool all_zero(std::string_view bytes) {
    return bytes.find_first_not_of('\0') == std::string_view::npos;
}

/// What an extended header says of the next entry.
struct TarExtension {
    std::optional<std::string> path;
    std::optional<std::string> link;
    std::optional<std::uint64_t> size;
    bool sparse = false;
};

class TarReader {
  public:
    TarReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

    TarContents run() {
        while (at_ + kTarBlock <= bytes_.size()) {
            const std::string_view block = bytes_.substr(at_, kTarBlock);
            if (all_zero(block)) return finish();
            if (!checksum_fits(block))
                fail(at_ == 0 ? "not a tar archive" : "no header of a tar entry",
                     "copy the archive again, in binary form");
            if (!read_entry(block)) break;
        }
        if (at_ < bytes_.size() || contents_.entries.empty() || !ended_whole_)
            note(fmt::format("the archive is cut off, {} entries were read",
                             contents_.entries.size()));
        return finish();
    }

  private:
    [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
        throw Error(what, fmt::format("{}: byte {}", name_, at_), hint);
    }

    void note(const std::string& text) {
        if (contents_.notes.size() < kMostTarNotes)
            contents_.notes.push_back(printable(name_) + ": " + text);
    }

    TarContents finish() { return std::move(contents_); }

    /// False when the entry's data are cut off.
    bool read_entry(std::string_view block) {
        const char type = block[kTarType];
        const bool extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
        auto size = tar_number(block, kTarSize);
        if (!extension && next_.size) size = next_.size;
        // Links and directories have no data, whatever size they state.
        if (!extension && std::string_view("123456").find(type) != std::string_view::npos) size = 0;
        if (!size) fail("the size of an entry is no number");
        const std::size_t start = at_ + kTarBlock;
        const bool whole = *size <= bytes_.size() - start;
        ended_whole_ = whole;
        if (!whole) return false;
        const std::string_view data = bytes_.substr(start, static_cast<std::size_t>(*size));
        if (extension)
            extend(type, data);
        else
            add(block, type, data);
        at_ =
            std::min(start + (data.size() + kTarBlock - 1) / kTarBlock * kTarBlock, bytes_.size());
        return true;
    }

    void extend(char type, std::string_view data) {
        if (type == 'g') return;  // of all entries: comments and times
        if (data.size() > std::size_t{1} << 20) fail("an extended header is larger than 1 MiB");
        const std::string text(data.substr(0, data.find('\0')));
        if (type == 'L')
            next_.path = text;
        else if (type == 'K')
            next_.link = text;
        else
            read_pax(data);
    }

    /// Records "LENGTH KEY=VALUE\n".
    void read_pax(std::string_view data) {
        while (!data.empty() && !all_zero(data)) {
            const std::size_t blank = data.find(' ');
            const auto length = to_integer(data.substr(0, std::min(blank, data.size())));
            if (blank == std::string_view::npos || blank > 8 || !length || *length < 0 ||
                static_cast<std::size_t>(*length) > data.size() ||
                static_cast<std::size_t>(*length) < blank + 3)
                fail("damaged extended header");
            const auto size = static_cast<std::size_t>(*length);
            const std::string_view record = data.substr(blank + 1, size - blank - 2);
            data.remove_prefix(size);
            const std::size_t equals = record.find('=');
            if (equals == std::string_view::npos) fail("damaged extended header");
            const std::string_view key = record.substr(0, equals);
            const std::string_view value = record.substr(equals + 1);
            if (key == "path") next_.path = std::string(value);
            if (key == "linkpath") next_.link = std::string(value);
            if (key.starts_with("GNU.sparse.")) next_.sparse = true;
            if (key == "size") {
                const auto number = to_integer(value);
                if (!number || *number < 0) fail("damaged extended header");
                next_.size = static_cast<std::uint64_t>(*number);
            }
        }
    }

    void add(std::string_view block, char type, std::string_view data) {
        const TarExtension extension = std::exchange(next_, {});
        std::string written = extension.path.value_or(tar_text(block, kTarName));
        if (!extension.path && tar_field(block, kTarMagic) == std::string_view("ustar\0", 6)) {
            const std::string prefix = tar_text(block, kTarPrefix);
            if (!prefix.empty()) written = prefix + "/" + written;
        }
        TreeEntry entry;
        entry.path = clean_path(written);
        entry.data = data;
        const std::string link = extension.link.value_or(tar_text(block, kTarLinkName));
        switch (type) {
            case '1': {
                const auto found = files_.find(clean_path(link));
                if (found == files_.end()) return;  // of a file that was left out
                entry.data = found->second;
                break;
            }
            case '2':
                if (link.empty() || link.size() >= kMostTarPath) return;
                entry.kind = EntryKind::link;
                entry.target = link;
                break;
            case '3':
            case '4':
                entry.kind = EntryKind::device;
                break;
            case '5':
                entry.kind = EntryKind::directory;
                break;
            case '6':
                return;
            case 'S':
                note(fmt::format("'{}' is sparse, it is passed over", printable(entry.path)));
                return;
            case 'M':
            case 'V':
            case 'N':
                note("an entry of a volume set is passed over");
                return;
            default:
                // Before POSIX a slash at the end made a directory.
                if (written.ends_with('/')) entry.kind = EntryKind::directory;
        }
        if (extension.sparse) {
            note(fmt::format("'{}' is sparse, it is passed over", printable(entry.path)));
            return;
        }
        if (entry.path.empty()) return;  // "./"
        if (contents_.entries.size() == kMostTarEntries)
            fail("more than 500000 entries", "pack only /sys/bus, /sys/class, /sys/devices");
        if (entry.kind == EntryKind::file) files_[entry.path] = entry.data;
        contents_.entries.push_back(std::move(entry));
    }

    /// Relative and without "."; a ".." leads out of the archive, or hides that it does.
    std::string clean_path(const std::string& written) const {
        if (written.size() >= kMostTarPath) fail("a path is longer than 4095 bytes");
        if (written.find('\0') != std::string::npos) fail("a path holds a NUL");
        std::string path;
        std::size_t depth = 0;
        for (const std::string& part : split(written, '/')) {
            if (part.empty() || part == ".") continue;
            if (part == "..")
                fail(fmt::format("'{}' leads out of the archive", printable(written)),
                     "this archive is not to be trusted");
            if (part.size() > 255 || ++depth > kMostTarDepth)
                fail(fmt::format("the path of an entry is too deep or too long"));
            path += (path.empty() ? "" : "/") + part;
        }
        return path;
    }

    std::string_view bytes_;
    std::string name_;
    std::size_t at_ = 0;
    bool ended_whole_ = true;
    TarExtension next_;
    std::unordered_map<std::string, std::string_view> files_;  ///< for hard links
    TarContents contents_;
};

}  // namespace

TarContents read_tar(std::string_view bytes, const std::string& name) {
    return TarReader(bytes, name).run();
}

bool is_plain_tar(std::string_view bytes) {
    return bytes.size() >= kTarBlock && !all_zero(bytes.substr(0, kTarBlock)) &&
           checksum_fits(bytes.substr(0, kTarBlock));
}

}  // namespace toporun::detect
