#include "launcher/process/node_observer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/descriptors.hpp"
#include "detect/files.hpp"
#include "detect/processor/cgroup.hpp"
#include "launcher/process/held_directory.hpp"
#include "launcher/process/node_files.hpp"
#include "launcher/process/rank_ends.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/run_failure.hpp"
#include "launcher/process/run_files.hpp"
#include "launcher/process/run_watch.hpp"
#include "launcher/process/signals.hpp"
#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

using NodeClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNodePoll{200};
constexpr std::chrono::seconds kNodePatience{60};  ///< without a rank
/// While another host's observer writes the report of all.
constexpr std::chrono::milliseconds kMergePatience{30000};
/// Between reports of a node that still runs.
constexpr std::chrono::seconds kFirstEarly{10};
constexpr std::chrono::seconds kLongestEarly{600};
constexpr pid_t kFirstProcess = 1;  ///< every rank is below it

/// A host name as a part of a file's.
std::string file_word(std::string host) {
    for (char& c : host) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!plain) c = '_';
    }
    return host;
}

/// The node's part of the run: its ranks until the last has ended.
class NodeWatch {
  public:
    NodeWatch(ObserverTask task, std::size_t ranks)
        : task_(std::move(task)),
          most_ranks_(ranks),
          files_(task_.run_directory),
          ends_(task_.private_directory + "/" + kRecordsFile),
          watch_(task_.private_directory),
          stem_("node-" + file_word(task_.facts.machine.hostname) + "-" + random_letters()) {
        const sigset_t relayed = relayed_signals();
        signals_ = Descriptor(::signalfd(-1, &relayed, SFD_CLOEXEC | SFD_NONBLOCK));
    }

    void run() {
        end_.oom_kills_before = detect::read_oom_kills(detect::Files(""));
        const auto number = task_.place.shared() ? claim_node(task_.run_directory, task_.place)
                                                 : std::optional<int>();
        if (number) {
            task_.place.node = task_.place.task = *number;
            nodes_.emplace(files_, task_.place, 1, kMergePatience);
            nodes_->write_start(task_.facts);
        }
        ends_.start(kFirstProcess);
        follow_ranks();
        finish();
    }

  private:
    void follow_ranks() {
        auto last_rank = NodeClock::now();
        for (;;) {
            std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}};
            ends_.add_waits(waits);
            ::poll(waits.data(), waits.size(), static_cast<int>(kNodePoll.count()));
            ends_.look();
            watch_.poll();
            write_early_if_due();
            if (ends_.running()) {
                last_rank = NodeClock::now();
                continue;
            }
            if (most_ranks_ > 0 && ends_.started() >= most_ranks_) return;
            if (NodeClock::now() > last_rank + kNodePatience) return;
        }
    }

    /// Slurm ends what is left of a step with its last task, and this process too: by then there is
    /// a report, of the time when a signal came, when the first rank ended, or of a while ago.
    void write_early_if_due() {
        const auto now = NodeClock::now();
        bool due = now >= next_early_;
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
            due = due || info.ssi_signo == SIGTERM;
        const bool one_ended = ends_.started() > 0 && ends_.ended() > 0;
        due = due || (one_ended && !seen_end_);
        if (early_pid_ > 0 && ::waitpid(early_pid_, nullptr, WNOHANG) != 0) early_pid_ = -1;
        if (!due || early_pid_ > 0) return;
        seen_end_ = seen_end_ || one_ended;
        early_interval_ = std::min(early_interval_ * 2, kLongestEarly);
        next_early_ = now + early_interval_;
        write_early();
    }

    /// By a child: what it reads is read again at the end.
    void write_early() {
        const pid_t observer = ::getpid();
        early_pid_ = ::fork();
        if (early_pid_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // not after the observer's own
        if (::getppid() != observer) ::_exit(0);
        try {
            RunFacts facts = task_.facts;
            facts.notes.emplace_back(
                "this was written before the node's last rank had ended, or was not seen to end");
            fill(facts);
            if (nodes_)
                nodes_->write_early(facts);
            else
                write_reports(facts);
        } catch (const std::exception&) {
        }
        ::_exit(0);
    }

    void end_early() {
        if (early_pid_ <= 0) return;
        ::kill(early_pid_, SIGKILL);
        ::waitpid(early_pid_, nullptr, 0);
    }

    void fill(RunFacts& facts) {
        facts.duration_s = std::chrono::duration<double>(NodeClock::now() - started_).count();
        watch_.collect(facts);
        ends_.fill(facts.ranks);
    }

    void finish() {
        end_early();
        RunFacts& facts = task_.facts;
        fill(facts);
        end_.oom_kills_after = detect::read_oom_kills(detect::Files(""));
        facts.failure = failure_of_node(facts, task_.private_directory, end_);
        if (nodes_)  // its lines: nobody says them here, nor on the launcher's host
            nodes_->write_end(facts);
        else
            write_reports(facts);
        remove_private_directory(task_.private_directory);
    }

    /// Nothing where the run directory is not on this host, and nobody to tell.
    void write_reports(const RunFacts& facts) {
        files_.write(stem_ + ".json", report_json(facts));
        files_.write(stem_ + ".txt", report_text(facts));
    }

    ObserverTask task_;
    std::size_t most_ranks_;
    RunFiles files_;
    std::optional<NodeFiles> nodes_;
    RankEnds ends_;
    RunWatch watch_;
    RunEnd end_;
    std::string stem_;
    Descriptor signals_;
    NodeClock::time_point started_ = NodeClock::now();
    std::chrono::seconds early_interval_ = kFirstEarly;
    NodeClock::time_point next_early_ = started_ + kFirstEarly;
    bool seen_end_ = false;
    pid_t early_pid_ = -1;
};

}  // namespace

void leave_node_observer(ObserverTask task, std::size_t ranks) {
    if (::fork() != 0) return;  // without it there is no report, and the ranks start all the same
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    block_relayed_signals();  // Slurm sends to all processes of a step what is meant for the ranks
    ::prctl(PR_SET_NAME, "toporun-observer");
    close_descriptors_except({});
    for (int fd = 0; fd < 3; ++fd) ::open("/dev/null", O_RDWR);
    if (::chdir("/") != 0) ::_exit(1);
    try {
        const Descriptor held = hold_directory(task.private_directory);
        remove_abandoned(task.private_directory,
                         "toporun-node-" + std::to_string(::geteuid()) + "-");
        NodeWatch(std::move(task), ranks).run();
    } catch (const std::exception&) {
        ::_exit(1);
    }
    ::_exit(0);
}

}  // namespace toporun::launcher
