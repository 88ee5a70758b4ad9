#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/failures/judge.hpp"

namespace toporun::launcher::failures {
namespace {

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

void add_time_outs(const std::vector<Event>& events, const Evidence& evidence,
                   const Catalogue& catalogue, const Ranks& ranks, std::vector<Event>& found) {
    for (Event& event : judge_time_outs(events, evidence, catalogue, ranks))
        found.push_back(std::move(event));
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
                                numbers_text(fewest->second)),
        text, place));
}

/// Anything that says that the run did not end as it should.
bool went_wrong(const std::vector<Event>& events, const Evidence& evidence) {
    const auto failed = [](const auto& process) { return process.second.failed; };
    if (!evidence.table.empty() || std::any_of(evidence.nccl.begin(), evidence.nccl.end(), failed))
        return true;
    return std::any_of(events.begin(), events.end(),
                       [](const Event& event) { return event.role <= Role::consequence; });
}

/// `Connection closed by localRank L` names the process that ended; one that saw a closed
/// connection itself is a victim.
void add_closed(const std::vector<Event>& events, const Catalogue& catalogue, const Ranks& ranks,
                const Evidence& evidence, std::vector<Event>& found) {
    // Where ranks leave without taking their communicators down every log ends so.
    // Then only one that several others miss, and no other is named, may have died alone.
    std::map<std::pair<std::string, int>, std::set<std::int64_t>> named;
    for (const Event& event : events)
        if (event.line_id == "service-closed" && event.origin.local_rank && event.origin.pid)
            named[{event.origin.host, *event.origin.local_rank}].insert(*event.origin.pid);
    const bool wrong = went_wrong(events, evidence);
    if (!wrong && (named.size() != 1 || named.begin()->second.size() < 2)) return;
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
        Event ended = lag_event(
            catalogue, "unknown-kill", wrong ? Role::lag : Role::ambiguous,
            dead != nullptr && dead->rank ? std::vector<int>{*dead->rank} : std::vector<int>{},
            fmt::format("the process of local rank {} on {} ended without a word",
                        *event.origin.local_rank, event.origin.host),
            event.evidence, event.place);
        ended.node = event.origin.host;
        ended.gpu = event.origin.local_rank;
        found.push_back(std::move(ended));
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
                                              numbers_text(missing)),
                                  first->evidence, first->place));
}

}  // namespace

std::vector<Event> lag_events(const std::vector<Event>& events, const Evidence& evidence,
                              const Catalogue& catalogue, const Ranks& ranks) {
    std::vector<Event> found;
    add_fingerprints(evidence, catalogue, found);
    add_time_outs(events, evidence, catalogue, ranks, found);
    add_missing(events, evidence, catalogue, ranks, found);
    add_closed(events, catalogue, ranks, evidence, found);
    return found;
}

}  // namespace toporun::launcher::failures
