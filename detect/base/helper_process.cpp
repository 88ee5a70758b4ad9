#include "base/helper_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptors.hpp"

namespace toporun {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kResultDescriptor = 3;
/// Ending takes a process less than a millisecond, unless its driver holds it in the kernel or
/// others have the CPUs.
constexpr std::chrono::milliseconds kTimeToEnd{2000};

/// Milliseconds until `end` for poll, rounded up, at least 0.
int milliseconds_until(Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

/// Everything that ties the helper to the training's terminal, signals and descriptors is cut.
bool detach(pid_t parent, int result) {
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    // Moved out of the way first: the pipe may be one of 0 to 3.
    const int pipe_copy = fcntl(result, F_DUPFD, kResultDescriptor + 1);
    const int null = open("/dev/null", O_RDWR);
    const int null_copy = null < 0 ? -1 : fcntl(null, F_DUPFD, kResultDescriptor + 1);
    if (pipe_copy < 0 || null_copy < 0) return false;
    for (int fd = 0; fd < kResultDescriptor; ++fd)
        if (dup2(null_copy, fd) < 0) return false;
    if (dup2(pipe_copy, kResultDescriptor) < 0) return false;
    close_descriptors_except(std::array{0, 1, 2, kResultDescriptor});
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent;
}

void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = write(kResultDescriptor, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) _exit(1);
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

[[noreturn]] void helper_main(const std::function<void()>& work, pid_t parent, int result) {
    if (!detach(parent, result)) _exit(1);
    try {
        work();
    } catch (...) {
        _exit(1);  // the parent says that the helper failed
    }
    _exit(0);
}

enum class Ended { at_its_end, too_late, too_long };

/// Reads until the end of the pipe, the time or the size.
Ended read_all(int fd, Clock::time_point end, std::size_t most_bytes, std::string& bytes) {
    std::array<char, 16384> buffer;
    for (;;) {
        pollfd waited{fd, POLLIN, 0};
        const int ready = poll(&waited, 1, milliseconds_until(end));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return Ended::too_late;
        const ssize_t count = read(fd, buffer.data(), buffer.size());
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count <= 0) return Ended::at_its_end;
        bytes.append(buffer.data(), static_cast<std::size_t>(count));
        if (bytes.size() > most_bytes) return Ended::too_long;
    }
}

/// The helper's status, if it ends in time. Only this process id is waited for.
std::optional<int> status_within(pid_t helper, std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(helper, &status, WNOHANG);
        if (ended == helper) return status;
        // Without SIGCHLD the kernel keeps no status; what was written decides then.
        if (ended < 0 && errno == ECHILD) return 0;
        if (Clock::now() >= end) return std::nullopt;
        poll(nullptr, 0, 1);
    }
}

/// With what it has started, where that is of its group.
void abandon(pid_t helper) {
    kill(-helper, SIGKILL);
    kill(helper, SIGKILL);
    waitpid(helper, nullptr, WNOHANG);
}

HelperResult run_forked(const std::function<void()>& work, std::chrono::milliseconds limit,
                        std::size_t most_bytes) {
    HelperResult result;
    const auto end = Clock::now() + limit;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        result.failure = fmt::format("no pipe: {}", std::strerror(errno));
        return result;
    }
    Descriptor reading(ends[0]);
    Descriptor writing(ends[1]);
    const pid_t parent = getpid();
    const pid_t helper = fork();
    if (helper == 0) helper_main(work, parent, writing.get());
    writing.reset();
    if (helper < 0) {
        result.failure = fmt::format("no process: {}", std::strerror(errno));
        return result;
    }
    const Ended ended = read_all(reading.get(), end, most_bytes, result.bytes);
    reading.reset();  // whatever it still writes ends it
    if (ended != Ended::at_its_end) {
        abandon(helper);
        if (ended == Ended::too_long) result.bytes.resize(most_bytes);
        result.failure = ended == Ended::too_long
                             ? std::string("answer too long")
                             : fmt::format("no answer within {} ms", limit.count());
        return result;
    }
    const auto status = status_within(helper, kTimeToEnd);
    if (!status) {
        abandon(helper);
        result.failure = "it does not end";
    } else if (WIFSIGNALED(*status)) {
        result.failure = fmt::format("ended by signal {}", WTERMSIG(*status));
    } else {
        result.status = WEXITSTATUS(*status);
        result.finished = result.status == 0;
        if (!result.finished) result.failure = fmt::format("ended with status {}", *result.status);
    }
    return result;
}

}  // namespace

HelperResult run_helper(const std::function<void(const HelperOutput&)>& work,
                        std::chrono::milliseconds limit, std::size_t most_bytes) {
    return run_forked([&] { work(write_all); }, limit, most_bytes);
}

HelperResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit,
                         std::size_t most_bytes) {
    if (words.empty()) return {};
    std::vector<std::string> kept = words;
    std::vector<char*> argv;
    for (std::string& word : kept) argv.push_back(word.data());
    argv.push_back(nullptr);
    return run_forked(
        [&] {
            if (dup2(kResultDescriptor, STDOUT_FILENO) < 0) _exit(1);
            close(kResultDescriptor);
            execv(argv.front(), argv.data());
            _exit(127);
        },
        limit, most_bytes);
}

}  // namespace toporun
