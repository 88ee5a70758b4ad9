#include "launcher/profiler/in_flight.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "launcher/profiler/interval_union.hpp"
#include "launcher/profiler/matching.hpp"

namespace toporun::profiler {
namespace {

constexpr std::uint64_t kWarmUp = 10;           // operations of a rank that are left out ...
constexpr std::uint64_t kEnoughForWarmUp = 40;  // ... when it has more than this
constexpr std::uint64_t kLongestNs = 3'600'000'000'000;  // no collective takes an hour
constexpr std::size_t kCommunicators = 4096;             // remembered; a bound for damaged files
constexpr double kMatchedEnough = 0.9;                   // of the time, else the parts are bounded
constexpr double kWaitedNs = 10'000;                     // a rank waited: at least this long ...
constexpr double kWaitedShare = 0.05;                    // ... and this part of its time

constexpr std::array<std::size_t, 2> kParts = {0, 1};  // everything, steady

/// Sums of one rank, once over everything and once without the warm-up.
struct Sums {
    double duration_ns = 0;  ///< of every operation
    double matched_ns = 0;   ///< of those that were matched
    double transfer_ns = 0;  ///< shortest duration over the ranks, of those that were matched
};

struct LastSums {
    std::uint64_t times = 0;
    double behind_ns = 0;
};

struct RowSums {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    double own_bus_bytes = 0, own_ns = 0;
    double matched_bus_bytes = 0, matched_ns = 0;
};
using RowKey = std::pair<std::uint8_t, std::uint64_t>;  // function, size class

/// What closing a match changes. Copied for `measured`, which closes what is still open.
struct Totals {
    std::vector<std::array<Sums, 2>> sums;  // [rank][0 everything, 1 steady]
    std::vector<LastSums> last;             // [rank], steady
    std::uint64_t waited = 0;               // matches in which some rank waited, steady
    std::map<RowKey, RowSums> rows;
    bool incomplete = false;  // a match was closed without all of its ranks
};

struct Rank {
    RankKey key;
    std::uint64_t operations = 0;
    std::array<IntervalUnion, 2> unions;  // [0 everything, 1 steady]
    bool steady() const { return operations > kEnoughForWarmUp; }
};

/// A process: one GPU, or several when it has several ranks of one communicator.
struct Process {
    std::map<std::uint64_t, int> ranks;  // communicator -> rank of this process in it
    bool several_gpus = false;
};

struct Members {
    int ranks = 0;
    std::set<std::size_t> seen;  // positions in the list of ranks
};

bool matched_function(const Collective& collective) {
    return collective.communicator != 0 && collective.ranks > 1 && collective.function != kSend &&
           collective.function != kRecv && collective.function != kSendRecv &&
           collective.function != kUnknownCode;
}

bool plausible(const Collective& collective) {
    return collective.start_ns > 0 && collective.stop_ns > collective.start_ns &&
           collective.stop_ns - collective.start_ns < kLongestNs;
}

std::uint64_t size_class_of(std::uint64_t size) {
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 63;
    if (size == 0) return 0;
    return size > kLargest ? kLargest : std::bit_ceil(size);
}

void close_match(const Match& match, Totals& totals) {
    if (match.samples.size() < 2) return;
    const auto shorter = [](const Sample& a, const Sample& b) {
        return a.duration_ns < b.duration_ns;
    };
    const auto [low, high] =
        std::minmax_element(match.samples.begin(), match.samples.end(), shorter);
    const double transfer = low->duration_ns;
    const double count = static_cast<double>(match.samples.size());
    double excess = 0;
    bool steady = true;
    for (const Sample& sample : match.samples) {
        for (const std::size_t part : kParts) {
            if (part == 1 && !sample.steady) continue;
            Sums& sums = totals.sums[sample.rank][part];
            sums.matched_ns += sample.duration_ns;
            sums.transfer_ns += transfer;
        }
        excess += sample.duration_ns - transfer;
        steady = steady && sample.steady;
    }
    RowSums& row = totals.rows[{match.function, match.size_class}];
    row.matched_bus_bytes += match.bus_bytes * count;
    row.matched_ns += transfer * count;
    const double longest_wait = high->duration_ns - transfer;
    if (steady && longest_wait > std::max(kWaitedNs, kWaitedShare * high->duration_ns)) {
        ++totals.waited;
        ++totals.last[low->rank].times;
        totals.last[low->rank].behind_ns += excess / (count - 1);
    }
    if (static_cast<int>(match.samples.size()) < match.ranks) totals.incomplete = true;
}

OperationRow to_row(const RowKey& key, const RowSums& sums) {
    OperationRow row;
    row.function = function_name(key.first);
    row.size_class = key.second;
    row.count = sums.count;
    row.bytes = sums.bytes;
    const bool matched = sums.matched_ns > 0;
    const double bytes = matched ? sums.matched_bus_bytes : sums.own_bus_bytes;
    const double time_ns = matched ? sums.matched_ns : sums.own_ns;
    if (bytes > 0 && time_ns > 0) row.busbw_gbytes_per_s = bytes / time_ns;  // bytes/ns = GB/s
    return row;
}

}  // namespace

std::string_view label_text(Label label) {
    switch (label) {
        case Label::measured:
            return "measured";
        case Label::bounded:
            return "bounded";
        case Label::estimated:
            return "estimated";
        case Label::unknown:
            break;
    }
    return "unknown";
}

struct InFlight::State {
    std::vector<Rank> ranks;
    std::map<RankKey, std::size_t> positions;
    std::map<RankKey, Process> processes;
    std::map<std::uint64_t, Members> communicators;
    Matching matching;
    Totals totals;
    std::uint64_t implausible = 0, lost = 0;

