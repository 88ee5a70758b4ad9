#include "launcher/log/reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/descriptors.hpp"

namespace toporun::launcher {
namespace {

/// Cuts a stream of bytes into lines of bounded length.
class LineSplitter {
  public:
    explicit LineSplitter(LogModel& model) : model_(model) {}

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
        if (cut_) model_.add_cut_line();
        if (!line_.empty()) model_.add(detect::nccl_log::parse_line(line_));
        line_.clear();
        cut_ = false;
    }

  private:
    LogModel& model_;
    std::string line_;
    bool cut_ = false;
};

void read_all(LogModel& model, int descriptor, const std::string& file) {
    LineSplitter lines(model);
    std::vector<char> buffer(64 * 1024);
    for (;;) {
        const ssize_t got = read(descriptor, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) model.add_note(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
        if (got <= 0) break;
        lines.add({buffer.data(), static_cast<std::size_t>(got)});
    }
    lines.finish();
}

}  // namespace

void add_log_file(LogModel& model, const std::string& file) {
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
    read_all(model, descriptor.get(), file);
}

LogModel read_log_directory(const std::string& directory) {
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
    for (const std::string& file : files) add_log_file(model, file);
    return model;
}

}  // namespace toporun::launcher
