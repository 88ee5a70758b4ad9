#include "launcher/process/observer_loop.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "detect/files.hpp"
#include "detect/gpu/gpu_processes.hpp"
#include "detect/processor/cgroup.hpp"
#include "launcher/log/footprint.hpp"
#include "launcher/process/console.hpp"
#include "launcher/process/held_directory.hpp"
#include "launcher/process/node_check.hpp"
#include "launcher/process/node_files.hpp"
#include "launcher/process/observer_link.hpp"
#include "launcher/process/process_tree.hpp"
#include "launcher/process/rank_ends.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/run_failure.hpp"
#include "launcher/process/run_files.hpp"
#include "launcher/process/run_watch.hpp"
#include "launcher/process/signals.hpp"
#include "launcher/process/survivors.hpp"
#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{200};
constexpr std::chrono::milliseconds kMeasuringInterval{50};
/// Also how old the list of the command's processes may be when the supervisor is killed: they may
/// be children of nobody by then.
constexpr std::chrono::seconds kCheckInterval{10};
/// After this time the processes of a killed supervisor that still run are named.
constexpr std::chrono::seconds kOrphanPatience{5};
/// Of an observer that nobody waits for, while another task of the node writes.
constexpr std::chrono::milliseconds kTurnPatience{30000};
/// For the report of an earlier time, which a child writes.
constexpr std::chrono::milliseconds kEarlyPatience{500};
/// For the question which GPUs are used, at most; the report waits for the answer.
constexpr std::chrono::milliseconds kGpuPatience{1000};

/// What the shims write to, "" where none runs: to close an inotify instance takes the kernel some
/// 10 ms (fsnotify_destroy_group waits for a grace period), at the end of every run.
std::string records_file(const ObserverTask& task) {
    const bool shims = task.facts.rewrite != rewrite_text(Rewrite::export_only);
    return task.private_directory.empty() || !shims ? std::string()
                                                    : task.private_directory + "/" + kRecordsFile;
}

class ObserverLoop {
  public:
    ObserverLoop(ObserverTask task, int link, int error_copy)
        : task_(std::move(task)),
          link_(link),
          console_(error_copy, task_.quiet),
          watch_(task_.private_directory),
          ends_(records_file(task_)),
          files_(task_.run_directory),
          nodes_(files_, task_.place, task_.run,
                 task_.silent ? kTurnPatience : std::chrono::milliseconds(0)) {
        const sigset_t relayed = relayed_signals();
        signals_ = ::signalfd(-1, &relayed, SFD_CLOEXEC | SFD_NONBLOCK);
    }

    void run() {
        end_.oom_kills_before = detect::read_oom_kills(detect::Files(""));
        if (!task_.place.shared()) note_fault(files_.take());
        if (task_.place.leads()) note_fault(files_.write_plan(task_.facts));
        if (task_.place.shared()) note_fault(nodes_.write_start(task_.facts));
        while (!finished_) {
            wait();
            read_signals();
            read_link();
            ends_.look();
            watch_.poll();
            watch_now_and_then();
            compare_nodes();
            watch_orphans();
            continue_supervisor();
        }
    }

  private:
    void wait() {
        std::vector<pollfd> waits = {{signals_, POLLIN, 0},
                                     {link_open_ ? link_ : -1, POLLIN, 0},
                                     {supervisor_lost_ ? command_fd_ : -1, POLLIN, 0}};
        ends_.add_waits(waits);
        const auto interval = watch_.measuring() ? kMeasuringInterval : kPollInterval;
        ::poll(waits.data(), waits.size(), static_cast<int>(interval.count()));
        if (supervisor_lost_ && (command_fd_ < 0 || (waits[2].revents & POLLIN) != 0))
            command_gone_ = true;
    }

