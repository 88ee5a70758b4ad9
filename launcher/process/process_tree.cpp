#include "launcher/process/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace toporun::launcher {
namespace {

struct Stat {
    ProcessInfo process;
    pid_t parent = 0;
    char state = '?';
    std::optional<int> wait_status;  ///< means something when it has ended
};

/// /proc/PID/stat: `pid (name) state ppid ... starttime`; the name may hold blanks and brackets.
std::optional<Stat> read_stat(pid_t pid) {
    // Not by a stream: a process that goes away between open and read makes it throw (ESRCH).
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> buffer{};  // the kernel's line is some 300 characters
    const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
    if (length <= 0) return std::nullopt;
    const std::string text(buffer.data(), static_cast<std::size_t>(length));
    const std::size_t open = text.find('(');
    const std::size_t close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open)
        return std::nullopt;
    std::istringstream rest(text.substr(close + 1));
    Stat stat;
    stat.process.pid = pid;
    stat.process.name = text.substr(open + 1, close - open - 1);
    std::string skipped;
    rest >> stat.state >> stat.parent;
    constexpr int kBetween = 17;  // fields 5 to 21; the start time is field 22 (proc(5))
    for (int i = 0; i < kBetween; ++i) rest >> skipped;
    if (!(rest >> stat.process.start_ticks)) return std::nullopt;
    constexpr int kBeforeStatus = 29;  // fields 23 to 51; the wait status is field 52
    for (int i = 0; i < kBeforeStatus; ++i) rest >> skipped;
    if (int status = 0; rest >> status) stat.wait_status = status;
    return stat;
}

std::vector<Stat> all_processes() {
    std::vector<Stat> found;
    DIR* directory = ::opendir("/proc");
    if (directory == nullptr) return found;
    while (const dirent* entry = ::readdir(directory))
        if (const auto pid = to_integer(static_cast<const char*>(entry->d_name)))
            if (auto stat = read_stat(static_cast<pid_t>(*pid))) found.push_back(std::move(*stat));
    ::closedir(directory);
    return found;
}

}  // namespace

std::vector<ProcessInfo> process_tree(pid_t root) {
    std::multimap<pid_t, const Stat*> children;
    const std::vector<Stat> processes = all_processes();
    std::vector<ProcessInfo> tree;
    for (const Stat& stat : processes) {
        children.emplace(stat.parent, &stat);
        if (stat.process.pid == root) tree.push_back(stat.process);
    }
    for (std::size_t i = 0; i < tree.size(); ++i) {
        const auto [first, last] = children.equal_range(tree[i].pid);
        for (auto child = first; child != last; ++child) tree.push_back(child->second->process);
    }
    return tree;
}

std::vector<ProcessInfo> still_running(const std::vector<ProcessInfo>& processes) {
    std::vector<ProcessInfo> running;
    for (const ProcessInfo& process : processes) {
        const auto now = read_stat(process.pid);
        if (now && now->state != 'Z' && now->process.start_ticks == process.start_ticks)
            running.push_back(process);
    }
    return running;
}

std::optional<std::uint64_t> start_ticks_below(pid_t pid, pid_t root) {
    constexpr int kMostParents = 64;
    const auto first = read_stat(pid);
    auto now = first;
    for (int i = 0; now && i < kMostParents; ++i) {
        if (now->process.pid == root) return first->process.start_ticks;
        now = read_stat(now->parent);
    }
    return std::nullopt;
}

std::optional<int> zombie_status(pid_t pid, std::uint64_t start_ticks) {
    const auto now = read_stat(pid);
    if (!now || now->state != 'Z' || now->process.start_ticks != start_ticks) return std::nullopt;
    // Of another user's process the kernel shows 0 (proc(5)).
    struct stat owner {};
    const bool told =
        ::geteuid() == 0 || (::stat(("/proc/" + std::to_string(pid)).c_str(), &owner) == 0 &&
                             owner.st_uid == ::geteuid());
    return told ? now->wait_status : std::nullopt;
}

bool is_stopped(pid_t pid) {
    const auto now = read_stat(pid);
    return now && (now->state == 'T' || now->state == 't');
}

}  // namespace toporun::launcher
