#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "launcher/failures/judge.hpp"

/// Ends of ranks' processes as the kernel told them to the observer.
namespace toporun::launcher::failures {
namespace {

constexpr int kCannotRun = 126;  // of toporun-shim, as of env
constexpr int kNotFound = 127;

bool ended_badly(const RankProcess& process) {
    return process.signal || process.code.value_or(0) != 0;
}

/// The kernel did not tell how it ended: somebody else had asked before.
bool is_unknown(const RankProcess& process) {
    return !process.signal && !process.code;
}

/// Signals by which somebody ends a run. SIGKILL too, but it has other senders.
bool is_request(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

std::string end_of(const RankProcess& process) {
    if (is_unknown(process)) return "with an unknown status";
    if (!process.signal) return fmt::format("with {}", *process.code);
    const char* name = sigabbrev_np(*process.signal);
    return name == nullptr ? fmt::format("by signal {}", *process.signal)
                           : fmt::format("by SIG{}", name);
}

/// How much an end looks like that of a victim: launchers end the ranks that are left by SIGTERM
/// and SIGKILL.
int victim_degree(const RankProcess& process) {
    if (!process.signal) return 0;
    if (is_request(*process.signal)) return 2;
    return *process.signal == SIGKILL ? 1 : 0;
}

/// The processes whose end was seen by the start of the ranks to which they belong, in the order of
/// their ends; victims behind those that ended at the same moment.
std::map<int, std::vector<RankProcess>> ended_in_order(const Evidence& evidence) {
    std::map<int, std::vector<RankProcess>> attempts;
    for (const RankProcess& process : evidence.processes)
        if (process.end_s) attempts[process.attempt].push_back(process);
    for (auto& attempt : attempts)
        std::stable_sort(attempt.second.begin(), attempt.second.end(),
                         [](const auto& a, const auto& b) {
                             return std::pair(*a.end_s, victim_degree(a)) <
                                    std::pair(*b.end_s, victim_degree(b));
                         });
    return attempts;
}

std::string followers_text(const std::vector<RankProcess>& ended, const RankProcess& first) {
    const auto next = std::find_if(ended.begin(), ended.end(), [&](const RankProcess& other) {
        return other.pid != first.pid && *other.end_s >= *first.end_s;
    });
    if (next == ended.end()) return "";
    return fmt::format("; rank {} ended {:.3f} s later {}", next->rank, *next->end_s - *first.end_s,
                       end_of(*next));
}

/// Ranks of the job whose ends were not seen here, on other nodes mostly: one of them may have
/// ended before.
bool others_unseen(const Evidence& evidence, const std::vector<RankProcess>& ended) {
    return evidence.ranks_started.value_or(0) > static_cast<int>(ended.size());
}

/// Every rank of the job ended by itself with the same status: one cause on all, or one failed and
/// the others did because of it.
bool all_alike(const Evidence& evidence, const std::vector<RankProcess>& ended) {
    if (ended.size() < 2 || others_unseen(evidence, ended)) return false;
    return std::all_of(ended.begin(), ended.end(), [&](const RankProcess& process) {
        return !process.signal && process.code && process.code == ended.front().code;
    });
}

/// Another rank ended in a like way at the same moment: either may be the first.
bool is_tie(const std::vector<RankProcess>& ended, const RankProcess& first) {
    return std::any_of(ended.begin(), ended.end(), [&](const RankProcess& process) {
        return &process != &first && ended_badly(process) && process.end_s == first.end_s &&
               victim_degree(process) == victim_degree(first);
    });
}

}  // namespace

std::vector<Event> end_events(const Evidence& evidence, const Catalogue& catalogue,
                              const Ranks& ranks) {
    std::vector<Event> events;
    for (const auto& entry : ended_in_order(evidence)) {
        const std::vector<RankProcess>& ended = entry.second;
        auto first = std::find_if(ended.begin(), ended.end(), ended_badly);
        const auto unknown = std::find_if(ended.begin(), first, is_unknown);
        // What was asked to end follows an end that was not understood.
        const bool asked =
            first == ended.end() ||
            (first->signal && (is_request(*first->signal) || *first->signal == SIGKILL));
        if (unknown != first && asked) first = unknown;
        if (first == ended.end()) continue;
        const bool unseen = others_unseen(evidence, ended);
        const std::string others =
            unseen ? "all other ranks whose end was seen here" : "all other ranks";
        Event event;
        event.line_id = "rank-end";
        event.place.file = static_cast<int>(evidence.files.size());  // none of them
        event.attempt = entry.first;
        event.node = first->host;
        event.origin.pid = first->pid;
        event.origin.local_rank = first->local_rank;
        event.ranks = {first->rank};
        event.signal = first->signal;
        event.code = first->code;
        event.evidence =
            fmt::format("process {} (rank {}) ended {} {:.3f} s after the start{}", first->pid,
                        first->rank, end_of(*first), *first->end_s, followers_text(ended, *first));
        if (event.signal && is_request(*event.signal)) {
            if (unseen) continue;
            event.of = catalogue.find_class("signal-external");
            event.role = Role::hint;
            event.says =
                fmt::format("ended {} before any rank had failed by itself", end_of(*first));
            events.push_back(std::move(event));
            continue;
        }
        if (is_unknown(*first)) {
            event.of = catalogue.find_class("unknown-kill");
            event.role = Role::ambiguous;
            event.says = fmt::format("ended before {}, how was not seen", others);
            events.push_back(std::move(event));
            continue;
        }
        judge_status(event, evidence, catalogue, ranks);
        if (event.of == nullptr) continue;
        event.says = fmt::format("ended {}, before {}", end_of(*first), others);
        if (evidence.processes.size() == 1) event.says = fmt::format("ended {}", end_of(*first));
        if (event.code == kNotFound || event.code == kCannotRun) {
            event.of = catalogue.find_class("environment");
        } else if (all_alike(evidence, ended)) {
            event.says =
                fmt::format("ended {} as all ranks did, the first of them", end_of(*first));
            if (event.role == Role::hint) event.role = Role::ambiguous;
        } else if ((unseen || is_tie(ended, *first)) && event.role == Role::hint) {
            event.role = Role::ambiguous;
        }
        events.push_back(std::move(event));
    }
    return events;
}

}  // namespace toporun::launcher::failures