    void read_signals() {
        signalfd_siginfo info{};
        while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
            if (info.ssi_code <= 0) {  // a key press needs no witness
                send_message(link_, {LinkKind::saw_signal, static_cast<int>(info.ssi_signo)});
                if (info.ssi_signo == SIGTERM) report_early();
            }
    }

    /// What ends a whole job sends SIGKILL to everybody some time after SIGTERM: then the report
    /// must be there. Written by a child, because the next signal wants its witness.
    void report_early() {
        if (early_pid_ >= 0 || command_pid_ < 0) return;
        if (!task_.place.shared()) files_.choose_name(task_.own_directory);
        const pid_t observer = ::getpid();
        early_pid_ = ::fork();
        if (early_pid_ != 0) return;
        // Not after the observer: what is written in its place must stay.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != observer) ::_exit(0);
        ::close(link_);
        if (console_.fd() >= 0) ::close(console_.fd());  // who waits for its end waits for us
        try {
            RunFacts facts = task_.facts;
            facts.duration_s = std::chrono::duration<double>(Clock::now() - started_).count();
            facts.notes.push_back(
                "this was written when SIGTERM came, the command had not ended then");
            watch_.collect(facts);
            add_task_rank(facts);
            ends_.fill(facts.ranks);
            if (task_.place.shared())
                nodes_.write_early(facts);
            else
                files_.write_report(facts, task_.own_directory);
        } catch (const std::exception&) {
        }
        ::_exit(0);
    }

    /// It must not write after the final report.
    void end_early_report(Clock::time_point until) {
        while (early_pid_ > 0) {
            if (::waitpid(early_pid_, nullptr, WNOHANG) != 0) return;
            if (Clock::now() >= until) break;
            ::poll(nullptr, 0, 5);
        }
        if (early_pid_ <= 0) return;
        ::kill(early_pid_, SIGKILL);
        ::waitpid(early_pid_, nullptr, 0);
    }

    void read_link() {
        LinkMessage message;
        while (link_open_) {
            switch (receive_message(link_, message)) {
                case LinkState::nothing:
                    return;
                case LinkState::closed:
                    supervisor_gone();
                    return;
                case LinkState::message:
                    take(message);
                    break;
            }
        }
    }

