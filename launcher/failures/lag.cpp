#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/failures/judge.hpp"

namespace toporun::launcher::failures {
namespace {

using Work = std::map<int, WorkState>;

std::string rank_list(const std::vector<int>& ranks) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> words;
    for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i)
        words.push_back(std::to_string(ranks[i]));
    std::string text = join(words, ", ");
    if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
    return text;
}

Event lag_event(const Catalogue& catalogue, std::string_view cause, Role role,
                std::vector<int> ranks, const std::string& says, const std::string& evidence,
                const Place& place) {
    Event event;
    event.role = role;
    event.of = catalogue.find_class(cause);
    event.line_id = "lag";
    event.ranks = std::move(ranks);
    event.says = says;
    event.evidence = evidence;
    event.place = place;
    return event;
}

/// Work whose root may be ahead by several numbers without fault: it ends when its data are out.
bool is_rooted(const std::string& op) {
    for (const char* name : {"BROADCAST", "REDUCE", "SCATTER", "GATHER", "SEND", "RECV"})
        if (op == name) return true;
    return false;
}

/// The time-outs of one process group.
std::optional<Event> judge_group(const Work& work, const std::set<int>& known, bool default_group,
                                 const Catalogue& catalogue) {
    std::optional<std::int64_t> least;
    const WorkState* first = nullptr;
    for (const auto& [rank, state] : work) {
        if (!state.timed_out) continue;
        if (!least || *state.timed_out < *least) least = state.timed_out;
        if (first == nullptr) first = &state;
    }
    if (first == nullptr) return std::nullopt;
    // a. A rank that never called the work on which the others wait.
    std::vector<int> behind;
    for (const auto& [rank, state] : work)
        if (state.enqueued && *state.enqueued >= -1 && *state.enqueued < *least)
            behind.push_back(rank);
    if (!behind.empty() && behind.size() < work.size())
        return lag_event(catalogue, "desync", Role::lag, behind,
                         fmt::format("rank {} never called work {}, on which the others wait",
                                     rank_list(behind), *least),
                         work.at(behind.front()).evidence, work.at(behind.front()).place);
    // b. The same number, another operation or size.
    std::map<std::string, std::vector<int>> kinds;
    std::map<std::int64_t, std::vector<int>> numbers;
    for (const auto& [rank, state] : work) {
        if (!state.timed_out) continue;
        numbers[*state.timed_out].push_back(rank);
        if (*state.timed_out == *least && !state.op.empty())
            kinds[state.op + " " + state.sizes].push_back(rank);
    }
    if (kinds.size() > 1) {
        auto fewest = kinds.begin();
        bool tie = false;
        for (auto kind = std::next(kinds.begin()); kind != kinds.end(); ++kind) {
            tie = kind->second.size() == fewest->second.size();
            if (kind->second.size() < fewest->second.size()) fewest = kind;
        }
        std::vector<std::string> words;
        for (const auto& [kind, ranks] : kinds)
            words.push_back(
                fmt::format("rank {} in {}", rank_list(ranks), kind.substr(0, kind.find(' '))));
        return lag_event(
            catalogue, "desync", Role::lag,
            tie && kinds.size() == 2 ? std::vector<int>{} : fewest->second,
            fmt::format("work {} is not the same everywhere: {}", *least, join(words, "; ")),
            work.at(fewest->second.front()).evidence, work.at(fewest->second.front()).place);
    }
    // c. Another number: those ahead of a rooted work are not to blame.
    if (numbers.size() > 1) {
        const std::vector<int>& waiting = numbers.begin()->second;
        return lag_event(
            catalogue, "desync", Role::ambiguous,
            is_rooted(first->op) ? std::vector<int>{} : waiting,
            fmt::format("rank {} waits in work {}, others are ahead", rank_list(waiting), *least),
            work.at(waiting.front()).evidence, work.at(waiting.front()).place);
    }
    // e. All alike, some ranks missing. Ranks of other groups are not numbered through.
    std::vector<int> missing;
    if (default_group)
        for (const int rank : known)
            if (!work.contains(rank)) missing.push_back(rank);
    if (!missing.empty() && missing.size() < work.size() + missing.size())
        return lag_event(catalogue, "slow-rank", Role::ambiguous, missing,
                         fmt::format("rank {} did not come to work {}, on which the others wait",
                                     rank_list(missing), *least),
                         first->evidence, first->place);
    // M far above T: the watchdog itself could not run.
    if (first->ran_ms && first->limit_ms && *first->ran_ms > 2 * *first->limit_ms)
        return lag_event(catalogue, "watchdog-stuck", Role::ambiguous, {},
                         fmt::format("work {} ran for {} ms with a limit of {} ms: the watchdog "
                                     "could not run",
                                     *least, *first->ran_ms, *first->limit_ms),
                         first->evidence, first->place);
    // d. Nobody is missing: communication itself stopped.
    return lag_event(catalogue, "slow-rank", Role::ambiguous, {},
                     fmt::format("all ranks waited in work {}: communication itself stopped, "
                                 "look at the network and the GPUs",
                                 *least),
                     first->evidence, first->place);
}

