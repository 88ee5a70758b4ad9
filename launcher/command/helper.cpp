#include "launcher/command/helper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>

#include "base/descriptors.hpp"

namespace toporun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kHelperLimit = std::chrono::seconds(2);
constexpr std::size_t kHelperBytes = 4096;

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

/// Ends the helper's group and waits for it, but not for one that is stuck in the kernel. Its exit
/// status where it ended by itself.
std::optional<int> end_helper(pid_t pid, Clock::time_point deadline) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(pid, &status, WNOHANG)) == 0) {
        if (Clock::now() >= deadline) {
            ::kill(-pid, SIGKILL);
            ::poll(nullptr, 0, 20);
            ::waitpid(pid, &status, WNOHANG);
            return std::nullopt;
        }
        ::poll(nullptr, 0, 2);
    }
    if (ended != pid || !WIFEXITED(status)) return std::nullopt;
    return WEXITSTATUS(status);
}

/// Starts the program in a group of its own; stdin and stderr are /dev/null, stdout is `out`,
/// nothing else is open. -1 when that fails.
pid_t start_helper(std::vector<std::string> words, int out) {
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
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : -1;
}

}  // namespace

HelperAnswer ask_helper(const std::vector<std::string>& words) {
    int ends[2];
    if (words.empty() || ::pipe2(ends, O_CLOEXEC) != 0) return {};
    Descriptor reading(ends[0]);
    Descriptor writing(ends[1]);
    const auto deadline = Clock::now() + kHelperLimit;
    const pid_t pid = start_helper(words, writing.get());
    writing.reset();
    if (pid < 0) return {};
    HelperAnswer answer;
    answer.text = read_until(reading.get(), kHelperBytes, deadline);
    reading.reset();  // whatever it still writes ends it
    answer.status = end_helper(pid, deadline);
    return answer;
}

std::string helper_output(const std::vector<std::string>& words) {
    return ask_helper(words).text;
}

}  // namespace toporun::launcher
