#include <algorithm>
#include <csignal>

#include "launcher/failures/judge.hpp"

namespace toporun::launcher::failures {
namespace {

bool is_sigkill(const Event& event) {
    return event.role <= Role::hint && (event.signal == SIGKILL || event.code == 128 + SIGKILL);
}

/// A failure of the same file came first: whoever ended the run then did not start it. A lost
/// connection alone is none, but where anything else tells of a failure it shows when that was.
bool failure_before(const std::vector<Event>& events, const Event& ending) {
    bool before = false, lost = false, failed = false;
    for (const Event& other : events) {
        if (other.place.file != ending.place.file || other.attempt != ending.attempt ||
            other.role == Role::external || other.line_id == "table-row")
            continue;
        const bool earlier = other.place.order < ending.place.order;
        before |= earlier && other.role < Role::consequence;
        lost |= earlier && other.role == Role::consequence;
        failed |= other.role < Role::consequence;
    }
    return before || (lost && failed);
}

/// An event of a rank that was being ended: absent from the table, and after its agent had begun.
bool of_ended_rank(const Event& event, const Evidence& evidence, const Ranks& ranks) {
    if (!event.after_closing) return false;
    if (event.line_id == "late") return true;
    const std::optional<int> rank = ranks.of(event);
    if (!rank || evidence.closing.empty()) return false;
    bool table = false;
    for (const TableRow& row : evidence.table) {
        if (row.place.file != event.place.file || row.attempt != event.attempt) continue;
        table = true;
        if (row.rank == rank) return false;
    }
    return table;
}

/// Kernel lines name a process: of a rank, of the one that died by signal 9, or of somebody else.
void weigh_kernel_kill(Event& event, const std::vector<Event>& events, const Evidence& evidence,
                       const Ranks& ranks) {
    if (ranks.of(event)) return;
    for (const Event& other : events)  // a rank says that this process of its own was killed
        if (&other != &event && other.role <= Role::cause && event.origin.pid &&
            other.origin.pid == event.origin.pid && !other.of_kernel && ranks.of(other)) {
            event.ranks = {*ranks.of(other)};
            return;
        }
    const Event* victim = nullptr;
    std::set<int> victims;
    bool other_causes = false;
    for (const Event& other : events) {
        if (is_sigkill(other)) {
            victim = &other;
            if (const auto rank = ranks.of(other)) victims.insert(*rank);
        }
        other_causes |= other.role == Role::cause;
    }
    const auto told = [&](const Event& other) {
        return &other != &event && other.role == Role::outside && other.of == event.of &&
               ranks.of(other);
    };
    if (const auto named = std::find_if(events.begin(), events.end(), told);
        named != events.end()) {
        event.ranks = {*ranks.of(*named)};  // the scheduler says whose it was
        event.node = named->node;
    } else if (victims.size() == 1) {
        event.ranks = {*victims.begin()};
        if (event.node.empty()) event.node = victim->node;
    } else if (victim == nullptr && (other_causes || event.line_id == "oom-counter")) {
        event.role = Role::noise;  // about another process
    }
    if (event.line_id == "oom-counter" && evidence.table.empty() && victim == nullptr)
        event.role = Role::noise;
}

/// A kernel's log goes back for weeks. What a rank says of itself stands against an old Xid, unless
/// that names a process of the job, or the rank's words are what a GPU's failure looks like.
bool explained_otherwise(const Event& xid, const std::vector<Event>& events, const Ranks& ranks) {
    if (ranks.of(xid)) return false;
    return std::any_of(events.begin(), events.end(), [](const Event& other) {
        if (other.role != Role::cause || other.of == nullptr) return false;
        for (const char* gpu :
             {"cuda-error", "gpu-hardware", "nvlink-fabric", "cuda-illegal-access", "nccl-cuda",
              "nccl-internal", "native-crash"})
            if (other.of->id == gpu) return false;
        return true;
    });
}

/// A line of the kernel's log from another day than everything else that is dated. Hours cannot
/// tell: a container's clock may be of another time zone.
bool is_of_another_day(const Event& kernel, const std::vector<Event>& events,
                       const Evidence& evidence) {
    constexpr double kDay = 24;
    if (!kernel.of_kernel || !kernel.time) return false;
    std::vector<LogTime> times;
    for (const Event& event : events)
        // Who ended the run came when it had hung for days, maybe.
        if (event.time && !event.of_kernel && event.role != Role::external &&
            event.role < Role::teardown)
            times.push_back(*event.time);
    for (const TableRow& row : evidence.table)
        if (row.time) times.push_back(*row.time);
    int year = 0;  // a time without one is of the year that another tells, or of the next
    for (const LogTime& time : times) year = std::max(year, time.year);
    const auto is_near = [&](LogTime time) {
        const int told = time.year;
        for (const int one : {told > 0 ? told : year, told > 0 || year == 0 ? told : year + 1}) {
            time.year = one;
            if (hours_apart(time, *kernel.time) <= kDay) return true;
        }
        return false;
    };
    return !times.empty() && std::none_of(times.begin(), times.end(), is_near);
}

/// Something ended on another node than that of the adapter which gave up: a peer that died and a
/// link that failed look the same.
bool peer_may_have_died(const Event& retry, const std::vector<Event>& events, const Ranks& ranks) {
    const std::string own = ranks.host_of(retry, ranks.of(retry));
    return std::any_of(events.begin(), events.end(), [&](const Event& other) {
        if (other.role > Role::hint || other.of == nullptr || gave_up_on_peer(other) ||
            other.attempt != retry.attempt)
            return false;
        const std::string node = ranks.host_of(other, ranks.of(other));
        const bool killed = is_sigkill(other) || other.line_id == "srun-killed" ||
                            other.role == Role::outside || other.of->id == "native-crash";
        return killed && !own.empty() && !node.empty() && node != own;
    });
}

/// A launcher says that it could not start on a node: what ssh said is why.
void confirm_ssh(std::vector<Event>& events) {
    for (Event& said : events) {
        if (said.line_id != "ssh") continue;
        const bool confirmed = std::any_of(events.begin(), events.end(), [&](const Event& other) {
            return other.line_id == "ssh-failed" && other.place.file == said.place.file &&
                   other.place.order > said.place.order && other.attempt == said.attempt;
        });
        if (confirmed) said.role = Role::cause;
    }
}

}  // namespace

void weigh(std::vector<Event>& events, const Evidence& evidence, const Ranks& ranks) {
    for (Event& event : events)
        if (is_of_another_day(event, events, evidence)) event.role = Role::noise;
    confirm_ssh(events);
    for (Event& event : events)  // Slurm kills what does not end by itself
        if (event.line_id == "srun-killed" && event.after_closing) event.role = Role::teardown;
    const auto told_before = [&](const Event& end) {
        return std::any_of(events.begin(), events.end(), [&](const Event& other) {
            return other.role < Role::consequence && other.place.file == end.place.file &&
                   other.attempt == end.attempt && other.place.order < end.place.order;
        });
    };
    for (Event& event : events)  // what a shell says last: somebody ended what hung or had failed
        if (event.line_id == "shell-killed" && told_before(event)) event.role = Role::teardown;
    for (Event& event : events)
        if ((event.role == Role::cause || event.role == Role::external) &&
            of_ended_rank(event, evidence, ranks))
            event.role = Role::teardown;
    // What an agent's own time-out or the scheduler's words say counts for all files together only
    // in one direction: a failure before it in its file.
    for (Event& event : events)
        if (event.role == Role::external && failure_before(events, event))
            event.role = Role::teardown;
    for (Event& event : events)
        if (gave_up_on_peer(event) && event.role == Role::cause &&
            peer_may_have_died(event, events, ranks))
            event.role = Role::consequence;
    for (Event& event : events)
        if (event.line_id == "xid" && event.role == Role::outside &&
            explained_otherwise(event, events, ranks))
            event.role = Role::teardown;
    for (Event& event : events) {
        if (event.role == Role::outside &&
            (event.line_id == "oom-kill" || event.line_id == "oom-counter"))
            weigh_kernel_kill(event, events, evidence, ranks);
        if (event.line_id == "oom-counter" && event.role == Role::outside && event.code == 0)
            event.role = Role::noise;
    }
}

}  // namespace toporun::launcher::failures
