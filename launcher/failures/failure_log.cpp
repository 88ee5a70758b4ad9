#include "launcher/failures/failure_log.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/memory_text.hpp"
#include "launcher/failures/progress.hpp"

namespace toporun::launcher::failures {
namespace {

// Bounds of what is kept, so that no log can fill the memory.
constexpr std::size_t kMostEvents = 4096;
constexpr std::size_t kMostStreams = 16384;
constexpr std::size_t kMostRows = 65536;
constexpr std::size_t kEvidenceBytes = 900;  // PyTorch's out-of-memory texts whole
constexpr std::size_t kAddedWithin = 10;     ///< lines of a help text

std::optional<int> small(const std::optional<std::int64_t>& number) {
    if (!number || *number < -1000000 || *number > 100000000) return std::nullopt;
    return static_cast<int>(*number);
}

}  // namespace

FailureLog::FailureLog(const Catalogue& catalogue) : catalogue_(catalogue) {}

std::string FailureLog::shortened(std::string_view text) {
    return std::string(text.substr(0, kEvidenceBytes));
}

void FailureLog::begin_file(const std::string& name) {
    for (auto& entry : streams_) end_row(entry.second);
    streams_.clear();
    open_blocks_ = 0;
    open_streams_ = 0;
    closing_ = run_over_ = false;
    pdsh_hosts_.clear();
    labels_.clear();
    warned_.reset();
    named_before_.reset();
    evidence_.files.push_back(name);
    evidence_.file_lines.push_back(0);
    place_.file = static_cast<int>(evidence_.files.size()) - 1;
    place_.line = 0;
}

FailureLog::Stream& FailureLog::stream_of(const Origin& origin) {
    std::string key = stream_key(origin);
    if (streams_.size() >= kMostStreams && !streams_.contains(key)) key.clear();
    return streams_[key];
}

void FailureLog::see(const Origin& origin) {
    if (origin.rank) {
        evidence_.ranks_seen.insert(*origin.rank);
        const auto rank = static_cast<std::size_t>(*origin.rank);
        if (*origin.rank >= 0 && rank < known_ranks_.size()) known_ranks_.set(rank);
    }
    if (origin.local_rank) evidence_.local_ranks_seen.insert(*origin.local_rank);
    if (!origin.task) return;
    evidence_.several_tasks |= *origin.task > 0;
    // A task that holds torchrun's ranks, or another rank than its own number, or two.
    if (origin.local_rank || (origin.rank && origin.rank != origin.task))
        evidence_.slurm_agents = true;
}

void FailureLog::add(std::string_view line, const detect::nccl_log::Line* nccl) {
    pass(1);
    consider(line, nccl);
}

void FailureLog::consider(std::string_view line, const detect::nccl_log::Line* nccl) {
    if (nccl != nullptr && nccl->record.level != detect::nccl_log::Level::bare)
        if (NcclProcess* const process = process_of(nccl->record)) add_nccl(*nccl, *process);
    const std::string_view text = cleaned(line, store_);
    candidates_.clear();
    if (catalogue_.anchors().any_in(text) || catalogue_.ends_in_short_line(text)) {
        catalogue_.finding_filter().find(text, candidates_);
        if (!candidates_.empty()) add_findings(text, line);
        catalogue_.filter().find(text, candidates_);
    }
    const bool may_label =
        !text.empty() && (text.front() == '[' || text.front() == ' ' || text.front() == '(' ||
                          std::isdigit(static_cast<unsigned char>(text.front())) != 0);
    const bool record = nccl != nullptr && nccl->record.level != detect::nccl_log::Level::bare;
    const bool watched = open_streams_ > 0 && !record;
    if (record && nccl->record.level == detect::nccl_log::Level::warn) warn(nccl->record, line);
    if (candidates_.empty() && !may_label && !watched && open_blocks_ == 0 && labels_.empty())
        return;
    if (candidates_.empty() && is_idle() && tells_no_rank(text)) return;
    PrefixedLine prefixed = strip_prefixes(text, pdsh_hosts_);
    const Labels::Answer answer = labels_.confirm(prefixed.message);
    if (!labels_.empty()) strip_label(prefixed);
    if (answer != Labels::Answer::nothing)
        open(stream_of(prefixed.origin), Stream::Block::traceback);
    see(prefixed.origin);
    if (watched && place_.order > open_until_) forget_open();
    if (watched && candidates_.empty()) see_progress(prefixed);
    if (candidates_.empty() && open_blocks_ == 0) return;
    if (record) {
        prefixed.origin.host = nccl->record.host;
        prefixed.origin.pid = nccl->record.pid;
        // Threads that NCCL started may have no device of their own: 0 is printed for them.
        if (nccl->record.tid == nccl->record.pid) prefixed.origin.device = nccl->record.device;
        if (const auto match = catalogue_.match(prefixed.message, candidates_, true))
            take(*match, prefixed.origin, line, stream_of(prefixed.origin), true);
        return;
    }
    add_message(prefixed, line, stream_of(prefixed.origin));
}

void FailureLog::add_findings(std::string_view text, std::string_view raw) {
    constexpr std::size_t kMostFindings = 64;
    for (const std::uint16_t candidate : candidates_) {
        const KnownFinding& known = catalogue_.findings()[candidate];
        std::optional<Captures> found;
        for (const Pattern& pattern : known.patterns)
            if (!found) found = pattern.match(text);
        if (!found) continue;
        std::string what = found->filled_in(known.what);
        const auto same = [&](const LineFinding& other) { return other.what == what; };
        auto& findings = evidence_.findings;
        const auto told = std::find_if(findings.begin(), findings.end(), same);
        if (told != findings.end())
            ++told->count;
        else if (findings.size() < kMostFindings)
            findings.push_back({&known, std::move(what), shortened(raw), 1});
    }
}

void FailureLog::add_message(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    ++stream.lines_since;
    if (stream.block == Stream::Block::table && in_table(line, raw, stream)) return;
    if (stream.block == Stream::Block::box && in_box(line, raw, stream)) return;
    if (stream.block == Stream::Block::traceback && in_traceback(line, raw, stream)) return;
    if (stream.block == Stream::Block::stack && in_stack(line, stream)) return;
    if (stream.block == Stream::Block::missing_ranks && in_missing_ranks(line, stream)) return;
    if (candidates_.empty()) return;
    if (const auto match = catalogue_.match(line.message, candidates_))
        return take(*match, line.origin, raw, stream);
    learn_label(line);
    if (open_streams_ > 0) see_progress(line);
}

void FailureLog::end_row(Stream& stream) {
    if (stream.row && evidence_.table.size() < kMostRows) evidence_.table.push_back(*stream.row);
    stream.row.reset();
}

void FailureLog::add_exception(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    std::optional<Catalogue::Match> match;
    if (!candidates_.empty()) match = catalogue_.match(line.message, candidates_);
    if (match && take_special(*match, line.origin, raw)) match.reset();
    Event event = event_of(line.origin, raw);
    event.frame = stream.agent ? "" : stream.frame;
    if (match) {
        event.role = match->line->role;
        event.of = match->line->of;
        event.line_id = match->line->id;
        event.general = match->line->general;
        event.says = match->captures.filled_in(match->line->says);
        event.advice = match->line->advice;
        fill(event, match->captures, *match->line);
    } else {
        event.role = stream.agent ? Role::teardown : Role::cause;
        event.of = catalogue_.find_class("user-exception");
        event.line_id = "exception";
    }
    const bool waited_for_others =
        event.line_id == "store-timeout" || event.role == Role::consequence;
    if (stream.agent && stream.exit_barrier && waited_for_others) {
        event.role = Role::lag;
        event.of = catalogue_.find_class("node-lost");
        event.says =
            "the agent waited at the exit barrier for agents of other nodes that never came";
    } else if (event.line_id == "store-timeout") {
        // Without an agent: a rank that never joined. In mid-run: the store went away.
        event.role = stream.joining || stream.agent ? Role::ambiguous : Role::consequence;
    }
    // The first of a chain is the cause, what was raised while it was handled is its consequence.
    if (stream.chained && event.role < Role::consequence) event.role = Role::teardown;
    stream.chained = false;
    const std::optional<std::size_t> outer = std::exchange(stream.outer, std::nullopt);
    if (const auto local = std::exchange(stream.inner_rank, std::nullopt);
        local && !event.origin.local_rank)
        event.origin.local_rank = local;
    if (outer) {  // it only hands on what another process has met
        Event& quoting = evidence_.events[*outer];
        if (quoting.of != nullptr && quoting.of->id == "data-worker") {
            quoting.frame = event.frame;
            quoting.evidence += " | " + event.evidence;
            return;
        }
        quoting.role = Role::teardown;
    }
    // PyTorch labels what its hook for uncaught exceptions prints (2.4 and later).
    event.uncaught = line.origin.rank.has_value() && raw.find("[rank") != raw.npos;
    event.of_main = stream.main;
    const std::size_t position = keep(std::move(event));
    stream.lines_since = 0;
    if (position == SIZE_MAX) return;
    stream.recent = {{"exception", position}};
    if (match && !match->line->id.empty()) stream.recent.emplace_back(match->line->id, position);
    watch(position, false, stream);
}

Event FailureLog::event_of(const Origin& origin, std::string_view raw) const {
    Event event;
    event.origin = origin;
    event.evidence = shortened(raw);
    event.place = place_;
    event.attempt = evidence_.attempts;
    event.after_closing = closing_;
    event.time = log_time(raw);
    return event;
}

/// Adds the event, or counts it where its stream has said the same before. Its position; SIZE_MAX
/// when there is no room.
std::size_t FailureLog::keep(Event event) {
    if (event.line_id == "cuda-oom" && tells_fragmentation(event.evidence))
        event.of = catalogue_.find_class("allocator-fragmentation");
    const std::string key =
        std::to_string(event.place.file) + "/" + stream_key(event.origin) + "/" +
        std::to_string(event.attempt) + "/" + (event.of != nullptr ? event.of->id : "") + "/" +
        event.line_id + "/" + std::to_string(static_cast<int>(event.role)) + "/" + event.node +
        event.bus + "/" + (event.ranks.empty() ? "" : std::to_string(event.ranks.front()));
    if (const auto known = kept_.find(key); known != kept_.end()) {
        Event& former = evidence_.events[known->second];
        event.count = former.count + 1;
        if (former.peer.empty()) former.peer = event.peer;
        if (former.went_on > 0)
            former = std::move(event);  // that one was dealt with
        else
            ++former.count;
        return known->second;
    }
    if (evidence_.events.size() >= kMostEvents) {
        ++evidence_.left_out;
        return SIZE_MAX;
    }
    kept_.emplace(key, evidence_.events.size());
    evidence_.events.push_back(std::move(event));
    return evidence_.events.size() - 1;
}

/// Lines that are no event of their own; true when there is nothing more to keep of it.
bool FailureLog::take_special(const Catalogue::Match& match, const Origin& origin,
                              std::string_view raw) {
    const std::string& id = match.line->id;
    const Captures& captures = match.captures;
    if (id == "harmless") return true;
    if (id == "ending") closing_ = true;  // an event too
    if (id == "closing") {
        closing_ = true;
        if (const auto pid = captures.number("pid")) evidence_.closing.emplace(*pid, place_);
        return true;
    }
    if (id == "restart" || (id == "new-run" && run_over_)) {
        begin_run();
        return true;
    }
    if (id == "new-run") return true;
    if (id == "node-before" || id == "rank-before") {
        named_before_ = event_of(origin, raw);
        fill(*named_before_, captures, *match.line);
        return true;
    }
    if (id == "pdsh-launch") {
        const std::string host(captures.text("node").value_or(""));
        if (pdsh_hosts_.size() < 4096) pdsh_hosts_.insert(host);
        return true;
    }
    if (id == "success" || id == "launcher-success") {
        if (evidence_.successes.size() < kMostEvents)
            evidence_.successes.push_back({place_, evidence_.attempts, id == "launcher-success"});
        return true;
    }
    if (id == "agent-ranks" || id == "agent-nodes") {
        add_agent(match, origin);
        return true;
    }
    if (id == "work" || id == "failed-work" || id == "witness") add_work(match, origin, raw);
    if (id == "fingerprint") {
        const auto fingerprint = [&](const char* who, const char* what, bool own) {
            const auto rank = small(captures.number(who));
            const auto text = captures.text(what);
            if (!rank || !text || evidence_.fingerprints.size() > 65536) return;
            if (own) evidence_.fingerprints.erase(*rank);
            evidence_.fingerprints.emplace(*rank, std::pair(shortened(*text), place_));
        };
        fingerprint("rank", "mine", true);
        fingerprint("rank_b", "theirs", false);
    }
    return false;
}

/// `RuntimeError:` alone, with its text in the lines below: the text decides.
bool FailureLog::continues_exception(const Catalogue::Match& match, std::string_view raw,
                                     Stream& stream) {
    constexpr std::size_t kNear = 2;
    const KnownLine& line = *match.line;
    if (line.role != Role::cause || line.of == nullptr || stream.lines_since > kNear) return false;
    for (const auto& [id, position] : stream.recent) {
        Event& event = evidence_.events[position];
        if (id != "exception" || event.of == nullptr || event.of->id != "user-exception" ||
            !trim(event.evidence).ends_with(':'))
            continue;
        event.of = line.of;
        event.line_id = line.id;
        event.general = line.general;
        event.says = match.captures.filled_in(line.says);
        event.advice = line.advice;
        event.evidence += " " + shortened(trim(raw));
        fill(event, match.captures, line);
        return true;
    }
    return false;
}

void FailureLog::take(const Catalogue::Match& match, const Origin& origin, std::string_view raw,
                      Stream& stream, bool of_nccl) {
    const KnownLine& line = *match.line;
    using Block = Stream::Block;
    if (line.id == "table") return open(stream, Block::table);
    if (line.id == "rich-traceback") return open(stream, Block::box);
    if (line.id == "traceback") return open(stream, Block::traceback);
    if (line.id == "missing-ranks") return open(stream, Block::missing_ranks);
    if (line.id == "inner" || line.id == "inner-traceback") {
        for (const auto& [id, position] : stream.recent)
            if (id == "exception") stream.outer = position;
        stream.inner_rank = small(match.captures.number("local_rank"));
        if (line.id == "inner-traceback") open(stream, Block::traceback);
        return;
    }
    if (line.id == "chained") {
        stream.chained = true;
        return;
    }
    if (take_special(match, origin, raw)) return;
    if (!line.adds.empty()) {
        for (auto& [id, position] : stream.recent)
            if (id == line.adds && stream.lines_since <= kAddedWithin &&
                add_to(evidence_.events[position], match.captures, line))
                evidence_.events[position].evidence += " | " + shortened(trim(raw));
        return;
    }
    if (line.role == Role::noise) return;
    if (continues_exception(match, raw, stream)) return;
    run_over_ |= line.role == Role::external;
    Event event = event_of(origin, raw);
    event.role = line.role;
    event.of = line.of;
    event.line_id = line.id;
    event.general = line.general;
    event.says = match.captures.filled_in(line.says);
    event.advice = line.advice;
    fill(event, match.captures, line);
    fill_from_kernel(event, raw);
    fill_from_before(event);
    // A line that calls itself a warning is no cause, what it tells of was dealt with.
    const bool warning = origin.level == 'W' || origin.level == 'I' ||
                         (origin.level == 0 && !of_nccl && tells_handled(raw));
    const bool claims = event.role == Role::cause || event.role == Role::ambiguous ||
                        (event.role == Role::lag && line.id != "horovod-missing");
    if (warning && claims) return;
    if (warning && origin.level != 0 && event.role == Role::consequence)
        event.role = Role::teardown;
    if (line.id == "store-timeout") event.role = Role::consequence;  // outside of a traceback
    const std::size_t position = keep(std::move(event));
    if (position == SIZE_MAX) return;
    watch(position, of_nccl, stream);
    if (line.id.empty()) return;
    stream.recent = {{line.id, position}};
    stream.lines_since = 0;
    if (line.id == "mpi-signal") open(stream, Block::stack);
}

std::optional<Verdict> FailureLog::verdict() const {
    return judge(evidence_, catalogue_);
}

}  // namespace toporun::launcher::failures