/// Several groups: the one whose waiting work began first, as far as its lines tell; else the one
/// with the fewest waiting.
void add_work(const Evidence& evidence, const Catalogue& catalogue, const Ranks& ranks,
              std::vector<Event>& found) {
    std::vector<Event> judged;
    for (const auto& [group, work] : evidence.work) {
        const bool default_group =
            evidence.work.size() == 1 || group.empty() || group.find("default_pg") != group.npos;
        if (auto event = judge_group(work, ranks.known(), default_group, catalogue))
            judged.push_back(std::move(*event));
    }
    std::stable_sort(judged.begin(), judged.end(), [](const Event& a, const Event& b) {
        return a.role != b.role ? a.role < b.role : a.place.order < b.place.order;
    });
    if (!judged.empty()) found.push_back(judged.front());
}

/// Every rank prints the collective that it is in and that of one other: the minority is at fault.
void add_fingerprints(const Evidence& evidence, const Catalogue& catalogue,
                      std::vector<Event>& found) {
    std::map<std::string, std::vector<int>> kinds;
    for (const auto& [rank, fingerprint] : evidence.fingerprints)
        kinds[fingerprint.first].push_back(rank);
    if (kinds.empty()) return;
    auto fewest = kinds.begin();
    std::size_t equals = 0;
    for (auto kind = kinds.begin(); kind != kinds.end(); ++kind) {
        if (kind->second.size() < fewest->second.size()) fewest = kind;
    }
    for (const auto& kind : kinds) equals += kind.second.size() == fewest->second.size() ? 1 : 0;
    const bool undecided = kinds.size() < 2 || equals > 1;
    const auto& [text, place] = evidence.fingerprints.at(fewest->second.front());
    found.push_back(lag_event(
        catalogue, "desync", Role::cause, undecided ? std::vector<int>{} : fewest->second,
        undecided ? "ranks called different collectives; which of them is wrong cannot be told"
                  : fmt::format("rank {} called another collective than the others",
                                rank_list(fewest->second)),
        text, place));
}

/// `Connection closed by localRank L` names the process that ended; one that saw a closed
/// connection itself is a victim.
void add_closed(const std::vector<Event>& events, const Catalogue& catalogue, const Ranks& ranks,
                const Evidence& evidence, std::vector<Event>& found) {
    for (const Event& event : events) {
        if (event.line_id != "service-closed" || !event.origin.local_rank || !event.origin.pid)
            continue;
        const auto observer = evidence.nccl.find({event.origin.host, *event.origin.pid});
        if (observer != evidence.nccl.end() && observer->second.ended) continue;  // a normal end
        const NcclProcess* dead = ranks.local(event.origin.host, *event.origin.local_rank);
        if (dead != nullptr && (dead->failed || dead->ended)) continue;
        const auto may_be_it = [&](const auto& other) {
            return other.first.first == event.origin.host && !other.second.rank &&
                   other.second.failed;
        };
        if (dead == nullptr && std::any_of(evidence.nccl.begin(), evidence.nccl.end(), may_be_it))
            continue;
        Event named = lag_event(
            catalogue, "unknown-kill", Role::lag,
            dead != nullptr && dead->rank ? std::vector<int>{*dead->rank} : std::vector<int>{},
            fmt::format("the process of local rank {} on {} ended without a word",
                        *event.origin.local_rank, event.origin.host),
            event.evidence, event.place);
        named.node = event.origin.host;
        named.gpu = event.origin.local_rank;
        found.push_back(std::move(named));
    }
}

/// Time-outs without numbers (gloo): those that printed none are the ones that were waited for.
void add_missing(const std::vector<Event>& events, const Evidence& evidence,
                 const Catalogue& catalogue, const Ranks& ranks, std::vector<Event>& found) {
    std::set<int> waiting;
    const Event* first = nullptr;
    for (const Event& event : events) {
        if (event.line_id != "gloo-timeout") continue;
        if (first == nullptr) first = &event;
        if (const auto rank = ranks.of(event)) waiting.insert(*rank);
    }
    if (first == nullptr || waiting.empty()) return;
    std::vector<int> missing;
    for (const int rank : ranks.known())
        if (!waiting.contains(rank)) missing.push_back(rank);
    // Its agent still had to end it: it lived, and came too late.
    const Role role = evidence.closing.empty() ? Role::ambiguous : Role::lag;
    if (!missing.empty())
        found.push_back(lag_event(catalogue, "slow-rank", role, missing,
                                  fmt::format("rank {} did not come to a collective on which the "
                                              "others waited until their time-out",
                                              rank_list(missing)),
                                  first->evidence, first->place));
}

}  // namespace

std::vector<Event> lag_events(const std::vector<Event>& events, const Evidence& evidence,
                              const Catalogue& catalogue, const Ranks& ranks) {
    std::vector<Event> found;
    add_fingerprints(evidence, catalogue, found);
    add_work(evidence, catalogue, ranks, found);
    add_missing(events, evidence, catalogue, ranks, found);
    add_closed(events, catalogue, ranks, evidence, found);
    return found;
}

}  // namespace toporun::launcher::failures
