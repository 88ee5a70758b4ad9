#include "launcher/process/node_observer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <optional>
#include <vector>

#include "base/descriptors.hpp"
#include "detect/files.hpp"
#include "detect/processor/cgroup.hpp"
#include "launcher/process/node_files.hpp"
#include "launcher/process/rank_ends.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/run_failure.hpp"
#include "launcher/process/run_files.hpp"
#include "launcher/process/run_watch.hpp"
#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

using NodeClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNodePoll{200};
constexpr std::chrono::seconds kNodePatience{60};  ///< without a rank
/// While another host's observer writes the report of all.
constexpr std::chrono::milliseconds kMergePatience{30000};
constexpr pid_t kFirstProcess = 1;  ///< every rank is below it

void follow_ranks(RankEnds& ends, RunWatch& watch, std::size_t ranks) {
    auto last_rank = NodeClock::now();
    for (;;) {
        std::vector<pollfd> waits;
        ends.add_waits(waits);
        ::poll(waits.data(), waits.size(), static_cast<int>(kNodePoll.count()));
        ends.look();
        watch.poll();
        if (ends.running()) {
            last_rank = NodeClock::now();
            continue;
        }
        if (ranks > 0 && ends.started() >= ranks) return;
        if (NodeClock::now() > last_rank + kNodePatience) return;
    }
}

/// A host name as a part of a file's.
std::string file_word(std::string host) {
    for (char& c : host) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!plain) c = '_';
    }
    return host;
}

/// Nothing where the run directory is not on this host, and nobody to tell.
void write_reports(RunFiles& files, const RunFacts& facts) {
    const std::string stem = "node-" + file_word(facts.machine.hostname) + "-" + random_letters();
    files.write(stem + ".json", report_json(facts));
    files.write(stem + ".txt", report_text(facts));
}

void observe_node(ObserverTask task, std::size_t ranks) {
    const auto started = NodeClock::now();
    RunEnd end;
    end.oom_kills_before = detect::read_oom_kills(detect::Files(""));
    RunFiles files(task.run_directory);
    std::optional<NodeFiles> nodes;
    const auto number =
        task.place.shared() ? claim_node(task.run_directory, task.place) : std::optional<int>();
    if (number) {
        task.place.node = task.place.task = *number;
        nodes.emplace(files, task.place, 1, kMergePatience);
        nodes->write_start(task.facts);
    }
    RankEnds ends(task.private_directory + "/" + kRecordsFile);
    ends.start(kFirstProcess);
    RunWatch watch(task.private_directory);
    follow_ranks(ends, watch, ranks);
    RunFacts& facts = task.facts;
    facts.duration_s = std::chrono::duration<double>(NodeClock::now() - started).count();
    watch.collect(facts);
    ends.fill(facts.ranks);
    end.oom_kills_after = detect::read_oom_kills(detect::Files(""));
    facts.failure = failure_of_node(facts, task.private_directory, end);
    if (nodes)
        nodes->write_end(facts);  // its lines: nobody says them here, nor on the launcher's host
    else
        write_reports(files, facts);
    remove_private_directory(task.private_directory);
}

}  // namespace

void leave_node_observer(ObserverTask task, std::size_t ranks) {
    if (::fork() != 0) return;  // without it there is no report, and the ranks start all the same
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    ::prctl(PR_SET_NAME, "toporun-observer");
    close_descriptors_except({});
    for (int fd = 0; fd < 3; ++fd) ::open("/dev/null", O_RDWR);
    if (::chdir("/") != 0) ::_exit(1);
    try {
        observe_node(std::move(task), ranks);
    } catch (const std::exception&) {
        ::_exit(1);
    }
    ::_exit(0);
}

}  // namespace toporun::launcher