    std::size_t position(RankKey key, int rank_in_communicator);
    void note_member(const RankKey& key, std::uint64_t communicator, int rank, int ranks);
    Match head_of(const Collective& collective, std::uint64_t size) const;
    void close_pending(Totals& copy) const;
    bool all_members_seen() const;
    void fill_ranks(const Totals& sums, Measured& result) const;
    void fill_shares(const Totals& sums, Measured& result) const;
    void fill_labels(const Totals& sums, Measured& result) const;
    void fill_last(const Totals& sums, Measured& result) const;
    void fill_notes(Measured& result) const;
};

/// The entry of the GPU: of the process, or of its rank where a process drives several GPUs.
std::size_t InFlight::State::position(RankKey key, int rank_in_communicator) {
    const auto process = processes.find(key);
    if (process != processes.end() && process->second.several_gpus && rank_in_communicator >= 0) {
        key.rank = rank_in_communicator;
    }
    const auto [place, added] = positions.emplace(key, ranks.size());
    if (added) {
        ranks.push_back({key, 0, {}});
        totals.sums.emplace_back();
        totals.last.emplace_back();
    }
    return place->second;
}

void InFlight::State::note_member(const RankKey& key, std::uint64_t communicator, int rank,
                                  int rank_count) {
    if (communicator == 0 || rank < 0) return;
    if (communicators.size() >= kCommunicators && !communicators.contains(communicator)) return;
    Process& process = processes[key];
    const auto [known, added] = process.ranks.emplace(communicator, rank);
    if (!added && known->second != rank) process.several_gpus = true;
    Members& members = communicators[communicator];
    members.ranks = std::max(members.ranks, rank_count);
    members.seen.insert(position(key, rank));
}

Match InFlight::State::head_of(const Collective& collective, std::uint64_t size) const {
    Match head;
    head.communicator = collective.communicator;
    head.sequence = collective.sequence;
    head.function = collective.function;
    head.ranks = collective.ranks;
    head.size_class = size_class_of(size);
    head.bus_bytes = static_cast<double>(size) * bus_factor(collective.function, collective.ranks);
    return head;
}

InFlight::InFlight() : state_(std::make_unique<State>()) {}
InFlight::~InFlight() = default;
InFlight::InFlight(InFlight&&) noexcept = default;
InFlight& InFlight::operator=(InFlight&&) noexcept = default;

void InFlight::member(const RankKey& rank, const Communicator& communicator) {
    state_->note_member(rank, communicator.id, communicator.rank, communicator.ranks);
}

void InFlight::lost(const RankKey& rank, std::uint64_t count) {
    state_->position(rank, -1);
    state_->lost += count;
}

void InFlight::add(const RankKey& rank, const Collective& collective) {
    State& state = *state_;
    state.note_member(rank, collective.communicator, collective.rank, collective.ranks);
    const std::size_t position = state.position(rank, collective.rank);
    Rank& entry = state.ranks[position];
    ++entry.operations;
    if (!plausible(collective)) {
        ++state.implausible;
        return;
    }
    const bool steady = entry.operations > kWarmUp;
    const double duration = static_cast<double>(collective.stop_ns - collective.start_ns);
    for (const std::size_t part : kParts) {
        if (part == 1 && !steady) continue;
        entry.unions[part].add(collective.start_ns, collective.stop_ns);
        state.totals.sums[position][part].duration_ns += duration;
    }
    const std::uint64_t size = size_bytes(collective);
    const Match head = state.head_of(collective, size);
    RowSums& row = state.totals.rows[{collective.function, head.size_class}];
    ++row.count;
    row.bytes += size;
    row.own_bus_bytes += head.bus_bytes;
    row.own_ns += duration;
    if (!matched_function(collective)) return;
    for (const Match& over : state.matching.add(head, {position, duration, steady})) {
        close_match(over, state.totals);
    }
}

/// Closes in `copy` what every rank of this node has reported, for communicators over several
/// nodes.
void InFlight::State::close_pending(Totals& copy) const {
    for (const Match& match : matching.pending()) {
        const auto members = communicators.find(match.communicator);
        if (members == communicators.end()) continue;
        if (match.samples.size() >= members->second.seen.size()) close_match(match, copy);
    }
}

bool InFlight::State::all_members_seen() const {
    return std::all_of(communicators.begin(), communicators.end(), [](const auto& entry) {
        return static_cast<int>(entry.second.seen.size()) >= entry.second.ranks;
    });
}

void InFlight::State::fill_ranks(const Totals& sums, Measured& result) const {
    for (const auto& [key, position] : positions) {
        const Rank& rank = ranks[position];
        const std::size_t part = rank.steady() ? 1 : 0;
        const IntervalUnion& busy = rank.unions[part];
        result.operations += rank.operations;
        if (busy.empty()) continue;
        RankInFlight entry;
        entry.key = key;
        entry.operations = rank.operations;
        entry.window_seconds = busy.window() / 1e9;
        entry.in_flight = busy.covered() / busy.window();
        const Sums& own = sums.sums[position][part];
        if (own.matched_ns > 0) {
            entry.transfer = entry.in_flight * own.transfer_ns / own.matched_ns;
            entry.waiting = entry.in_flight - *entry.transfer;
        }
        result.warm_up_left_out = result.warm_up_left_out || part == 1;
        result.ranks.push_back(entry);
    }
}

void InFlight::State::fill_shares(const Totals& sums, Measured& result) const {
    fill_ranks(sums, result);
    if (result.ranks.empty()) return;
    double window = 0, busy = 0, matched_busy = 0, transfer = 0;
    for (const RankInFlight& rank : result.ranks) {
        window += rank.window_seconds;
        busy += rank.in_flight * rank.window_seconds;
        if (!rank.transfer) continue;
        matched_busy += rank.in_flight * rank.window_seconds;
        transfer += *rank.transfer * rank.window_seconds;
    }
    const auto [low, high] = std::minmax_element(
        result.ranks.begin(), result.ranks.end(),
        [](const RankInFlight& a, const RankInFlight& b) { return a.in_flight < b.in_flight; });
    result.in_flight = busy / window;
    result.in_flight_smallest = low->in_flight;
    result.in_flight_largest = high->in_flight;
    result.window_seconds = window / static_cast<double>(result.ranks.size());
    if (matched_busy > 0) {
        result.transfer = *result.in_flight * transfer / matched_busy;
        result.waiting = *result.in_flight - *result.transfer;
    }
}

void InFlight::State::fill_labels(const Totals& sums, Measured& result) const {
    if (!result.in_flight) return;
    const bool whole = lost == 0 && implausible == 0;
    result.label = whole ? Label::measured : Label::bounded;
    if (!result.transfer) return;
    double matched = 0, all = 0;
    for (const auto& rank : sums.sums) {
        matched += rank[0].matched_ns;
        all += rank[0].duration_ns;
    }
    const bool exact =
        whole && all_members_seen() && !sums.incomplete && matched >= kMatchedEnough * all;
    result.parts_label = exact ? Label::measured : Label::bounded;
}

void InFlight::State::fill_last(const Totals& sums, Measured& result) const {
    if (sums.waited == 0) return;
    for (const auto& [key, position] : positions) {
        const LastSums& own = sums.last[position];
        const double share = static_cast<double>(own.times) / static_cast<double>(sums.waited);
        if (own.times == 0 || (result.last && result.last->share >= share)) continue;
        result.last = {key, share, own.behind_ns / static_cast<double>(own.times) / 1e9};
    }
}

void InFlight::State::fill_notes(Measured& result) const {
    if (lost > 0) {
        result.notes.push_back(std::to_string(lost) +
                               " operations were overwritten before they were read");
    }
    if (implausible > 0) {
        result.notes.push_back(std::to_string(implausible) +
                               " operations left out: GPU time stamps missing or impossible");
    }
    for (const auto& [key, process] : processes) {
        if (!process.several_gpus || process.ranks.size() < 2) continue;
        result.notes.push_back("process " + std::to_string(key.pid) +
                               " drives several GPUs with several communicators: which GPU an "
                               "operation ran on is taken from its rank");
    }
}

Measured InFlight::measured() const {
    const State& state = *state_;
    Totals sums = state.totals;
    state.close_pending(sums);
    Measured result;
    result.implausible = state.implausible;
    result.lost = state.lost;
    state.fill_shares(sums, result);
    state.fill_labels(sums, result);
    state.fill_last(sums, result);
    state.fill_notes(result);
    for (const auto& [key, row] : sums.rows) result.rows.push_back(to_row(key, row));
    std::stable_sort(
        result.rows.begin(), result.rows.end(),
        [](const OperationRow& a, const OperationRow& b) { return a.bytes > b.bytes; });
    return result;
}

}  // namespace toporun::profiler