    void take(const LinkMessage& message) {
        switch (message.kind) {
            case LinkKind::started:
                started_ = Clock::now();
                if (task_.place.shared() && task_.place.leads())
                    check_.emplace(files_, nodes_, task_.place.nodes.value_or(1), started_);
                command_pid_ = message.value;
                ends_.start(supervisor_);
                command_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, command_pid_, 0));
                if (task_.move_latest) point_latest(task_.run_directory);
                break;
            case LinkKind::ended:
                finish(message.value);
                break;
            case LinkKind::took_signal:
                take_signal(message);
                break;
            case LinkKind::stopping:
            case LinkKind::continued:
                supervisor_stops_ = message.kind == LinkKind::stopping;
                break;
            default:
                abandon();
                break;
        }
    }

    void take_signal(const LinkMessage& message) {
        const int number = std::abs(message.value);
        const bool by_key = message.value < 0;
        if (number != SIGINT && number != SIGTERM && number != SIGHUP && number != SIGQUIT) return;
        const bool again = end_.signal && end_.signal->number == number;
        end_.signal = {number, again ? end_.signal->count + 1 : 1, by_key, 0,
                       by_key ? "" : sender_text(message.sender, ::getuid())};
        signal_at_ = Clock::now();
    }

    void abandon() { finished_ = true; }

    /// The supervisor stopped because the command had: without it, it would stay so.
    void continue_supervisor() {
        if (!supervisor_stops_ || supervisor_lost_ || !is_stopped(supervisor_)) return;
        if (!is_stopped(command_pid_)) ::kill(supervisor_, SIGCONT);
    }

    void finish(std::optional<int> wait_status) {
        RunFacts& facts = task_.facts;
        if (end_.signal)
            end_.signal->before_end_s =
                std::chrono::duration<double>(Clock::now() - signal_at_).count();
        if (wait_status && WIFEXITED(*wait_status)) facts.exit.status = WEXITSTATUS(*wait_status);
        if (wait_status && WIFSIGNALED(*wait_status)) {
            facts.exit.status = 128 + WTERMSIG(*wait_status);
            facts.exit.signal = WTERMSIG(*wait_status);
        }
        if (!facts.duration_s)
            facts.duration_s = std::chrono::duration<double>(Clock::now() - started_).count();
        // Who waits ends this process then, and nobody else knows what is left: a part of the time
        // is for the report itself.
        const auto until = [&, now = Clock::now()](double part) {
            return now + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(part * task_.report_wait_s));
        };
        if (!supervisor_lost_ && command_pid_ >= 0) look_for_survivors(facts, until(0.5));
        end_early_report(std::min(until(0.75), Clock::now() + kEarlyPatience));
        ends_.look();
        watch_.collect(facts);
        add_task_rank(facts);
        ends_.fill(facts.ranks);
        end_.oom_kills_after = detect::read_oom_kills(detect::Files(""));
        facts.failure = failure_of_run(facts, task_.private_directory, end_);
        if (task_.place.leads()) note_fault(files_.keep_logs(task_.private_directory));
        const bool alone = task_.silent || task_.own_directory;
        const WrittenEnd end = task_.place.shared()
                                   ? nodes_.write_end(facts)
                                   : WrittenEnd{files_.write_report(facts, alone), {}};
        note_fault(end.fault);
        for (const std::string& line : closing_lines(facts, end.lines.size())) console_.say(line);
        for (const std::string& line : end.lines) console_.say(line);
        remove_private();
        send_message(link_, {LinkKind::done, 0});
        finished_ = true;
    }

    void look_for_survivors(RunFacts& facts, Clock::time_point until) {
        const std::vector<ProcessInfo> survivors = find_survivors(supervisor_, ::getpid());
        if (survivors.empty()) return;
        std::optional<std::map<pid_t, std::vector<int>>> users;
        if (facts.machine.gpus.empty())
            users.emplace();  // nothing to compute on
        else
            users = detect::gpu_processes(
                task_.nvml_library,
                std::clamp(
                    std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()),
                    std::chrono::milliseconds(0), kGpuPatience));
        std::vector<Reaped> left;
        if (task_.reap)
            left = reap_survivors(supervisor_, ::getpid(), survivors);
        else
            for (const ProcessInfo& process : survivors) left.push_back({process});
        for (const auto& [process, signal] : left) {
            LeftProcess row{process.pid, process.name, std::nullopt, std::nullopt};
            if (users) row.gpus = (*users)[process.pid];
            if (signal != 0) row.ended_by = signal;
            facts.left.push_back(std::move(row));
        }
    }

    /// A task that srun started as a rank has no shim in front of it.
    void add_task_rank(RunFacts& facts) const {
        if (!facts.job.task_of_step || !facts.ranks.empty() || task_.place.job.empty()) return;
        RankRecord rank;
        rank.rank = task_.place.task;
        rank.local_rank = task_.place.local_task;
        rank.local_size = task_.place.local_tasks;
        rank.launcher = "srun";
        rank.host = facts.machine.hostname;
        rank.pid = command_pid_;
        rank.cpus = facts.machine.cpu.allowed;
        rank.bind = "not-planned";
        rank.memory = "not-planned";
        rank.log = facts.plan.takes_log ? "set" : "not-planned";
        facts.ranks.push_back(std::move(rank));
    }

    void note_fault(const std::string& fault) {
        if (fault.empty()) return;
        if (faults_++ == 0) console_.warn(fault);
        task_.facts.warnings.push_back(fault);
    }

    /// What need not be looked at each time.
    void watch_now_and_then() {
        const auto now = Clock::now();
        if (now < next_check_) return;
        next_check_ = now + kCheckInterval;
        warn_while_running();
        warn_of_footprint();
        if (!supervisor_lost_ && command_pid_ >= 0)
            left_ = processes_below(supervisor_, ::getpid());
    }

    void compare_nodes() {
        if (!check_) return;
        for (const env::Finding& finding : check_->poll(Clock::now())) {
            console_.warn(finding.what, finding.fix);
            task_.facts.warnings.push_back(finding.what);
        }
    }

    void warn_of_footprint() {
        if (footprint_warned_ || task_.private_directory.empty()) return;
        const auto warning =
            footprint_warning(task_.private_directory, directory_bytes(task_.private_directory),
                              footprint_budget(memory_bytes(task_.facts.machine.limits)));
        if (!warning) return;
        console_.warn(*warning);
        task_.facts.warnings.push_back(*warning);
        footprint_warned_ = true;
    }

    void warn_while_running() {
        RunFacts& facts = task_.facts;
        if (facts.warned_of_share) return;
        facts.measured = watch_.measured();
        const auto warning = live_warning(facts);
        if (!warning) return;
        console_.say(*warning);
        facts.warned_of_share = true;
    }

    void supervisor_gone() {
        link_open_ = false;
        if (command_pid_ < 0) return abandon();
        supervisor_lost_ = true;
        supervisor_lost_at_ = Clock::now();
        for (ProcessInfo& process : process_tree(command_pid_))
            if (std::none_of(left_.begin(), left_.end(), [&](const ProcessInfo& known) {
                    return known.pid == process.pid && known.start_ticks == process.start_ticks;
                }))
                left_.push_back(std::move(process));
        task_.facts.warnings.push_back("toporun was killed while the command ran");
    }

    /// The supervisor was killed: the command has had its SIGTERM. Names what stays.
    void watch_orphans() {
        if (!supervisor_lost_) return;
        const std::vector<ProcessInfo> left = still_running(left_);
        if (left.empty() && command_gone_) {
            if (!named_) console_.warn("toporun was killed; the command and its processes ended");
            return finish(std::nullopt);
        }
        if (Clock::now() < supervisor_lost_at_ + kOrphanPatience) return;
        if (!named_ && !left.empty()) name(left);
        named_ = true;
        if (command_gone_) finish(std::nullopt);
    }

    void name(const std::vector<ProcessInfo>& left) {
        std::string names;
        for (const ProcessInfo& process : left)
            names += (names.empty() ? "" : ", ") + std::to_string(process.pid) + " (" +
                     process.name + ")";
        console_.warn("toporun was killed; still running: " + names);
    }

    void remove_private() { remove_private_directory(task_.private_directory); }

    ObserverTask task_;
    int link_;
    Console console_;
    RunWatch watch_;
    RankEnds ends_;
    RunFiles files_;
    NodeFiles nodes_;
    std::optional<NodeCheck> check_;
    RunEnd end_;
    int signals_ = -1;
    bool link_open_ = true;
    bool finished_ = false;
    bool footprint_warned_ = false;
    int faults_ = 0;
    Clock::time_point started_ = Clock::now();
    Clock::time_point next_check_ = Clock::now();
    pid_t command_pid_ = -1;
    int command_fd_ = -1;
    pid_t early_pid_ = -1;  ///< writes the report before the command's end
    pid_t supervisor_ = ::getppid();
    bool supervisor_stops_ = false;
    bool supervisor_lost_ = false;
    bool command_gone_ = false;
    bool named_ = false;
    Clock::time_point supervisor_lost_at_{};
    Clock::time_point signal_at_{};  ///< of end_.signal
    std::vector<ProcessInfo> left_;
};

}  // namespace

void run_observer(ObserverTask task, int link, int error_copy) {
    const std::string own = task.private_directory;
    ObserverLoop(std::move(task), link, error_copy).run();
    if (!own.empty()) remove_abandoned(own, kPrivateStart);
}

}  // namespace toporun::launcher
