#include "launcher/process/supervisor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

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
        DIR* directory = ::opendir("/proc/self/fd");
        if (directory == nullptr) return {};
        while (const dirent* entry = ::readdir(directory)) {
            const int fd = std::atoi(entry->d_name);
            const int flags = fd > 2 ? ::fcntl(fd, F_GETFD) : -1;
            if (flags >= 0 && (flags & FD_CLOEXEC) == 0) launcher.fd_whitelist.push_back(fd);
        }
        ::closedir(directory);
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

constexpr std::chrono::milliseconds kReapInterval{500};

class Relay {
  public:
    /// Throws when the descriptors for it cannot be had: before the launch, not after it.
    Relay(asio::io_context& io, int link) : io_(io), signals_(io), link_(io), orphans_(io) {
        const sigset_t relayed = relayed_signals();
        signals_.assign(::signalfd(-1, &relayed, SFD_CLOEXEC | SFD_NONBLOCK));
        if (link >= 0) link_.assign(::fcntl(link, F_DUPFD_CLOEXEC, 0));
        has_link_ = link >= 0;
    }

    void start(pid_t child) {
        child_ = child;
        read_signal();
        if (has_link_) read_link();
        if (::getpid() == 1) reap_orphans();
    }

    void stop() {
        bp::error_code ignored;
        signals_.close(ignored);
        if (link_.is_open()) link_.close(ignored);
        orphans_.cancel();
    }

    bool observer_lost() const { return observer_lost_; }

  private:
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
        const bool from_process = info_.ssi_code <= 0;
        if (!from_process) {  // a key press: the command has it from the terminal
            if (signal == SIGTSTP) ::raise(SIGSTOP);
            return;
        }
        if (static_cast<pid_t>(info_.ssi_pid) == child_) return;  // never echo its own signal
        if (!has_link_) return forward(signal);
        if (!window_.arrived(signal, std::chrono::steady_clock::now())) return;
        auto timer = std::make_shared<asio::steady_timer>(io_, SignalWindow::kLength);
        timer->async_wait([this, signal, timer](bp::error_code error) {
            if (!error) decide(signal);
        });
    }

    void decide(int signal) {
        if (window_.decide(signal) || observer_lost_)
            forward(signal);
        else if (signal == SIGTSTP)
            ::raise(SIGSTOP);
    }

    void forward(int signal) {
        ::kill(child_, signal);
        if (signal == SIGTSTP) ::raise(SIGSTOP);
    }

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

    /// Process 1 of a container inherits every orphan. The command's own end and the observer's are
    /// left to whoever waits for them.
    void reap_orphans() {
        siginfo_t ended{};
        while (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid > 0 &&
               ended.si_pid != child_ && !observer_lost_)
            ::waitpid(ended.si_pid, nullptr, 0);
        orphans_.expires_after(kReapInterval);
        orphans_.async_wait([this](bp::error_code error) {
            if (!error) reap_orphans();
        });
    }

    asio::io_context& io_;
    asio::posix::stream_descriptor signals_;
    asio::posix::stream_descriptor link_;
    asio::steady_timer orphans_;
    pid_t child_ = -1;
    SignalWindow window_;
    signalfd_siginfo info_{};
    bool has_link_ = false;
    bool observer_lost_ = false;
};

constexpr const char* kShell = "/bin/sh";

bp::process launch(asio::io_context& io, const ChildCommand& command,
                   const InheritedSignals& inherited, bp::error_code& error) {
    ChildSetup setup{c_strings(command.argv), c_strings(command.environment), inherited,
                     command.parent_death_signal, ::getpid()};
    bp::posix::default_launcher launcher;
    error.clear();
    auto child =
        launcher(io.get_executor(), error, command.executable, std::vector<std::string>{}, setup);
    if (error && launcher.pid > 0) ::waitpid(launcher.pid, nullptr, 0);  // v2 leaves a zombie
    return child;
}

int wait_plainly(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace

ChildEnd supervise(const ChildCommand& command, const InheritedSignals& inherited, int link) {
    asio::io_context io;
    Relay relay(io, link);
    bp::error_code error;
    bp::process child = launch(io, command, inherited, error);
    if (error.value() == ENOEXEC) {  // no "#!": /bin/sh runs it, as execvp and shells do
        ChildCommand script = command;
        script.executable = kShell;
        script.argv.insert(script.argv.begin() + 1, command.executable);
        child = launch(io, script, inherited, error);
    }
    ChildEnd end;
    if (error) {
        end.error = error.value();
        if (link >= 0) send_message(link, {LinkKind::not_started, end.error});
        return end;
    }
    end.started = true;
    const pid_t pid = child.id();
    if (link >= 0) send_message(link, {LinkKind::started, pid});
    bool waited = false;
    try {
        relay.start(pid);
        child.async_wait([&](bp::error_code fault, int) {
            waited = !fault;
            relay.stop();
            io.stop();
        });
        io.run();
    } catch (const std::exception&) {
        waited = false;  // no descriptor left, say: signals are not relayed, the command goes on
    }
    end.status = waited ? child.native_exit_code() : wait_plainly(pid);
    child.detach();  // the destructor would end a command that still ran
    end.observer_lost = relay.observer_lost();
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
