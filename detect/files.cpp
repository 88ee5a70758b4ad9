#include "detect/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostNames = 65536;

struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
};

std::optional<std::string> canonical(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> found(realpath(path.c_str(), nullptr),
                                                            &std::free);
    if (found == nullptr) return std::nullopt;
    return std::string(found.get());
}

std::optional<std::string> read_regular(const std::string& path, std::uint64_t offset,
                                        std::size_t most_bytes) {
    // Non-blocking: a FIFO in place of a file must not hold the launch up.
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    if (offset > static_cast<std::uint64_t>(INT64_MAX)) return std::string();
    std::string text;
    while (text.size() < most_bytes) {
        const std::size_t before = text.size();
        text.resize(std::min(most_bytes, std::max(before * 2, std::size_t{4096})));
        const ssize_t got = pread(file.get(), text.data() + before, text.size() - before,
                                  static_cast<off_t>(offset + before));
        text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (got < 0 && before == 0) return std::nullopt;  // sysfs: the attribute has no value now
        if (got <= 0) break;
    }
    return text;
}

}  // namespace

Files::Files(std::string root) : root_(std::move(root)) {
    while (root_.ends_with('/')) root_.pop_back();
    if (!root_.empty()) real_root_ = canonical(root_).value_or(root_);
}

std::optional<std::string> Files::host_path(const std::string& path) const {
    if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos)
        return std::nullopt;
    if (real()) return path;
    auto resolved = canonical(root_ + path);
    if (!resolved || (*resolved != real_root_ && !resolved->starts_with(real_root_ + "/")))
        return std::nullopt;
    return resolved;
}

std::optional<std::string> Files::read(const std::string& path, std::size_t most_bytes) const {
    return read_at(path, 0, most_bytes);
}

std::optional<std::string> Files::read_at(const std::string& path, std::uint64_t offset,
                                          std::size_t size) const {
    const auto host = host_path(path);
    if (!host) return std::nullopt;
    return read_regular(*host, offset, size);
}

std::optional<std::string> Files::line(const std::string& path) const {
    const auto text = read(path, 4096);
    if (!text) return std::nullopt;
    const std::string_view first = trim(std::string_view(*text).substr(0, text->find('\n')));
    if (first.empty()) return std::nullopt;
    return printable(first);
}

std::optional<long long> Files::integer(const std::string& path) const {
    const auto text = line(path);
    return text ? to_integer(*text) : std::nullopt;
}

std::optional<std::uint64_t> Files::unsigned_integer(const std::string& path) const {
    const auto text = line(path);
    if (!text) return std::nullopt;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
    return value;
}

std::optional<unsigned long> Files::hex(const std::string& path) const {
    const auto text = line(path);
    if (!text) return std::nullopt;
    const std::string_view digits = std::string_view(*text).substr(text->starts_with("0x") ? 2 : 0);
    unsigned long value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
}

std::vector<std::string> Files::list(const std::string& directory) const {
    std::vector<std::string> names;
    const auto host = host_path(directory);
    if (!host) return names;
    const std::unique_ptr<DIR, CloseDirectory> open_directory(opendir(host->c_str()));
    if (open_directory == nullptr) return names;
    while (const dirent* entry = readdir(open_directory.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
        if (names.size() == kMostNames) break;
    }
    std::sort(names.begin(), names.end());
    return names;
}

bool Files::exists(const std::string& path) const {
    const auto host = host_path(path);
    return host && access(host->c_str(), F_OK) == 0;
}

std::optional<std::string> Files::real_path(const std::string& path) const {
    const auto host = host_path(path);
    if (!host) return std::nullopt;
    if (!real()) return host->substr(real_root_.size());
    return canonical(*host);
}

std::optional<std::string> value_of(std::string_view text, std::string_view key) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view current = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t colon = current.find(':');
        if (colon != std::string_view::npos && trim(current.substr(0, colon)) == key)
            return printable(trim(current.substr(colon + 1)));
    }
    return std::nullopt;
}

}  // namespace toporun::detect
