#include "launcher/process/run_watch.hpp"

#include <time.h>

#include <ctime>

#include "base/error.hpp"
#include "launcher/log/reader.hpp"
#include "launcher/process/read_bounded.hpp"
#include "launcher/shim/plan_file.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostRings = 1024;             // more than any node has GPUs times restarts
constexpr int kTurnsOfAWholeRing = 128;              // of the largest that ring_slots() gives
constexpr std::size_t kMostRecordsBytes = 1u << 20;  // some thousand ranks

/// RunFacts::start_utc; the time of day when it cannot be read, so that no older log counts.
std::time_t start_time(const RunFacts& facts) {
    std::tm start{};
    if (::strptime(facts.start_utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &start) == nullptr)
        return std::time(nullptr);
    return ::timegm(&start);
}

}  // namespace

RunWatch::RunWatch(std::string private_directory) : directory_(std::move(private_directory)) {}

void RunWatch::poll(int most_turns) {
    if (directory_.empty()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_look_) {
        find_rings();
        next_look_ = now + std::chrono::seconds(1);
    }
    bool more = true;
    for (int turn = 0; turn < most_turns && more; ++turn) {
        more = false;
        for (auto& [file, ring] : rings_)
            if (ring.reader && poll_ring(ring)) more = true;
    }
}

void RunWatch::find_rings() {
    for (const std::filesystem::path& file : profiler::ring_files(directory_)) {
        if (rings_.contains(file) || rings_.size() >= kMostRings) continue;
        Ring ring;
        try {
            ring.reader.emplace(file);
        } catch (const Error& fault) {
            notes_.push_back("profiler ring " + file.filename().string() + ": " + fault.what());
        }
        rings_.emplace(file, std::move(ring));
    }
}

bool RunWatch::poll_ring(Ring& ring) {
    const std::vector<profiler::Collective> complete = ring.reader->poll(profiler::kPollTurn);
    const profiler::RankKey key = ring.reader->key();
    const auto& members = ring.reader->communicators();
    for (; ring.members < members.size(); ++ring.members)
        in_flight_.member(key, members[ring.members]);
    for (const profiler::Collective& collective : complete) in_flight_.add(key, collective);
    if (ring.reader->lost() > ring.lost) {
        in_flight_.lost(key, ring.reader->lost() - ring.lost);
        ring.lost = ring.reader->lost();
    }
    return complete.size() >= profiler::kPollTurn;
}

void RunWatch::collect(RunFacts& facts) {
    next_look_ = {};
    poll(kTurnsOfAWholeRing);
    facts.measured = in_flight_.measured();
    facts.notes.insert(facts.notes.end(), notes_.begin(), notes_.end());
    for (const auto& [file, ring] : rings_)
        if (ring.reader)
            for (const std::string& note : ring.reader->notes())
                facts.notes.push_back("profiler ring " + file.filename().string() + ": " + note);
    if (!facts.plan.followed_log.empty())
        facts.log = read_log_pattern(facts.plan.followed_log, start_time(facts)).summary();
    if (directory_.empty()) return;
    const std::filesystem::path directory(directory_);
    facts.ranks = parse_rank_records(read_bounded(directory / kRecordsFile, kMostRecordsBytes));
    if (facts.plan.followed_log.empty()) facts.log = read_log_directory(directory_).summary();
}

}  // namespace toporun::launcher
