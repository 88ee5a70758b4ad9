#include "launcher/process/task_meeting.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/error.hpp"
#include "launcher/process/read_bounded.hpp"
#include "launcher/report/write_file.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostReportBytes = 16u << 20;
constexpr std::chrono::milliseconds kTurnPause{10};
/// Tasks that never came, or were killed, leave the place behind: no run of that age goes on there.
constexpr std::time_t kOldSeconds = 14 * 24 * 3600;

std::string start_of_names() {
    return fmt::format("toporun-{}-", ::geteuid());
}

/// Removes places beside `own` in which nothing has changed for long.
void remove_old(const std::filesystem::path& own) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(own.parent_path(), error), end;
         !error && entry != end; entry.increment(error)) {
        const std::filesystem::path& path = entry->path();
        struct stat info {};
        if (path == own || !path.filename().string().starts_with(start_of_names()) ||
            ::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
            info.st_uid != ::geteuid() || ::time(nullptr) - info.st_mtime < kOldSeconds)
            continue;
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
}

/// In the first directory that every task of the node finds by the same rule.
std::string meeting_path(const JobPlace& place, const std::string& run_directory,
                         const std::string& letters) {
    std::string parent = "/tmp";
    for (const char* name : {"TMPDIR", "SLURM_TMPDIR"})
        if (const char* value = ::secure_getenv(name); value != nullptr && *value == '/')
            parent = value;
    std::string job = place.job;
    std::replace(job.begin(), job.end(), '/', '_');
    struct stat info {};
    if (::stat(run_directory.c_str(), &info) != 0) info = {};
    return fmt::format("{}/{}{}-{}-{}-{:x}-{:x}", parent, start_of_names(), job, place.node,
                       letters, info.st_dev, info.st_ino);
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

bool exists(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0;
}

std::string claim_name(int local_task) {
    return fmt::format("claim-{}", local_task);
}

}  // namespace

TaskMeeting::TaskMeeting(const JobPlace& place, const std::string& run_directory,
                         const std::string& letters)
    : place_(place), path_(meeting_path(place, run_directory, letters)) {}

bool TaskMeeting::enter() {
    ::mkdir(path_.c_str(), 0700);
    const Descriptor directory(open_directory(path_));
    return directory && is_ours(directory.get());
}

TaskMeeting::Claim TaskMeeting::claim() {
    if (!enter()) return Claim::impossible;
    const std::string name = path_ + "/" + claim_name(place_.local_task);
    const Descriptor file(
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file) {
        remove_old(path_);
        return Claim::made;
    }
    return errno == EEXIST ? Claim::taken : Claim::impossible;
}

void TaskMeeting::withdraw() {
    if (!enter()) return;
    ::unlink((path_ + "/" + claim_name(place_.local_task)).c_str());
    ::rmdir(path_.c_str());  // unless others are there
}

bool TaskMeeting::put(const std::string& report, bool ended) {
    try {
        if (!enter()) return false;
        write_file(path_ + "/" + report_name(place_.local_task, ended), report);
        return true;
    } catch (const Error&) {
        return false;
    }
}

std::vector<std::string> TaskMeeting::names() const {
    std::vector<std::string> found;
    for (int task = 0; task < place_.local_tasks; ++task) {
        for (const bool ended : {true, false}) {
            std::string name = report_name(task, ended);
            if (!exists(path_ + "/" + name)) continue;
            found.push_back(std::move(name));
            break;
        }
    }
    return found;
}

TaskMeeting::Reports TaskMeeting::reports() const {
    Reports reports;
    reports.names = names();
    for (const std::string& name : reports.names) {
        std::string text = read_bounded(path_ + "/" + name, kMostReportBytes);
        if (text.empty()) continue;
        reports.texts.push_back(std::move(text));
        if (name.starts_with("task")) ++reports.ended;
    }
    return reports;
}

Descriptor TaskMeeting::turn(std::chrono::milliseconds patience) const {
    Descriptor directory(open_directory(path_));
    const auto until = std::chrono::steady_clock::now() + patience;
    while (directory && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
        if (std::chrono::steady_clock::now() >= until) return Descriptor();
        ::poll(nullptr, 0, static_cast<int>(kTurnPause.count()));
    }
    return directory;
}

void TaskMeeting::remove() {
    if (!enter()) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace toporun::launcher
