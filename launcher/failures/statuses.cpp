#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "launcher/failures/judge.hpp"

/// Exit statuses as shells and launchers show them: 128 + signal, negative for torchrun.
namespace toporun::launcher::failures {
namespace {

struct Status {
    std::optional<int> signal;
    std::optional<int> code;
};

Status status_of(const Event& event) {
    if (event.signal) return {event.signal, std::nullopt};
    if (!event.code) return {};
    if (*event.code < 0) return {-*event.code, std::nullopt};
    if (*event.code > 128 && *event.code <= 128 + 64) return {*event.code - 128, std::nullopt};
    return {std::nullopt, event.code};
}

bool is_crash(int signal) {
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
           signal == SIGABRT;
}

bool of_rank(const Event& event, const Ranks& ranks, const std::optional<int>& rank) {
    return rank && ranks.of(event) == rank;
}

std::string signal_name(int signal) {
    const char* name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace

void judge_status(Event& event, const Evidence& evidence, const Catalogue& catalogue,
                  const Ranks& ranks) {
    const Status status = status_of(event);
    const std::optional<int> rank = ranks.of(event);
    const auto told = [&](Role role) {
        return std::any_of(evidence.events.begin(), evidence.events.end(), [&](const Event& other) {
            return other.role == role && of_rank(other, ranks, rank);
        });
    };
    // A watchdog's line without a label may be of any rank.
    const bool waited_unnamed =
        std::any_of(evidence.work.begin(), evidence.work.end(), [&](const WorkState& state) {
            return state.attempt == event.attempt && !ranks.of(state.origin, state.place.file);
        });
    event.role = Role::teardown;
    if (status.signal) {
        const int signal = *status.signal;
        event.signal = signal;
        // An abort follows a watchdog's line, which says more.
        if (signal == SIGABRT && (told(Role::ambiguous) || waited_unnamed)) return;
        if (signal == SIGBUS) {
            event.role = Role::hint;
            event.of = catalogue.find_class("shm-full");
            event.says = "ended by SIGBUS: mostly shared memory is full";
        } else if (is_crash(signal)) {
            event.role = Role::hint;
            event.of = catalogue.find_class("native-crash");
            event.says = fmt::format("ended by {}", signal_name(signal));
        } else if (signal == SIGKILL) {
            event.of = catalogue.find_class("unknown-kill");
            event.says = "killed by signal 9, the sender is unknown";
            event.role = event.after_closing ? Role::teardown : Role::hint;
        }
        return;
    }
    if (!status.code || *status.code == 0) return;
    event.role = Role::hint;
    event.of = catalogue.find_class("silent-exit");
    event.says = fmt::format("ended with {} and did not say why", *status.code);
    if (told(Role::consequence) || told(Role::ambiguous)) event.role = Role::teardown;
    // 1 is what an exception gives: silent only where every exception is another rank's.
    const auto of_unknown = [&](const Event& other) {
        return other.role <= Role::consequence && other.role != Role::hint && !ranks.of(other);
    };
    if (*status.code == 1 &&
        std::any_of(evidence.events.begin(), evidence.events.end(), of_unknown))
        event.role = Role::teardown;
}

namespace {

Event event_of_row(const TableRow& row, const Evidence& evidence) {
    Event event;
    event.line_id = "table-row";
    event.place = row.place;
    event.attempt = row.attempt;
    event.node = row.host;
    event.code = row.exit_code;
    event.origin.pid = row.pid;
    event.origin.local_rank = row.local_rank;
    if (row.rank) event.ranks = {*row.rank};
    event.evidence =
        fmt::format("rank: {} exitcode: {} (pid: {})", row.rank ? std::to_string(*row.rank) : "?",
                    row.exit_code ? std::to_string(*row.exit_code) : "?",
                    row.pid ? std::to_string(*row.pid) : "?");
    // The agent had to kill it: it hung, or it is a victim.
    for (const Event& other : evidence.events)
        if (other.line_id == "forced" && row.pid && other.origin.pid == row.pid)
            event.after_closing = true;
    return event;
}

}  // namespace

std::vector<Event> with_statuses(const Evidence& evidence, const Catalogue& catalogue,
                                 const Ranks& ranks) {
    std::vector<Event> events = evidence.events;
    for (Event& event : events)  // a task of several ranks: its number is none of theirs
        if (event.by_task && evidence.slurm_agents) event.ranks.clear();
    const auto in_table = [&](const Event& event) {
        return std::any_of(evidence.table.begin(), evidence.table.end(), [&](const TableRow& row) {
            return row.pid && row.pid == event.origin.pid;
        });
    };
    for (Event& event : events)  // a table that is cut off, or never came
        if (event.line_id == "agent-failed" && !in_table(event)) event.role = Role::hint;
    for (Event& event : events)
        if (event.of == nullptr && event.role == Role::hint)
            judge_status(event, evidence, catalogue, ranks);
    const auto killed = [](const TableRow& row) { return row.exit_code == -SIGKILL; };
    const bool all_killed = evidence.table.size() > 1 &&
                            std::all_of(evidence.table.begin(), evidence.table.end(), killed);
    for (const TableRow& row : evidence.table) {
        Event event = event_of_row(row, evidence);
        judge_status(event, evidence, catalogue, ranks);
        if (all_killed) event.role = Role::ambiguous;
        events.push_back(std::move(event));
    }
    return events;
}

}  // namespace toporun::launcher::failures
