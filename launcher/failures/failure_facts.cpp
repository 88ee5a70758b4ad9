#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/text.hpp"
#include "launcher/failures/failure_log.hpp"
#include "launcher/failures/progress.hpp"
#include "launcher/failures/python_path.hpp"

/// What a FailureLog keeps beside events: work of process groups, signs that a program goes on.
namespace toporun::launcher::failures {
namespace {

constexpr std::size_t kMostWork = 65536;
constexpr std::size_t kMostOpen = 256;

std::optional<int> as_small(const std::optional<std::int64_t>& number) {
    if (!number || *number < -1000000 || *number > 100000000) return std::nullopt;
    return static_cast<int>(*number);
}

/// `3`, `0-2,5`, `[0, 2]`: the numbers; at most 4096.
std::vector<int> number_list(std::string_view text) {
    std::vector<int> numbers;
    std::optional<int> range_from;
    for (std::size_t i = 0; i < text.size() && numbers.size() < 4096;) {
        if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
        const auto number = as_small(to_integer(text.substr(i, end - i)));
        if (!number) break;
        if (range_from)
            for (int n = *range_from + 1; n <= *number && numbers.size() < 4096; ++n)
                numbers.push_back(n);
        else
            numbers.push_back(*number);
        range_from.reset();
        if (end < text.size() && text[end] == '-') range_from = *number;
        i = end + 1;
    }
    return numbers;
}

/// May both lines speak of one work? `[Rank 3] Watchdog caught ...` does not say the group, the
/// lines after it do.
bool joins(const WorkState& state, const std::string& group,
           const std::optional<std::int64_t>& work) {
    if (state.group == group) return !state.work || !work || state.work == work;
    return (state.group.empty() || group.empty()) && state.work && state.work == work;
}

}  // namespace

/// What the line names, into the event.
void FailureLog::fill(Event& event, const Captures& captures, const KnownLine& line) {
    if (const auto rank = as_small(captures.number("rank")); rank && line.id != "work")
        event.ranks = {*rank};
    if (const auto ranks = captures.text("ranks")) event.ranks = number_list(*ranks);
    if (const auto tasks = captures.text("tasks")) event.ranks = number_list(*tasks);
    if (const auto task = as_small(captures.number("task"))) event.ranks = {*task};
    event.by_task |= captures.text("tasks").has_value() || captures.text("task").has_value();
    if (const auto peer = captures.text("peer")) event.peer = shortened(trim(*peer));
    if (const auto node = captures.text("node")) event.node = shortened(*node);
    if (const auto gpu = captures.number("gpu")) event.gpu = as_small(gpu);
    if (const auto signal = captures.number("signal")) event.signal = as_small(signal);
    if (const auto code = captures.number("code")) event.code = as_small(code);
    if (const auto pid = captures.number("pid"); pid && *pid > 0) event.origin.pid = pid;
    if (const auto local = captures.number("local_rank"); local && !event.origin.local_rank)
        event.origin.local_rank = as_small(local);
    const auto name = captures.text("signal_name");
    for (int signal = 1; name && signal < 32; ++signal)
        if (const char* known = sigabbrev_np(signal);
            known != nullptr && *name == "SIG" + std::string(known))
            event.signal = signal;
}

/// Node, or rank too, out of a line of the same block before: Intel MPI's `RANK 1 PID 77 RUNNING AT
/// node-a`, kubectl's `Node: node-a/10.0.0.7`. MPICH's process is another than the one that failed.
void FailureLog::fill_from_before(Event& event) {
    constexpr std::uint64_t kFarthest = 400;  // lines, of a pod with many containers
    const bool rank = event.line_id == "at-rank";
    if ((!rank && event.line_id != "at-node") || !named_before_) return;
    if (event.place.line - named_before_->place.line > kFarthest) return;
    if (event.node.empty()) event.node = named_before_->node;
    if (rank && event.ranks.empty()) event.ranks = named_before_->ranks;
}

/// What a line of the kernel's log names, into the event and what it says.
void FailureLog::fill_from_kernel(Event& event, std::string_view raw) {
    const auto line = kernel_line(raw);
    event.of_kernel = line || event.line_id == "oom-kill";
    if (!line) return;
    if (event.node.empty()) event.node = line->host;
    if (line->bus.empty()) return;
    event.bus = line->bus;
    if (line->pid) event.origin.pid = line->pid;
    if (event.of == nullptr) return;
    event.says = (event.says.empty() ? event.of->title : event.says) + " (GPU " + line->bus;
    if (line->pid) event.says += ", process " + std::to_string(*line->pid);
    if (!line->program.empty()) event.says += " " + line->program;
    event.says += ')';
}

/// What a later line tells of an event; false when it tells nothing new.
bool FailureLog::add_to(Event& event, const Captures& captures, const KnownLine& line) {
    if (const auto path = captures.text("path")) {  // innermost first: the user's own, else that
        if (!event.frame.empty() && (!is_library(event.frame) || is_library(*path))) return false;
        event.frame =
            shortened(*path) + " line " + std::string(captures.text("count").value_or(""));
        return true;
    }
    const std::vector<int> before = event.ranks;
    fill(event, captures, line);
    for (const int rank : before)
        if (std::find(event.ranks.begin(), event.ranks.end(), rank) == event.ranks.end())
            event.ranks.insert(event.ranks.begin(), rank);
    return true;
}

/// `  global_ranks=[4, 5, 6, 7]` and `  group_world_size=2` of an agent's rendezvous.
void FailureLog::add_agent(const Catalogue::Match& match, const Origin& origin) {
    constexpr std::size_t kMostAgents = 65536;
    if (match.captures.number("count").value_or(0) > 1) evidence_.several_agents = true;
    const std::vector<int> ranks = number_list(match.captures.text("ranks").value_or(""));
    if (ranks.empty() || evidence_.agents.size() >= kMostAgents) return;
    evidence_.agents.push_back({place_.file, origin.task, ranks.front()});
}

void FailureLog::add_work(const Catalogue::Match& match, const Origin& origin,
                          std::string_view raw) {
    const Captures& captures = match.captures;
    const auto group_rank = origin.group_rank ? origin.group_rank : origin.rank;
    const auto work = captures.number("seq");
    const std::string key = std::to_string(place_.file) + "/" + stream_key(origin) + "/" +
                            std::to_string(group_rank.value_or(-1)) + "/" +
                            std::to_string(evidence_.attempts);
    std::vector<std::size_t>& known = work_of_[key];
    WorkState* state = nullptr;
    for (const std::size_t position : known)
        if (state == nullptr && joins(evidence_.work[position], origin.group, work))
            state = &evidence_.work[position];
    if (state == nullptr) {
        if (evidence_.work.size() >= kMostWork) return;
        known.push_back(evidence_.work.size());
        state = &evidence_.work.emplace_back();
        state->group_rank = group_rank;
        state->origin = origin;
        state->attempt = evidence_.attempts;
        state->evidence = shortened(raw);
        state->place = place_;
    }
    if (state->group.empty()) state->group = origin.group;
    const auto keep_first = [](auto& kept, const auto& value) {
        if (!kept && value) kept = value;
    };
    keep_first(state->work, work);
    keep_first(state->enqueued, captures.number("enqueued"));
    keep_first(state->completed, captures.number("done"));
    keep_first(state->ran_ms, captures.number("ran_ms"));
    keep_first(state->limit_ms, captures.number("limit_ms"));
    state->timed_out |= match.line->id == "work";
    if (const auto op = captures.text("op"); op && state->op.empty()) state->op = *op;
    if (const auto sizes = captures.text("sizes"); sizes && state->sizes.empty())
        state->sizes = shortened(*sizes);
}

/// `N: [tensor, ...]` below Horovod's "Missing ranks:". A label of srun has the same form, so that
/// the number may have been read as one.
bool FailureLog::in_missing_ranks(const PrefixedLine& line, Stream& stream) {
    std::string_view message = line.message;
    std::optional<int> rank;
    if (message.starts_with('[') && line.origin.task) {
        rank = line.origin.task;
    } else if (const std::size_t colon = message.find(": ["); colon != message.npos) {
        rank = as_small(to_integer(message.substr(0, colon)));
    }
    if (!rank) {
        stream.block = Stream::Block::none;
        --open_blocks_;
        return false;
    }
    for (auto& [id, position] : stream.recent)
        if (id == "horovod-missing") evidence_.events[position].ranks.push_back(*rank);
    return true;
}

/// An event that later lines may show to have been dealt with.
void FailureLog::watch(std::size_t position, bool of_nccl, Stream& stream) {
    const Event& event = evidence_.events[position];
    if (!may_be_handled(event) || event.uncaught) return;
    const Origin none;
    Stream& watched = of_nccl ? stream_of(none) : stream;  // what a program prints has no record
    if (watched.open.size() >= kMostOpen ||
        std::find(watched.open.begin(), watched.open.end(), position) != watched.open.end())
        return;
    if (watched.open.empty()) ++open_streams_;
    watched.open.push_back(position);
    constexpr std::uint64_t kFar = 100000;  // lines: a loop prints something before
    open_until_ = place_.order + kFar;
    watched.shape = 0;
}

void FailureLog::forget_open() {
    for (auto& entry : streams_) entry.second.open.clear();
    open_streams_ = 0;
}

/// Two lines of a training loop, the second with other numbers: its stream went on.
void FailureLog::see_progress(const PrefixedLine& line) {
    Stream& stream = stream_of(line.origin);
    if (stream.open.empty()) return;
    const auto progress = progress_of(line.message);
    if (!progress) return;
    if (stream.shape != progress->shape) {
        stream.shape = progress->shape;
        stream.numbers = progress->numbers;
        return;
    }
    if (stream.numbers == progress->numbers) return;
    for (const std::size_t position : stream.open)
        evidence_.events[position].went_on = place_.order;
    stream.open.clear();
    --open_streams_;
}

}  // namespace toporun::launcher::failures
