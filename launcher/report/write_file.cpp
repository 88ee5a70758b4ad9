#include "launcher/report/write_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"

namespace toporun::launcher {
namespace {

std::string hint_for(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return "free space there, or name another directory with --run-dir";
        case EROFS:
        case EACCES:
        case EPERM:
            return "name a directory that you may write to with --run-dir";
        default:
            return {};
    }
}

[[noreturn]] void fail(const std::string& path, int error) {
    throw Error(fmt::format("cannot write {}: {}", path, std::strerror(error)), {},
                hint_for(error));
}

/// A file under a name of its own beside its final place; removed unless it was put there.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& path) : path_(path) {
        static std::atomic<unsigned> next{0};
        for (int attempt = 0; attempt < 100; ++attempt) {
            name_ = fmt::format("{}.{}.{}.tmp", path, getpid(), next++);
            descriptor_ =
                open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
            if (descriptor_ >= 0) return;
            if (errno != EEXIST) break;  // left behind by a process with the same id
        }
        name_.clear();
        fail(path_, errno);
    }
    ~TemporaryFile() {
        if (descriptor_ >= 0) close(descriptor_);
        if (!name_.empty()) unlink(name_.c_str());
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    void write_all(std::string_view text) {
        while (!text.empty()) {
            const ssize_t written = write(descriptor_, text.data(), text.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) fail(path_, errno);
            text.remove_prefix(static_cast<std::size_t>(written));
        }
    }
    void put_in_place() {
        finish();
        if (std::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, errno);
        name_.clear();
    }
    /// False when something is there.
    bool put_where_nothing_is() {
        finish();
        if (link(name_.c_str(), path_.c_str()) == 0) return true;
        if (errno == EEXIST) return false;
        // No hard links there: some cluster file systems, FAT.
        if (access(path_.c_str(), F_OK) == 0) return false;
        if (std::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, errno);
        name_.clear();
        return true;
    }

  private:
    void finish() {
        const int closed = close(descriptor_);  // NFS reports a full disk here
        descriptor_ = -1;
        if (closed != 0) fail(path_, errno);
    }

    std::string path_;
    std::string name_;
    int descriptor_ = -1;
};

}  // namespace

void write_file(const std::string& path, std::string_view text) {
    TemporaryFile file(path);
    file.write_all(text);
    file.put_in_place();
}

bool write_new_file(const std::string& path, std::string_view text) {
    TemporaryFile file(path);
    file.write_all(text);
    return file.put_where_nothing_is();
}

}  // namespace toporun::launcher
