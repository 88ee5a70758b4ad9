#include "launcher/command/host.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace toporun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kVersionLimit = std::chrono::seconds(2);
constexpr std::size_t kVersionBytes = 4096;

/// What comes out of `fd` until it is closed, `limit` bytes are there, or the time is up.
std::string read_until(int fd, std::size_t limit, Clock::time_point deadline) {
    std::string text;
    while (text.size() < limit) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd waiting = {fd, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) break;
        std::array<char, 1024> buffer;
        const ssize_t got = ::read(fd, buffer.data(), std::min(buffer.size(), limit - text.size()));
        if (got <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
}

/// Ends the helper's group and waits for it, but not for one that is stuck in the kernel.
void end_helper(pid_t pid, Clock::time_point deadline) {
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
        if (Clock::now() >= deadline) {
            ::kill(-pid, SIGKILL);
            ::poll(nullptr, 0, 20);
            ::waitpid(pid, &status, WNOHANG);
            return;
        }
        ::poll(nullptr, 0, 2);
    }
}

/// Starts `path --version` in a group of its own; stdin and stderr are /dev/null, stdout is `out`,
/// nothing else is open. -1 when that fails.
pid_t start_version(const std::string& path, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    sigset_t defaults;
    sigset_t none;
    sigfillset(&defaults);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    std::string name = path;
    std::string option = "--version";
    char* const argv[] = {name.data(), option.data(), nullptr};
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : -1;
}

std::string numeric_address(const sockaddr* address) {
    const bool v4 = address->sa_family == AF_INET;
    if (!v4 && address->sa_family != AF_INET6) return {};
    std::array<char, NI_MAXHOST> text{};
    const auto length = static_cast<socklen_t>(v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
        return {};
    const std::string full = text.data();
    return full.substr(0, full.find('%'));
}

std::vector<std::string> look_up_names() {
    std::vector<std::string> names = {"localhost"};
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) names.emplace_back(name.data());
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return names;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr) continue;
        if (std::string text = numeric_address(entry->ifa_addr); !text.empty())
            names.push_back(std::move(text));
    }
    ::freeifaddrs(first);
    return names;
}

}  // namespace

SystemHost::SystemHost(const std::map<std::string, std::string>& environment) {
    const auto path = environment.find("PATH");
    path_ = split(path == environment.end() ? "/bin:/usr/bin" : path->second, ':');
}

std::string SystemHost::find_executable(const std::string& word) const {
    if (word.empty()) return {};
    if (word.find('/') != std::string::npos) return is_executable(word) ? word : "";
    for (const std::string& directory : path_) {
        const std::string candidate = (directory.empty() ? "." : directory) + "/" + word;
        if (is_executable(candidate)) return candidate;
    }
    return {};
}

bool SystemHost::is_executable(const std::string& path) const {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

std::optional<std::string> SystemHost::read_file(const std::string& path, std::size_t limit) const {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info = {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    std::string text(limit, '\0');
    std::size_t used = 0;
    while (used < limit) {
        const ssize_t got = ::read(file.get(), text.data() + used, limit - used);
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        used += static_cast<std::size_t>(got);
    }
    text.resize(used);
    return text;
}

std::string SystemHost::real_path(const std::string& path) const {
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return {};
    std::string text = resolved;
    std::free(resolved);
    return text;
}

std::vector<std::string> SystemHost::names() const {
    if (names_.empty()) names_ = look_up_names();
    return names_;
}

std::string SystemHost::version_text(const std::string& path) const {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    Descriptor reading(ends[0]);
    Descriptor writing(ends[1]);
    const auto deadline = Clock::now() + kVersionLimit;
    const pid_t pid = start_version(path, writing.get());
    writing.reset();
    if (pid < 0) return {};
    std::string text = read_until(reading.get(), kVersionBytes, deadline);
    reading.reset();  // whatever it still writes ends it
    end_helper(pid, deadline);
    return text;
}

}  // namespace toporun::launcher
