#include "launcher/process/task_meeting.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "launcher/process/read_bounded.hpp"
#include "launcher/report/write_file.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostReportBytes = 16u << 20;
constexpr int kLockTries = 100;
constexpr int kLockPause_ms = 10;

/// In the first directory that every task of the node finds by the same rule.
std::string meeting_path(const JobPlace& place, const std::string& letters) {
    std::string parent = "/tmp";
    for (const char* name : {"TMPDIR", "SLURM_TMPDIR"})
        if (const char* value = ::secure_getenv(name); value != nullptr && *value == '/')
            parent = value;
    std::string job = place.job;
    std::replace(job.begin(), job.end(), '/', '_');
    return fmt::format("{}/toporun-{}-{}-{}-{}", parent, ::geteuid(), job, place.node, letters);
}

std::string report_name(int local_task, bool ended) {
    return fmt::format("{}-{}", ended ? "task" : "early", local_task);
}

/// A directory of this user that nobody else may enter, and no link.
bool is_ours(int directory) {
    struct stat info {};
    return ::fstat(directory, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 077) == 0;
}

int open_directory(const std::string& path) {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool lock(int directory) {
    for (int i = 0; i < kLockTries; ++i) {
        if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
        ::poll(nullptr, 0, kLockPause_ms);
    }
    return false;
}

/// Still the directory of that name: the last task removes it.
bool is_there(int directory, const std::string& path) {
    struct stat held {
    }, named{};
    return ::fstat(directory, &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

}  // namespace

TaskMeeting::TaskMeeting(const JobPlace& place, const std::string& letters)
    : place_(place), path_(meeting_path(place, letters)) {}

bool TaskMeeting::enter() {
    for (int attempt = 0; attempt < 3; ++attempt) {
        ::mkdir(path_.c_str(), 0700);
        directory_.reset(open_directory(path_));
        if (!directory_ || !is_ours(directory_.get()) || !lock(directory_.get())) return false;
        if (is_there(directory_.get(), path_)) return true;
    }
    return false;
}

std::vector<std::string> TaskMeeting::join(const std::string& report, bool ended) {
    if (!enter()) return {report};
    std::vector<std::string> reports;
    int all_ended = 0;
    try {
        write_file(path_ + "/" + report_name(place_.local_task, ended), report);
        for (int task = 0; task < place_.local_tasks; ++task) {
            const auto read = [&](bool last) {
                return read_bounded(path_ + "/" + report_name(task, last), kMostReportBytes);
            };
            std::string text = read(true);
            if (!text.empty()) ++all_ended;
            if (text.empty()) text = read(false);
            if (!text.empty()) reports.push_back(std::move(text));
        }
    } catch (const Error&) {
        return {report};
    }
    alone_ = false;
    complete_ = all_ended >= place_.local_tasks;
    if (complete_) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    return reports;
}

bool TaskMeeting::has_ended(const JobPlace& place, const std::string& letters) {
    const std::string path = meeting_path(place, letters);
    const Descriptor directory(open_directory(path));
    struct stat info {};
    return directory && is_ours(directory.get()) &&
           ::fstatat(directory.get(), report_name(place.local_task, true).c_str(), &info,
                     AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace toporun::launcher
