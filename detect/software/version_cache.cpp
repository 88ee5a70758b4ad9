#include "detect/software/version_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptors.hpp"
#include "base/text.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {
namespace {

constexpr const char* kName = "nccl-versions";
constexpr std::string_view kFirstLine = "toporun nccl-versions 1";
constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kMostCacheBytes = 65536;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

std::int64_t nanoseconds(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool is_own(const struct stat& status) {
    return status.st_uid == geteuid() && (status.st_mode & kOthersMayWrite) == 0;
}

Descriptor open_directory(const std::string& path) {
    Descriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!directory || fstat(directory.get(), &status) != 0 || !is_own(status)) return Descriptor();
    return directory;
}

/// With its last directory above (~/.cache on a fresh account).
Descriptor make_directory(const std::string& path) {
    if (mkdir(path.c_str(), 0700) != 0 && errno == ENOENT) {
        mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
        mkdir(path.c_str(), 0700);
    }
    return open_directory(path);
}

std::string read_own(const Descriptor& directory) {
    const Descriptor file(
        openat(directory.get(), kName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !is_own(status))
        return {};
    std::string text(kMostCacheBytes, '\0');
    const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
}

bool write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = write(file, text.data(), text.size());
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(done));
    }
    return true;
}

/// Whole under a name of its own, then renamed: a reader sees the old text or the new one.
void write_own(const Descriptor& directory, const std::string& text) {
    const std::string temporary = fmt::format(".{}.{}", kName, getpid());
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor file(openat(directory.get(), temporary.c_str(), flags, 0600));
    if (!file && errno == EEXIST) {  // of a process of this number that died in between
        unlinkat(directory.get(), temporary.c_str(), 0);
        file.reset(openat(directory.get(), temporary.c_str(), flags, 0600));
    }
    if (!file) return;
    if (!write_all(file.get(), text) ||
        renameat(directory.get(), temporary.c_str(), directory.get(), kName) != 0)
        unlinkat(directory.get(), temporary.c_str(), 0);
}

/// "2.28.9", or "" for none.
bool is_version(const std::string& text) {
    return text.empty() || (text.find_first_not_of("0123456789.") == std::string::npos &&
                            nccl_version_code(text).has_value());
}

template <class Integer>
bool read_number(const std::string& text, Integer& value) {
    const auto number = to_integer(text);
    if (!number || *number < 0) return false;
    value = static_cast<Integer>(*number);
    return true;
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return FileIdentity{path, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                        nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

VersionCache::VersionCache(std::string directory) : directory_(std::move(directory)) {
    if (!directory_.starts_with('/')) directory_.clear();
}

void VersionCache::load() {
    if (loaded_) return;
    loaded_ = true;
    if (directory_.empty()) return;
    const Descriptor directory = open_directory(directory_);
    if (!directory) return;
    const std::vector<std::string> lines = split(read_own(directory), '\n');
    if (lines.front() != kFirstLine) return;
    // The last part has no line end, or was cut.
    for (std::size_t i = 1; i + 1 < lines.size() && entries_.size() < kMostEntries; ++i) {
        const std::vector<std::string> words = split(lines[i], '\t');
        Entry entry;
        if (words.size() == 6 && is_version(words[0]) && read_number(words[1], entry.file.inode) &&
            read_number(words[2], entry.file.size_bytes) &&
            read_number(words[3], entry.file.modified_ns) &&
            read_number(words[4], entry.file.changed_ns)) {
            entry.version = words[0];
            entry.file.path = words[5];
            entries_.push_back(std::move(entry));
        }
    }
}

std::optional<std::string> VersionCache::find(const FileIdentity& file) {
    load();
    for (const Entry& entry : entries_)
        if (entry.file == file) return entry.version;
    return std::nullopt;
}

void VersionCache::keep(const FileIdentity& file, const std::string& version) {
    const bool one_line = file.path.find_first_of("\t\n") == std::string::npos;
    if (directory_.empty() || !one_line || !is_version(version) || identity_of(file.path) != file)
        return;
    load();
    std::erase_if(entries_, [&](const Entry& entry) { return entry.file.path == file.path; });
    entries_.insert(entries_.begin(), {file, version});
    if (entries_.size() > kMostEntries) entries_.resize(kMostEntries);
    std::string text = fmt::format("{}\n", kFirstLine);
    for (const auto& [identity, known] : entries_) {
        const std::string line =
            fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", known, identity.inode, identity.size_bytes,
                        identity.modified_ns, identity.changed_ns, identity.path);
        if (text.size() + line.size() <= kMostCacheBytes) text += line;
    }
    if (!file_size_allowed(text.size())) return;
    if (const Descriptor directory = make_directory(directory_)) write_own(directory, text);
}

}  // namespace toporun::detect
