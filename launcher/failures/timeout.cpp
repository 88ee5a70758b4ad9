#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/failures/first_time_out.hpp"
#include "launcher/failures/judge.hpp"

/// Time-outs of PyTorch's process groups: who waited, and who did not come. Numbers of works count
/// in one group only, ranks in brackets are ranks in it (ProcessGroupNCCL.cpp).
namespace toporun::launcher::failures {
namespace {

struct Member {
    const WorkState* state = nullptr;
    std::optional<int> rank;  ///< global
    bool waiting = false;     ///< its work timed out
};

struct Group {
    std::string name;
    std::vector<Member> members;
    bool whole = false;  ///< the default group: its ranks are those of the job
    bool mixed = false;  ///< lines of several groups that do not say of which
};

bool is_whole(std::string_view name) {
    return name.find("default_pg") != name.npos || name == "0" || name == "ID 0";
}

/// "group 21(mesh_ep)" of "ID 4 PG GUID 21(mesh_ep)".
std::string shown(const Group& group) {
    if (group.whole || group.name.empty()) return {};
    constexpr std::string_view kMark = "GUID ";
    const std::size_t at = group.name.find(kMark);
    return " of group " +
           (at == group.name.npos ? group.name : group.name.substr(at + kMark.size()));
}

/// Where each stream told of an error of NCCL first.
class FirstErrors {
  public:
    explicit FirstErrors(const std::vector<Event>& events) {
        for (const Event& event : events) {
            if (event.role >= Role::teardown || event.line_id == "work" ||
                event.line_id == "failed-work" || event.line_id == "witness")
                continue;
            const auto [known, added] = orders_.emplace(
                std::pair(event.place.file, stream_key(event.origin)), event.place.order);
            if (!added) known->second = std::min(known->second, event.place.order);
        }
    }

    /// An error in the same stream before: the work was ended by it, not by its limit.
    bool before(const WorkState& state) const {
        const auto known = orders_.find(std::pair(state.place.file, stream_key(state.origin)));
        return known != orders_.end() && known->second < state.place.order;
    }

