#include "launcher/process/held_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "launcher/process/run_directory.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kHeldFile = "observer";

}  // namespace

Descriptor hold_directory(const std::string& directory) {
    if (directory.empty()) return {};
    // Locked before it has the name by which others find it.
    const std::string path = directory + "/" + kHeldFile;
    const std::string unnamed = path + "-" + random_letters();
    Descriptor file(
        ::open(unnamed.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return file;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
        ::rename(unnamed.c_str(), path.c_str()) != 0) {
        ::unlink(unnamed.c_str());
        file.reset();
    }
    return file;
}

void remove_abandoned(const std::string& own, std::string_view start) {
    const std::filesystem::path parent = std::filesystem::path(own).parent_path();
    std::error_code error;
    for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string path = entry->path().string();
        if (path == own || !entry->path().filename().string().starts_with(start)) continue;
        struct stat info {};
        if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
            info.st_uid != ::geteuid())
            continue;
        const std::string held = path + "/" + kHeldFile;
        const Descriptor file(::open(held.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) remove_private_directory(path);
    }
}

}  // namespace toporun::launcher
