#include "launcher/explain/annotator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/explain/forms.hpp"
#include "launcher/failures/prefix.hpp"
#include "launcher/log/test_table.hpp"

namespace toporun::launcher::explain {
namespace {

using namespace detect::nccl_log;
using failures::Role;

constexpr std::size_t kMostProcesses = 1 << 15;
constexpr std::size_t kMostAdvice = 3;

/// Roles of lines after which there is something to do.
bool wants_advice(Role role) {
    return role != Role::consequence && role != Role::teardown && role != Role::noise;
}

std::string what_of(const failures::KnownLine& line, const failures::Captures& captures) {
    std::string what = !line.says.empty()   ? captures.filled_in(line.says)
                       : line.of != nullptr ? line.of->title
                                            : "more of it stands around this line";
    return line.of == nullptr ? what : fmt::format("{} [{}]", what, line.of->id);
}

}  // namespace

Annotator::Annotator(const failures::Catalogue& catalogue) : catalogue_(catalogue) {}

void Annotator::know(const std::vector<LogRank>& ranks) {
    for (const LogRank& rank : ranks) {
        if (processes_.size() >= kMostProcesses) return;
        processes_[{rank.host, rank.pid}] = {rank.rank, static_cast<int>(ranks.size()),
                                             rank.gpu_index};
    }
}

/// The largest communicator of a process gives its rank.
void Annotator::learn(const Line& line) {
    const auto* init = std::get_if<Init>(&line.event);
    constexpr std::size_t kLongestHost = 256;
    if (init == nullptr || line.torn || line.record.level == Level::bare ||
        line.record.host.size() > kLongestHost)
        return;
    const ProcessKey key{std::string(line.record.host), line.record.pid};
    const auto known = processes_.find(key);
    if (known == processes_.end() ? processes_.size() >= kMostProcesses
                                  : known->second.ranks >= init->ranks)
        return;
    processes_[key] = {init->rank, init->ranks,
                       init->nvml_device ? init->nvml_device : init->cuda_device};
}

const Annotator::Process* Annotator::process_of(const Record& record) const {
    if (record.level == Level::bare) return nullptr;
    const auto found = processes_.find({std::string(record.host), record.pid});
    return found == processes_.end() ? nullptr : &found->second;
}

Annotation Annotator::event(const Line& line) const {
    Annotation out;
    Form form = form_of(line.event);
    if (form.name.empty() && line.from_nccl()) form = topology_form(line.record.message);
    if (const Sentence* sentence = sentences_.find(form.name)) {
        out.kind = form.name.substr(0, form.name.find('.'));
        out.says = filled_in(sentence->says, form.values);
        if (!sentence->todo.empty()) out.todo.push_back(sentence->todo);
    } else if (line.from_nccl()) {
        if (auto match = sentences_.match(line.record.message)) {
            out.kind = match->sentence->form;
            out.says = std::move(match->says);
            if (!match->sentence->todo.empty()) out.todo.push_back(match->sentence->todo);
        }
    }
    if (const auto row = out.says.empty() && line.record.level == Level::bare
                             ? parse_test_row(line.record.message)
                             : std::nullopt) {
        const bool adds = !row->op.empty() && row->op != "none";
        const std::string wrong =
            row->wrong > 0 ? fmt::format(" and {} wrong values", row->wrong) : "";
        out.kind = "test_result";
        out.says = filled_in(sentences_.find("test_result")->says,
                             {{"size", format_bytes(row->bytes)},
                              {"type", row->type + (adds ? " " + row->op : "")},
                              {"busbw", fmt::format("{:g}", row->busbw_gbytes_per_s)},
                              {"algbw", fmt::format("{:g}", row->algbw_gbytes_per_s)},
                              {"wrong", wrong}});
    }
    return out;
}

bool Annotator::add_finding(std::string_view text, Annotation& out) {
    candidates_.clear();
    catalogue_.finding_filter().find(text, candidates_);
    for (const std::uint16_t candidate : candidates_) {
        const failures::KnownFinding& known = catalogue_.findings()[candidate];
        for (const failures::Pattern& pattern : known.patterns) {
            const auto captures = pattern.match(text);
            if (!captures) continue;
            out.kind = "finding";
            out.says =
                filled_in(sentences_.find("finding")->says,
                          {{"what", captures->filled_in(known.what)}, {"effect", known.effect}});
            out.todo.clear();
            if (advised_.insert(&known).second) out.todo.push_back(captures->filled_in(known.fix));
            return true;
        }
    }
    return false;
}

bool Annotator::add_failure(std::string_view line, const Line& nccl, Annotation& out) {
    const std::string_view text = failures::cleaned(line, store_);
    if (!catalogue_.anchors().any_in(text)) return false;
    if (add_finding(text, out)) return true;
    candidates_.clear();
    catalogue_.filter().find(text, candidates_);
    if (candidates_.empty()) return false;
    const failures::PrefixedLine prefixed = failures::strip_prefixes(text, {});
    const bool record = nccl.record.level != Level::bare;
    const auto match = catalogue_.match(prefixed.message, candidates_, record);
    if (!match) return false;
    const failures::KnownLine& known = *match->line;
    const bool part = !known.adds.empty() || (!known.id.empty() && known.id != "harmless");
    if (known.role == Role::noise && part) return false;  // of what another line tells
    const Sentence* role = sentences_.find(fmt::format("role.{}", failures::role_text(known.role)));
    out.kind = "failure";
    out.says = filled_in(role->says, {{"what", what_of(known, match->captures)}});
    out.todo.clear();
    if (prefixed.origin.rank && !out.rank) out.rank = prefixed.origin.rank;
    if (!wants_advice(known.role) || !advised_.insert(&known).second) return true;
    if (!known.advice.empty()) out.todo.push_back(known.advice);
    if (known.of != nullptr && advised_.insert(known.of).second)
        for (const std::string& advice : known.of->advice)
            if (out.todo.size() < kMostAdvice) out.todo.push_back(advice);
    return true;
}

/// What the judgement of the whole log says of this line.
void Annotator::add_first_cause(Annotation& out) const {
    const failures::Verdict& verdict = *first_cause_;
    out.kind = "failure";
    out.says = filled_in(sentences_.find("first_cause")->says,
                         {{"what", verdict.what.empty() ? verdict.title : verdict.what},
                          {"class", verdict.cause},
                          {"confidence", std::string(confidence_text(verdict.confidence))}});
    out.todo = verdict.advice;
    if (verdict.rank) out.rank = verdict.rank;
}

Annotation Annotator::annotate(std::string_view text, std::string_view place) {
    const Line line = parse_line(plain_line(text, plain_));
    if (line.torn) return {"torn", sentences_.find("torn")->says, {}, std::nullopt};
    learn(line);
    Annotation out = event(line);
    const bool told = !out.todo.empty() && !told_.insert(out.todo.front()).second;
    if (told) out.todo.clear();
    const Process* const process = process_of(line.record);
    if (process != nullptr) out.rank = process->rank;
    if (first_cause_ && !place.empty() && place == first_cause_->where) {
        add_first_cause(out);
        return out;
    }
    add_failure(text, line, out);
    if (out.says.empty()) return out;
    if (process != nullptr) {
        const std::string gpu = process->gpu ? fmt::format(", GPU {}", *process->gpu) : "";
        out.says =
            fmt::format("rank {} ({}{}): {}", process->rank, line.record.host, gpu, out.says);
    } else if (out.rank) {
        out.says = fmt::format("rank {}: {}", *out.rank, out.says);
    }
    return out;
}

}  // namespace toporun::launcher::explain
