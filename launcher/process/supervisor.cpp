#include "launcher/process/supervisor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "launcher/process/observer_link.hpp"
#include "launcher/process/signal_window.hpp"

namespace toporun::launcher {
namespace {

namespace asio = boost::asio;
namespace bp = boost::process::v2;
using ArgumentList = const char* const*;

std::vector<const char*> c_strings(const std::vector<std::string>& strings) {
    std::vector<const char*> pointers;
    pointers.reserve(strings.size() + 1);
    for (const std::string& s : strings) pointers.push_back(s.c_str());
    pointers.push_back(nullptr);
    return pointers;
}

bool is_inherited(int fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

/// The descriptors above 2 that the command is to get. Own ones are close-on-exec.
std::vector<int> inherited_descriptors() {
    std::vector<int> found;
    if (DIR* directory = ::opendir("/proc/self/fd")) {
        while (const dirent* entry = ::readdir(directory))
            if (const int fd = std::atoi(entry->d_name); fd > 2 && is_inherited(fd))
                found.push_back(fd);
        ::closedir(directory);
        return found;
    }
    rlimit limit{};
    constexpr rlim_t kMostTried = 65536;  // without /proc each number is asked for
    const rlim_t most =
        ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min(limit.rlim_cur, kMostTried) : kMostTried;
    for (int fd = 3; fd < static_cast<int>(most); ++fd)
        if (is_inherited(fd)) found.push_back(fd);
    return found;
}

/// Stops this process as the command has stopped, so that the shell takes the terminal back.
void stop_like(int signal) {
    sigset_t only, before;
    sigemptyset(&only);
    sigaddset(&only, signal);
    ::raise(signal);  // waits when it is blocked
    ::sigprocmask(SIG_UNBLOCK, &only, &before);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

/// The hooks that Boost.Process v2 calls by name around fork and exec.
struct ChildSetup {
    std::vector<const char*> argv;
    std::vector<const char*> environment;
    InheritedSignals inherited{};
    bool parent_death_signal = true;
    pid_t supervisor = 0;

    /// v2 closes what is not listed: list what the user's shell left open for the command.
    template <class Launcher>
    bp::error_code on_setup(Launcher& launcher, const bp::filesystem::path&,
                            ArgumentList& command) {
        command = argv.data();  // v2 would pass the resolved path as argv[0]
        launcher.env = environment.data();
        for (const int fd : inherited_descriptors()) launcher.fd_whitelist.push_back(fd);
        return {};
    }

    /// In the child: async-signal-safe calls only.
    template <class Launcher>
    bp::error_code on_exec_setup(Launcher&, const bp::filesystem::path&, ArgumentList&) {
        if (parent_death_signal) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (::getppid() != supervisor) ::_exit(127);  // it died before the line above
        }
        restore_signals(inherited);
        return {};
    }

    template <class... Arguments>
    void on_exec_error(Arguments&&...) {
        ::_exit(127);  // v2 would call exit() and flush the parent's buffers a second time
    }
};

/// Reads signals, the observer's word on them, and the end of the command.
class Attendant {
  public:
    /// Throws when its descriptors cannot be had: before the launch, not after it.
    Attendant(asio::io_context& io, int link, pid_t witness)
        : io_(io), signals_(io), link_(io), witness_(witness) {
        block_relayed_signals();
        sigset_t wanted = relayed_signals();
        sigaddset(&wanted, SIGCHLD);
        signals_.assign(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
        if (link >= 0) link_.assign(::fcntl(link, F_DUPFD_CLOEXEC, 0));
        has_link_ = link >= 0;
    }

    /// Returns the command's wait status.
    int attend(pid_t child) {
        child_ = child;
        try {
            read_signal();
            if (has_link_) read_link();
            reap();
            io_.run();
        } catch (const std::exception&) {
            // Signals are not passed on any more; the command goes on and is waited for.
        }
        while (!ended_ && ::waitpid(child_, &status_, 0) < 0 && errno == EINTR) {
        }
        return status_;
    }

    bool observer_lost() const { return observer_lost_; }

  private:
    /// Every child that has ended or stopped: the command, the observer and orphans.
    void reap() {
        int status = 0;
        for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
            if (pid != child_) continue;
            if (WIFSTOPPED(status)) {
                follow_stop(WSTOPSIG(status));
                continue;
            }
            status_ = status;
            ended_ = true;
            io_.stop();
        }
    }

    /// Whoever stopped the command by kill(2) may continue only that: the observer then continues
    /// this process. Without it nobody would.
    void follow_stop(int signal) {
        const bool watched =
            has_link_ && send_message(link_.native_handle(), {LinkKind::stopping, 0});
        const bool by_terminal = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        if (!watched && !by_terminal) return;
        stop_like(signal);
        if (watched) send_message(link_.native_handle(), {LinkKind::continued, 0});
    }

    void read_signal() {
        signals_.async_read_some(asio::buffer(&info_, sizeof info_),
                                 [this](bp::error_code error, std::size_t) {
                                     if (error) return;
                                     take_signal();
                                     read_signal();
                                 });
    }

    void take_signal() {
        const int signal = static_cast<int>(info_.ssi_signo);
        if (signal == SIGCHLD) return reap();
        if (info_.ssi_code > 0) {  // a key press: the command has it from the terminal
            tell({LinkKind::took_signal, -signal});
            // Of a terminal that is gone the kernel tells the leader of the session alone.
            if (signal == SIGHUP && ::getsid(0) == ::getpid()) forward(signal);
            return;
        }
        const auto sender = static_cast<pid_t>(info_.ssi_pid);
        if (sender == child_ || sender == witness_) return;  // never echo its own signal
        if (!has_link_) return forward(signal);
        if (!window_.arrived(signal, std::chrono::steady_clock::now())) return;
        tell({LinkKind::took_signal, signal, sender_of(info_)});
        auto timer = std::make_shared<asio::steady_timer>(io_, SignalWindow::kLength);
        timer->async_wait([this, signal, timer](bp::error_code error) {
            if (!error) decide(signal);
        });
    }

    void tell(const LinkMessage& message) {
        if (has_link_) send_message(link_.native_handle(), message);
    }

    void decide(int signal) {
        if (window_.decide(signal) || observer_lost_) forward(signal);
    }

    void forward(int signal) { ::kill(child_, signal); }

    void read_link() {
        link_.async_wait(asio::posix::descriptor_base::wait_read, [this](bp::error_code error) {
            if (error) return;
            LinkMessage message;
            for (;;) {
                const LinkState state = receive_message(link_.native_handle(), message);
                if (state == LinkState::nothing) break;
                if (state == LinkState::closed) {
                    observer_lost_ = true;
                    has_link_ = false;
                    link_.close(error);
                    return;
                }
                if (message.kind == LinkKind::saw_signal)
                    window_.witnessed(message.value, std::chrono::steady_clock::now());
            }
            read_link();
        });
    }

    asio::io_context& io_;
    asio::posix::stream_descriptor signals_;
    asio::posix::stream_descriptor link_;
    pid_t witness_ = -1;
    pid_t child_ = -1;
    int status_ = 0;
    bool ended_ = false;
    SignalWindow window_;
    signalfd_siginfo info_{};
    bool has_link_ = false;
    bool observer_lost_ = false;
};

constexpr const char* kShell = "/bin/sh";

/// The pid of the started command; 0 with `error` when exec failed. Throws when nothing was forked.
pid_t launch(asio::io_context& io, const ChildCommand& command, const InheritedSignals& inherited,
             bp::error_code& error) {
    ChildSetup setup{c_strings(command.argv), c_strings(command.environment), inherited,
                     command.parent_death_signal, ::getpid()};
    bp::posix::default_launcher launcher;
    error.clear();
    try {
        launcher(io.get_executor(), error, command.executable, std::vector<std::string>{}, setup)
            .detach();
    } catch (const boost::system::system_error&) {
        if (launcher.pid <= 0) throw;
        // The command runs, only v2's own handle for waiting was refused (no pidfd_open before
        // Linux 5.3): it is not needed here.
    }
    if (error && launcher.pid <= 0) throw boost::system::system_error(error);
    if (!error) return launcher.pid;
    ::waitpid(launcher.pid, nullptr, 0);  // v2 leaves a zombie
    return 0;
}

/// A launcher that dies leaves its workers to this process. The flag outlives execve: a program
/// that takes this process's place must not inherit children that it never waits for.
class Adopter {
  public:
    Adopter() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
    ~Adopter() {
        if (!kept_) ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
    Adopter(const Adopter&) = delete;
    Adopter& operator=(const Adopter&) = delete;
    void keep() { kept_ = true; }

  private:
    bool kept_ = false;
};

}  // namespace

ChildEnd supervise(const ChildCommand& command, const InheritedSignals& inherited, int link,
                   pid_t witness) {
    asio::io_context io;
    Attendant attendant(io, link, witness);
    Adopter adopter;
    bp::error_code error;
    pid_t child = launch(io, command, inherited, error);
    if (error.value() == ENOEXEC) {  // no "#!": /bin/sh runs it, as execvp and shells do
        ChildCommand script = command;
        script.executable = kShell;
        script.argv.insert(script.argv.begin() + 1, command.executable);
        child = launch(io, script, inherited, error);
    }
    if (error.value() == E2BIG && !command.typed.empty()) {  // what was added made it too long
        ChildCommand typed = command;
        typed.argv = command.typed;
        typed.environment = command.typed_environment;
        child = launch(io, typed, inherited, error);
    }
    ChildEnd end;
    if (error) {
        end.error = error.value();
        if (link >= 0) send_message(link, {LinkKind::not_started, end.error});
        return end;
    }
    adopter.keep();
    end.started = true;
    if (link >= 0) send_message(link, {LinkKind::started, child});
    end.status = attendant.attend(child);
    end.observer_lost = attendant.observer_lost();
    return end;
}

void exit_like(int wait_status) {
    std::fflush(nullptr);
    if (WIFSIGNALED(wait_status)) {
        const int signal = WTERMSIG(wait_status);
        const rlimit no_core{0, 0};
        ::setrlimit(RLIMIT_CORE, &no_core);
        ::signal(signal, SIG_DFL);
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, signal);
        ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
        ::raise(signal);
        ::_exit(128 + signal);
    }
    std::_Exit(WEXITSTATUS(wait_status));
}

}  // namespace toporun::launcher
