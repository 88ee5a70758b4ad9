#include "launcher/process/process_tree.hpp"

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

struct Stat {
    ProcessInfo process;
    pid_t parent = 0;
    char state = '?';
};

/// /proc/PID/stat: `pid (name) state ppid ... starttime`; the name may hold blanks and brackets.
std::optional<Stat> read_stat(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
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

bool is_stopped(pid_t pid) {
    const auto now = read_stat(pid);
    return now && (now->state == 'T' || now->state == 't');
}

}  // namespace toporun::launcher