  private:
    std::map<std::pair<int, std::string>, decltype(Place::order)> orders_;
};

std::vector<Group> groups_of(const std::vector<const WorkState*>& works, const FirstErrors& errors,
                             const Ranks& ranks) {
    std::map<std::string, Group> named;
    std::vector<Member> unnamed;
    for (const WorkState* work : works) {
        const WorkState& state = *work;
        Member member{&state, ranks.of(state.origin, state.place.file), false};
        member.waiting = state.work && (state.timed_out || !errors.before(state));
        if (state.group.empty()) {
            unnamed.push_back(member);
            continue;
        }
        Group& group = named[state.group];
        group.name = state.group;
        group.whole = is_whole(state.group);
        if (group.whole && !member.rank) member.rank = state.group_rank;
        group.members.push_back(member);
    }
    const auto same_work = [&](const Group& group, const Member& member) {
        return std::any_of(group.members.begin(), group.members.end(), [&](const Member& other) {
            return other.state->work && other.state->work == member.state->work;
        });
    };
    const auto has_work = [](const Group& group) {
        return std::any_of(group.members.begin(), group.members.end(),
                           [](const Member& member) { return member.state->work.has_value(); });
    };
    const bool witnesses_only = named.size() == 1 && !has_work(named.begin()->second);
    Group rest;
    rest.whole = named.empty();
    for (Member& member : unnamed) {
        std::vector<Group*> fitting;
        for (auto& entry : named)
            if (same_work(entry.second, member)) fitting.push_back(&entry.second);
        // Ranks that did not time out tell their group's name, those that did may not.
        if (fitting.empty() && witnesses_only) fitting.push_back(&named.begin()->second);
        Group& group = fitting.size() == 1 ? *fitting.front() : rest;
        if (group.whole && !member.rank) member.rank = member.state->group_rank;
        group.members.push_back(member);
    }
    std::map<int, std::int64_t> work_of;
    for (const Member& member : rest.members)
        if (member.state->group_rank && member.state->work)
            rest.mixed |=
                work_of.emplace(*member.state->group_rank, *member.state->work).first->second !=
                *member.state->work;
    if (rest.mixed) rest.whole = false;
    std::vector<Group> groups;
    for (auto& entry : named) groups.push_back(std::move(entry.second));
    if (!rest.members.empty()) groups.push_back(std::move(rest));
    return groups;
}

std::vector<int> global_ranks(const std::vector<const Member*>& members) {
    std::set<int> ranks;
    for (const Member* member : members)
        if (member->rank) ranks.insert(*member->rank);
    return {ranks.begin(), ranks.end()};
}

/// "rank 3", "ranks 0, 2, 4", "ranks 1, 2 of group 7(dp)" where the global ones are not known.
std::string who(const std::vector<const Member*>& members, const Group& group) {
    const std::vector<int> global = global_ranks(members);
    if (global.size() == members.size())
        return fmt::format("rank{} {}", global.size() == 1 ? "" : "s", numbers_text(global));
    std::vector<int> inner;
    for (const Member* member : members)
        if (member->state->group_rank) inner.push_back(*member->state->group_rank);
    std::sort(inner.begin(), inner.end());
    return fmt::format("rank{} {}{}", inner.size() == 1 ? "" : "s", numbers_text(inner),
                       shown(group));
}

bool is_pair(const std::string& op) {
    return op == "SEND" || op == "RECV" || op.starts_with("COALESCED");
}

/// What all ranks must call alike. Sizes differ by right in all-to-all, gather, scatter and lists.
std::string kind_of(const WorkState& state) {
    if (is_pair(state.op)) return "SEND/RECV";
    for (const char* name :
         {"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})
        if (state.op == name)
            return state.sizes.empty()
                       ? state.op
                       : state.op + " (" + state.sizes.substr(0, state.sizes.size() - 2) + ")";
    return state.op;
}

/// One group's time-outs on their way to a verdict.
struct Question {
    const Catalogue& catalogue;
    const Ranks& ranks;
    const Evidence& evidence;
    const Group& group;
    std::set<int> spoken;  ///< ranks that waited, in whatever group
    std::vector<const Member*> waiting;
    std::int64_t least = 0;

    std::string work() const { return fmt::format("work {}{}", least, shown(group)); }

    Event answer(std::string_view cause, Role role, std::vector<int> suspects, std::string says,
                 const Member& member) const {
        Event event;
        event.role = role;
        event.of = catalogue.find_class(cause);
        event.line_id = "lag";
        event.ranks = std::move(suspects);
        event.says = std::move(says);
        event.evidence = member.state->evidence;
        event.place = member.state->place;
        event.attempt = member.state->attempt;
        return event;
    }

    /// A rank that never called the work on which the others wait.
    std::optional<Event> behind() const {
        std::vector<const Member*> late;
        for (const Member& member : group.members) {
            const auto& enqueued = member.state->enqueued;
            if (!member.waiting && enqueued && *enqueued >= -1 && *enqueued < least)
                late.push_back(&member);
        }
        if (late.empty() || group.mixed) return std::nullopt;
        Event event = answer(
            "slow-rank", Role::lag, global_ranks(late),
            fmt::format("{} never called {}, on which the others wait", who(late, group), work()),
            *late.front());
        return event;
    }

    /// The same number, another operation or size.
    std::optional<Event> mismatch() const {
        std::map<std::string, std::vector<const Member*>> kinds;
        for (const Member* member : waiting)
            if (*member->state->work == least && !member->state->op.empty())
                kinds[kind_of(*member->state)].push_back(member);
        if (kinds.size() < 2 || group.mixed) return std::nullopt;
        auto fewest = kinds.begin();
        for (auto kind = kinds.begin(); kind != kinds.end(); ++kind)
            if (kind->second.size() < fewest->second.size()) fewest = kind;
        std::size_t equals = 0;
        std::vector<std::string> words;
        for (const auto& [kind, members] : kinds) {
            equals += members.size() == fewest->second.size() ? 1 : 0;
            if (words.size() < 4) words.push_back(who(members, group) + " in " + kind);
        }
        return answer("desync", Role::lag,
                      equals > 1 ? std::vector<int>{} : global_ranks(fewest->second),
                      fmt::format("{} is not the same everywhere: {}", work(), join(words, "; ")),
                      *fewest->second.front());
    }

    /// Other numbers: those who wait in the lowest are not to blame, nor is a root that is ahead.
    std::optional<Event> ahead() const {
        std::vector<const Member*> lowest;
        for (const Member* member : waiting)
            if (*member->state->work == least) lowest.push_back(member);
        if (lowest.size() == waiting.size() || group.mixed) return std::nullopt;
        if (is_pair(lowest.front()->state->op)) return std::nullopt;
        return answer("desync", Role::ambiguous, {},
                      fmt::format("{} wait{} in {}, others are ahead", who(lowest, group),
                                  lowest.size() == 1 ? "s" : "", work()),
                      *lowest.front());
    }

    /// Ranks of the job without a time-out, where so few are silent that they can be meant.
    std::vector<int> missing() const {
        std::set<int> waited;
        for (const Member* member : waiting)
            if (member->rank) waited.insert(*member->rank);
        if (!group.whole || waited.empty()) return {};
        std::set<int> silent;
        const auto add = [&](int rank) {
            if (!spoken.contains(rank)) silent.insert(rank);
            return silent.size() <= waited.size();
        };
        for (const int rank : ranks.heard())
            if (!add(rank)) return {};
        for (int rank = 0; rank < std::min(*waited.rbegin(), 65536); ++rank)
            if (!add(rank)) return {};
        return {silent.begin(), silent.end()};
    }

    /// Everybody who can be meant has said that he waits.
    bool complete() const {
        std::set<int> waited;
        for (const Member* member : waiting) {
            const auto rank = group.whole ? member->rank : member->state->group_rank;
            if (rank) waited.insert(*rank);
        }
        if (waited.empty() || group.mixed) return false;
        const bool through = *waited.rbegin() + 1 == static_cast<int>(waited.size());
        if (group.whole && ranks.size())
            return through && static_cast<int>(waited.size()) == *ranks.size();
        return through && waited.size() > 1;
    }

    bool never_worked() const {
        return std::all_of(waiting.begin(), waiting.end(), [](const Member* member) {
            const auto& done = member->state->completed;
            return done && (*done <= 0) && *member->state->work <= 1;
        });
    }

    Event stopped() const {
        const bool all = group.whole && ranks.size();
        std::string says = fmt::format("{}{} waited in {}: communication itself stopped{}",
                                       who(waiting, group), all ? ", all there are," : "", work(),
                                       all ? "" : ", or a rank whose log is missing did not come");
        if (never_worked())
            says = fmt::format("{} sit in the first collective, {}: communication has never worked",
                               who(waiting, group), work());
        Event event = answer("communication-stopped", Role::ambiguous, {}, says, *waiting.front());
        using detect::nccl_log::Transport;
        const std::set<Transport>& used = evidence.transports;
        if (used.contains(Transport::net))
            event.advice =
                "the links between the nodes: toporun probe, the adapters' counters, firewall and "
                "routes between the addresses that NCCL took";
        else if (used.contains(Transport::p2p))
            event.advice =
                "P2P between the GPUs, which these ranks use: toporun doctor on the node; PCIe ACS "
                "and "
                "the IOMMU break it";
        return event;
    }

    Event judge() const {
        if (auto event = behind()) return *event;
        if (auto event = mismatch()) return *event;
        if (auto event = ahead()) return *event;
        const Member& first = *waiting.front();
        if (const std::vector<int> silent = missing(); !silent.empty())
            return answer("slow-rank", Role::ambiguous, silent,
                          fmt::format("rank{} {} did not come to {}, on which the others wait",
                                      silent.size() == 1 ? "" : "s", numbers_text(silent), work()),
                          first);
        // Far above the limit: the watchdog itself could not run.
        const auto& ran = first.state->ran_ms;
        const auto& limit = first.state->limit_ms;
        if (ran && limit && *ran > 2 * *limit)
            return answer("watchdog-stuck", Role::ambiguous, {},
                          fmt::format("{} ran for {} ms with a limit of {} ms: the watchdog could "
                                      "not run",
                                      work(), *ran, *limit),
                          first);
        if (complete()) return stopped();
        Event event = answer("slow-rank", Role::ambiguous, {},
                             fmt::format("{} waited in {}; which rank did not come is not in these "
                                         "logs",
                                         who(waiting, group), work()),
                             first);
        event.advice =
            "the logs of the other ranks and nodes: the one without a time-out is the first "
            "suspect";
        return event;
    }
};

/// When the first work of these on which a rank waits began: the time of its line without how long
/// it ran.
std::optional<double> started(const std::vector<const Member*>& waiting) {
    std::optional<double> first;
    for (const Member* member : waiting) {
        const auto said = clock_of(member->state->origin.time);
        if (!said || !member->state->ran_ms) continue;
        const double began = *said - static_cast<double>(*member->state->ran_ms) / 1000;
        if (!first || clock_difference(began, *first) < 0) first = began;
    }
    return first;
}

/// The time-outs of one start of the ranks.
std::optional<Event> judge_attempt(const std::vector<const WorkState*>& works,
                                   const FirstErrors& errors, const Evidence& evidence,
                                   const Catalogue& catalogue, const Ranks& ranks) {
    const std::vector<Group> groups = groups_of(works, errors, ranks);
    std::set<int> spoken;
    for (const Group& group : groups)
        for (const Member& member : group.members)
            if (member.waiting && member.rank) spoken.insert(*member.rank);
    std::vector<GroupTimeOut> found;
    for (const Group& group : groups) {
        Question question{catalogue, ranks, evidence, group, spoken, {}, 0};
        for (const Member& member : group.members) {
            if (!member.waiting) continue;
            const std::int64_t work = *member.state->work;
            question.least = question.waiting.empty() ? work : std::min(question.least, work);
            question.waiting.push_back(&member);
        }
        if (question.waiting.empty()) continue;
        found.push_back({question.judge(), started(question.waiting)});
    }
    if (found.empty()) return std::nullopt;
    return std::move(found[first_time_out(found)].event);
}

}  // namespace

std::vector<Event> judge_time_outs(const std::vector<Event>& events, const Evidence& evidence,
                                   const Catalogue& catalogue, const Ranks& ranks) {
    std::map<int, std::vector<const WorkState*>> attempts;  // those with time-outs alone
    for (const WorkState& state : evidence.work) attempts[state.attempt].push_back(&state);
    const FirstErrors errors(events);
    std::vector<Event> found;
    for (const auto& attempt : attempts)
        if (auto event = judge_attempt(attempt.second, errors, evidence, catalogue, ranks))
            found.push_back(std::move(*event));
    return found;
}

}  // namespace toporun::launcher::failures
