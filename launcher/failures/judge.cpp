#include "launcher/failures/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "launcher/failures/failure_log.hpp"

namespace toporun::launcher::failures {
namespace {

/// Roles by strength: somebody's ending of the run stands beside outside evidence.
int level(Role role) {
    return role == Role::external ? 0 : role == Role::outside ? 0 : static_cast<int>(role);
}

/// A kill and a crash make the others end with 1, or abort; hardly ever the other way round.
int weakness_of_end(const Event& event) {
    if (event.of != nullptr && event.of->id == "silent-exit") return 2;
    return event.signal == SIGABRT ? 1 : 0;
}

/// Of one level the more telling first: evidence bound to a rank or node before an ending, a
/// special class before a plain exception, a rank that is known before none.
int rank_within_level(const Event& event, const Ranks& ranks) {
    if (event.role == Role::external) return 3;
    if (event.line_id == "gloo-timeout") return 4;  // judged in lag.cpp
    const bool plain =
        event.of != nullptr && (event.of->id == "user-exception" || event.of->id == "native-crash");
    const bool general =
        event.general || (plain && event.role == Role::cause && event.frame.empty());
    const bool placed = ranks.of(event).has_value() || event.ranks.size() > 1;
    if (event.role == Role::outside) return placed && !event.node.empty() ? 0 : placed ? 1 : 2;
    if (event.role == Role::hint) return (placed ? 0 : 1) + 2 * weakness_of_end(event);
    return (placed ? 0 : 1) + (general ? 1 : 0);
}

/// The strongest event of each start of the ranks that has any, in their order.
std::vector<const Event*> strongest(const std::vector<Event>& events, const Ranks& ranks) {
    const auto key = [&](const Event& event) {
        return std::tuple(level(event.role), rank_within_level(event, ranks), event.place.order);
    };
    std::map<int, const Event*> attempts;
    for (const Event& event : events) {
        if (event.of == nullptr || event.role > Role::consequence) continue;
        const Event*& best = attempts[event.attempt];
        if (best == nullptr || key(event) < key(*best)) best = &event;
    }
    std::vector<const Event*> causes;
    for (const auto& attempt : attempts) causes.push_back(attempt.second);
    return causes;
}

/// Events of the same level and class as `first`: its rank is alone, or one of several.
struct Company {
    std::set<int> ranks;
    std::set<std::string> nodes;
    std::size_t sources = 0;  ///< streams that said it
};

Company company_of(const Event& first, const std::vector<Event>& events, const Ranks& ranks) {
    Company company;
    if (first.line_id == "lag") {  // names its ranks itself
        company.ranks.insert(first.ranks.begin(), first.ranks.end());
        return company;
    }
    std::set<std::string> streams;
    for (const Event& event : events) {
        if (level(event.role) != level(first.role) || event.attempt != first.attempt) continue;
        if (event.of != first.of) continue;
        const std::optional<int> rank = ranks.of(event);
        company.ranks.insert(event.ranks.begin(), event.ranks.end());
        if (rank) company.ranks.insert(*rank);
        if (const std::string node = ranks.host_of(event, rank); !node.empty())
            company.nodes.insert(node);
        streams.insert(std::to_string(event.place.file) + " " + stream_key(event.origin));
    }
    company.sources = streams.size();
    return company;
}

bool alike_on_all(const Event& first, const Company& company, const Ranks& ranks) {
    if (first.line_id == "unique-id") return false;  // they tell of one that is not among them
    const std::set<int>& known = ranks.known();
    if (known.size() > 1 &&
        std::includes(company.ranks.begin(), company.ranks.end(), known.begin(), known.end()))
        return true;
    // Launchers refuse a job as a whole.
    return first.of->id == "launcher-misuse" && company.ranks.empty();
}

Confidence confidence_of(const Event& event, const Company& company, bool all) {
    switch (event.role) {
        case Role::outside:
        case Role::external:
            return Confidence::certain;
        case Role::cause:
            // A peer that died looks the same as a bad link.
            if (event.of->severity == "unknown" || gave_up_on_peer(event))
                return Confidence::likely;
            return all || company.ranks.size() <= 1 ? Confidence::certain : Confidence::likely;
        case Role::hint:
        case Role::lag:
            return Confidence::likely;
        case Role::ambiguous:
            return Confidence::possible;
        default:
            return Confidence::unknown;
    }
}

/// A kernel's line of a host that no process of NCCL's was on, as far as the log tells. In a pod
/// they have another name.
bool is_of_other_host(const Event& event, const Evidence& evidence) {
    const auto first_label = [](const std::string& host) { return host.substr(0, host.find('.')); };
    const std::string host = first_label(event.node);
    if (!event.of_kernel || host.empty() || evidence.nccl.empty()) return false;
    return std::none_of(evidence.nccl.begin(), evidence.nccl.end(), [&](const auto& process) {
        return first_label(process.first.first) == host;
    });
}

std::string where_text(const Evidence& evidence, const Place& place) {
    const auto file = static_cast<std::size_t>(place.file);
    if (file >= evidence.files.size() || place.line == 0) return {};
    return fmt::format("{}:{}", evidence.files[file], place.line);
}

std::string who_text(const Verdict& verdict, const Origin& origin) {
    std::string who = verdict.all_ranks ? "all ranks" : "";
    if (!verdict.all_ranks && verdict.suspects.empty() && origin.local_rank)
        who = fmt::format("local rank {}{}", *origin.local_rank,
                          verdict.node.empty() ? " of its node" : "");
    if (!verdict.all_ranks && verdict.suspects.empty() && origin.device)
        who = fmt::format("a rank on CUDA device {}", *origin.device);
    if (verdict.rank) who = fmt::format("rank {}", *verdict.rank);
    if (!verdict.rank && verdict.suspects.size() > 1) {
        std::vector<std::string> words;
        for (const int rank : verdict.suspects)
            if (words.size() < 8) words.push_back(std::to_string(rank));
        who = "ranks " + join(words, ", ") + (verdict.suspects.size() > 8 ? ", ..." : "");
    }
    std::string place = verdict.node;
    if (verdict.gpu && verdict.rank)
        place += fmt::format("{}GPU {}", place.empty() ? "" : ", ", *verdict.gpu);
    if (who.empty()) return place;
    return place.empty() ? who : fmt::format("{} ({})", who, place);
}

void add_remarks(Verdict& verdict, const Event& first, const std::vector<Event>& events,
                 const Evidence& evidence) {
    std::uint64_t consequences = 0;
    const Event* ending = nullptr;
    for (const Event& event : events) {
        if (event.role == Role::consequence && &event != &first) consequences += event.count;
        const bool ended = event.of != nullptr && event.of->severity == "external";
        if (ended && event.role == Role::teardown && ending == nullptr) ending = &event;
    }
    if (consequences > 0)
        verdict.remarks.push_back(fmt::format(
            "{} lines on lost connections and the like are its consequences", consequences));
    for (const TableRow& row : evidence.table)
        if (row.first_observed && row.rank && verdict.rank && row.rank != verdict.rank) {
            verdict.remarks.push_back(fmt::format(
                "torchrun's table names rank {} as root cause: it goes by the time at which the "
                "agent looked, in whole seconds",
                *row.rank));
            break;
        }
    if (ending != nullptr) verdict.remarks.push_back("ended afterwards: " + ending->evidence);
    for (const Event& event : events)
        if (gave_up_on_peer(event) && event.role == Role::consequence) {
            verdict.remarks.push_back("a rank gave up on its peer, by that or before: " +
                                      event.evidence);
            break;
        }
    for (const auto& [name, value] : evidence.variables)
        for (const std::string& text : {first.evidence, first.says, first.advice})
            if (text.find(name) != text.npos) {
                verdict.remarks.push_back(fmt::format("NCCL saw {}={}", name, value));
                break;
            }
    if (evidence.attempts > 0) {
        const auto well = [&](const Success& success) {
            return success.launcher && success.attempt > first.attempt;
        };
        const bool ended_well =
            std::any_of(evidence.successes.begin(), evidence.successes.end(), well);
        verdict.remarks.push_back(fmt::format(
            "the run was restarted {}; {}",
            evidence.attempts == 1 ? "once" : fmt::format("{} times", evidence.attempts),
            ended_well           ? "then it ended well: this is why it was restarted"
            : first.attempt == 0 ? "this is the first attempt's failure"
                                 : fmt::format("this is attempt {}'s failure", first.attempt + 1)));
    }
    if (verdict.confidence != Confidence::unknown) return;
    if (first.evidence.find("NVRM: ") != first.evidence.npos) return;  // not a rank's word
    verdict.remarks.push_back(
        "these logs hold consequences only: the log of the rank that failed first is missing");
    for (const Event& event : events)
        if (!event.peer.empty()) {
            verdict.remarks.push_back("look at " + event.peer +
                                      " first: its process closed the connection");
            break;
        }
}

std::vector<std::string> advice_of(const Event& event) {
    constexpr std::size_t kSteps = 3;
    std::vector<std::string> advice;
    if (event.advice.ends_with('\n')) {  // in place of the class's: catalogue.cpp
        for (const std::string& step : split(trim(event.advice), '\n')) advice.push_back(step);
        return advice;
    }
    if (!event.advice.empty()) advice.push_back(event.advice);
    advice.insert(advice.end(), event.of->advice.begin(), event.of->advice.end());
    if (advice.size() > kSteps) advice.resize(kSteps);
    return advice;
}

/// An ending of the whole run, or of a node, or a wait for another rank: the rank beside which it
/// was printed is not at fault.
bool is_of_place(const Event& event) {
    return event.of->severity == "external" || event.of->id == "node-lost" ||
           event.line_id == "unique-id" || event.line_id == "clients";
}

/// A crash tells its process, the launcher the rank: where one rank alone is said to have ended so,
/// it is the same.
void complete(Event& first, const std::vector<Event>& events, const Ranks& ranks) {
    if (is_of_place(first) || ranks.of(first) || !first.ranks.empty()) return;
    std::set<int> found;
    const Event* source = nullptr;
    for (const Event& event : events) {
        if (event.of != first.of || event.role > Role::hint || event.attempt != first.attempt)
            continue;
        if (const auto rank = ranks.of(event)) {
            found.insert(*rank);
            source = &event;
        }
    }
    // A traceback without a label, and one rank that ended with an error by itself.
    const Event* failed = nullptr;
    std::size_t rows = 0;
    for (const Event& event : events) {
        const bool row = event.line_id == "table-row" && event.place.file == first.place.file &&
                         event.attempt == first.attempt;
        rows += row ? 1 : 0;
        if (row && event.code.value_or(0) > 0) failed = &event;
    }
    if (found.empty() && first.role == Role::cause && !first.frame.empty() && rows == 1 &&
        failed != nullptr && failed->ranks.size() == 1) {
        found.insert(failed->ranks.front());
        source = failed;
    }
    if (found.size() != 1) return;
    first.ranks = {*found.begin()};
    if (first.node.empty()) first.node = source->node;
}

/// Rows of the table that say the same: none of their ranks is known to be the first.
void join_rows(Event& first, const std::vector<Event>& events) {
    if (first.line_id != "table-row") return;
    std::set<int> same;
    for (const Event& event : events)
        if (event.line_id == first.line_id && event.role == first.role && event.of == first.of &&
            event.code == first.code && event.attempt == first.attempt)
            same.insert(event.ranks.begin(), event.ranks.end());
    if (same.size() > 1) first.ranks.assign(same.begin(), same.end());
}

Verdict verdict_of(const Event& first, const std::vector<Event>& events, const Evidence& evidence,
                   const Ranks& ranks) {
    const Company company = company_of(first, events, ranks);
    Verdict verdict;
    verdict.cause = first.of->id;
    verdict.severity = first.of->severity;
    verdict.title = first.of->title;
    verdict.all_ranks = alike_on_all(first, company, ranks);
    verdict.confidence = confidence_of(first, company, verdict.all_ranks);
    if (is_of_other_host(first, evidence)) {
        verdict.confidence = std::max(verdict.confidence, Confidence::likely);
        verdict.remarks.push_back(fmt::format(
            "{} is none of the hosts that NCCL's lines name: see that it is one of the job",
            printable(first.node)));
    }
    if (verdict.confidence != Confidence::unknown && !verdict.all_ranks) {
        verdict.suspects = first.ranks;
        if (first.ranks.size() <= 1 && !is_of_place(first)) verdict.rank = ranks.of(first);
        if (verdict.suspects.empty() && verdict.rank) verdict.suspects = {*verdict.rank};
    }
    if (!verdict.all_ranks || company.nodes.size() == 1)
        verdict.node = ranks.host_of(first, verdict.rank);
    if (verdict.rank) verdict.gpu = first.gpu ? first.gpu : ranks.device_of(*verdict.rank);
    if (!verdict.gpu && first.role == Role::outside) verdict.gpu = first.gpu;
    verdict.pid = first.origin.pid;
    verdict.evidence = first.evidence;
    verdict.where = where_text(evidence, first.place);
    verdict.frame = first.frame;
    // What lag.cpp and timeout.cpp say begins with the ranks.
    const bool nobody = verdict.confidence == Confidence::unknown || is_of_place(first);
    const Origin told = nobody ? Origin() : first.origin;
    const std::string who =
        first.line_id == "lag" && !first.ranks.empty() ? "" : who_text(verdict, told);
    const std::string what = first.says.empty() ? first.of->title : first.says;
    verdict.what = who.empty() ? what : fmt::format("{}: {}", who, what);
    verdict.advice = advice_of(first);
    add_remarks(verdict, first, events, evidence);
    return verdict;
}

/// The cause of the first start of the ranks that failed; one that the scheduler took back to run
/// the job again is none where a later one failed by itself.
const Event* first_of(const std::vector<const Event*>& causes) {
    for (const Event* cause : causes)
        if (cause->of->id != "requeued" && cause->of->id != "preempted") return cause;
    return causes.empty() ? nullptr : causes.front();
}

}  // namespace

std::string_view confidence_text(Confidence confidence) {
    switch (confidence) {
        case Confidence::certain:
            return "certain";
        case Confidence::likely:
            return "likely";
        case Confidence::possible:
            return "possible";
        default:
            return "unknown";
    }
}

std::optional<Verdict> judge(const Evidence& evidence, const Catalogue& catalogue) {
    const Ranks ranks(evidence);
    std::vector<Event> events = with_statuses(evidence, catalogue, ranks);
    for (Event& event : end_events(evidence, catalogue, ranks)) events.push_back(std::move(event));
    clear_handled(events, evidence);
    weigh(events, evidence, ranks);
    for (Event& event : lag_events(events, evidence, catalogue, ranks))
        events.push_back(std::move(event));
    for (Event& event : events)  // judged together
        if (event.line_id == "work" || event.line_id == "failed-work") event.role = Role::noise;
    const std::vector<const Event*> causes = strongest(events, ranks);
    const Event* first = first_of(causes);
    if (first == nullptr) {  // teardown of somebody who gives no reason
        for (const Event& event : events)
            if (event.role == Role::teardown && event.of != nullptr &&
                event.line_id == "fallback" && first == nullptr)
                first = &event;
        if (first == nullptr) return std::nullopt;
        Event ending = *first;
        ending.role = Role::lag;
        return verdict_of(ending, events, evidence, ranks);
    }
    const auto judged = [&](const Event& event) {
        Event cause = event;
        complete(cause, events, ranks);
        join_rows(cause, events);
        return verdict_of(cause, events, evidence, ranks);
    };
    Verdict verdict = judged(*first);
    constexpr std::size_t kMostAttempts = 3;  // beside the first
    std::size_t others = 0;
    for (const Event* cause : causes) {
        if (cause == first || ++others > kMostAttempts) continue;
        const Verdict other = judged(*cause);
        const bool same = other.cause == verdict.cause && other.rank == verdict.rank &&
                          other.node == verdict.node;
        verdict.remarks.push_back(fmt::format("attempt {} failed{}: {} [{}]", cause->attempt + 1,
                                              same ? " in the same way" : "", other.what,
                                              other.cause));
    }
    if (others > kMostAttempts)
        verdict.remarks.push_back(fmt::format(
            "{}{} more {} failed", evidence.left_out > 0 ? "at least " : "", others - kMostAttempts,
            others == kMostAttempts + 1 ? "attempt" : "attempts"));
    return verdict;
}

}  // namespace toporun::launcher::failures
