#include "launcher/log/reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/descriptors.hpp"
#include "base/text.hpp"
#include "launcher/log/footprint.hpp"
#include "launcher/log/stream.hpp"

namespace toporun::launcher {
namespace {

/// Cuts a stream of bytes into lines of bounded length.
class LineSplitter {
  public:
    explicit LineSplitter(LogModel& model) : stream_(model) {}

    void add(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            const std::string_view part = bytes.substr(0, end);
            const std::size_t room = kLongestLogLine - line_.size();
            line_.append(part.substr(0, room));
            cut_ |= part.size() > room;
            if (end == std::string_view::npos) return;
            finish();
            bytes.remove_prefix(end + 1);
        }
    }
    /// The last line may have no line end: its writer was killed.
    void finish() {
        stream_.add(line_, cut_);
        line_.clear();
        cut_ = false;
    }

  private:
    LogStream stream_;
    std::string line_;
    bool cut_ = false;
};

/// Reads `limit` bytes at most and returns how many there were. A line that the limit cuts is left
/// out: half a number is another number.
std::size_t read_some(LogModel& model, int descriptor, const std::string& file, std::size_t limit) {
    LineSplitter lines(model);
    std::vector<char> buffer(64 * 1024);
    std::size_t all = 0;
    while (all < limit) {
        const ssize_t got = read(descriptor, buffer.data(), std::min(buffer.size(), limit - all));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) model.add_note(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
        if (got <= 0) break;
        lines.add({buffer.data(), static_cast<std::size_t>(got)});
        all += static_cast<std::size_t>(got);
    }
    if (all < limit) lines.finish();
    return all;
}

/// A pattern of NCCL's as one of glob(3).
std::string glob_pattern(const std::string& pattern) {
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        if (next == 'h' || next == 'p') out += '*';
        if (next == '%') out += '%';
        if (next == 'h' || next == 'p' || next == '%') {
            ++i;
            continue;
        }
        if (std::string_view("*?[]\\").find(pattern[i]) != std::string_view::npos) out += '\\';
        out += pattern[i];
    }
    return out;
}

std::vector<std::string> matching_files(const std::string& pattern) {
    glob_t found{};
    std::vector<std::string> files;
    if (glob(glob_pattern(pattern).c_str(), 0, nullptr, &found) == 0)
        files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    return files;
}

bool is_own_log(const struct stat& status, std::time_t since) {
    return S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_mtime >= since;
}

std::vector<std::uint64_t> sizes_of(const std::vector<std::string>& files) {
    std::vector<std::uint64_t> sizes;
    for (const std::string& file : files) {
        std::error_code error;
        const std::uintmax_t size = std::filesystem::file_size(file, error);
        sizes.push_back(error ? 0 : size);
    }
    return sizes;
}

}  // namespace

void add_log_file(LogModel& model, const std::string& file, std::uint64_t most_bytes) {
    // Non-blocking: opening a FIFO in the place of a log must not hang.
    const Descriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!descriptor || fstat(descriptor.get(), &status) != 0) {
        model.add_note(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
        return;
    }
    if (!S_ISREG(status.st_mode)) {
        model.add_note(fmt::format("cannot read {}: not a regular file", file));
        return;
    }
    read_some(model, descriptor.get(), file, most_bytes);
}

LogModel read_log_directory(const std::string& directory, std::uint64_t most_bytes) {
    LogModel model;
    std::vector<std::string> files;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with("nccl.") && name.ends_with(".log")) files.push_back(entry->path());
    }
    if (error) model.add_note(fmt::format("cannot read {}: {}", directory, error.message()));
    std::sort(files.begin(), files.end());
    const std::vector<std::uint64_t> sizes = sizes_of(files);
    const std::uint64_t cap = log_cap(sizes, most_bytes);
    const auto longer =
        std::count_if(sizes.begin(), sizes.end(), [cap](std::uint64_t size) { return size > cap; });
    if (longer > 0)
        model.add_note(
            fmt::format("{} of {} NCCL logs are longer than {}: only their beginning was read",
                        longer, sizes.size(), format_bytes(cap)));
    for (const std::string& file : files) add_log_file(model, file, cap);
    return model;
}

LogModel read_log_pattern(const std::string& pattern, std::time_t since) {
    LogModel model;
    std::size_t files = 0, room = kMostFollowedBytes;
    for (const std::string& file : matching_files(pattern)) {
        const Descriptor descriptor(
            open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
        struct stat status {};
        if (!descriptor || fstat(descriptor.get(), &status) != 0) continue;
        if (!is_own_log(status, since)) continue;
        if (++files > kMostFollowedFiles || room == 0) {
            model.add_note(fmt::format(
                "NCCL_DEBUG_FILE={} names more than is read, the rest is left out", pattern));
            break;
        }
        room -= read_some(model, descriptor.get(), file, room);
    }
    return model;
}

}  // namespace toporun::launcher
