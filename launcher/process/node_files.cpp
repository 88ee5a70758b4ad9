#include "launcher/process/node_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/task_meeting.hpp"
#include "launcher/report/node_report.hpp"

namespace toporun::launcher {
namespace {

using Kind = NodeFileName::Kind;

constexpr std::size_t kLetters = 4;
constexpr std::size_t kMostNodeFileBytes = 16u << 20;

const char* ending(Kind kind) {
    return kind == Kind::start ? ".start" : kind == Kind::part ? ".part" : ".json";
}

std::string file_name(int node, const std::string& letters, Kind kind) {
    return fmt::format("node-{}-{}{}", node, letters, ending(kind));
}

}  // namespace

std::optional<NodeFileName> parse_node_file_name(const std::string& name) {
    constexpr std::string_view kStart = "node-";
    if (!name.starts_with(kStart)) return std::nullopt;
    NodeFileName result;
    std::string rest = name.substr(kStart.size());
    bool known = false;
    for (const Kind kind : {Kind::start, Kind::part, Kind::whole}) {
        if (!rest.ends_with(ending(kind))) continue;
        rest.resize(rest.size() - std::string_view(ending(kind)).size());
        result.kind = kind;
        known = true;
        break;
    }
    const std::size_t dash = rest.find('-');
    if (!known || dash == std::string::npos || dash > 7) return std::nullopt;
    const auto node = to_integer(rest.substr(0, dash));
    result.letters = rest.substr(dash + 1);
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const std::string_view letters = std::string_view(result.letters).substr(0, kLetters);
    if (!node || *node < 0 || letters.size() < kLetters ||
        !std::all_of(letters.begin(), letters.end(), is_letter))
        return std::nullopt;
    // A task that could not meet the others of its node adds its number.
    if (result.letters.size() > kLetters && result.letters[kLetters] != '-') return std::nullopt;
    result.letters.resize(kLetters);
    result.node = static_cast<int>(*node);
    return result;
}

std::string run_letters(const JobPlace& place, int run) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : fmt::format("{}/{}", place.job, run))
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::string letters;
    for (std::size_t i = 0; i < kLetters; ++i, hash /= 26)
        letters += static_cast<char>('a' + hash % 26);
    return letters;
}

bool run_has_ended(const std::string& run_directory, const JobPlace& place, int run) {
    const std::string letters = run_letters(place, run);
    struct stat info {};
    const std::string whole = run_directory + "/" + file_name(place.node, letters, Kind::whole);
    if (::lstat(whole.c_str(), &info) == 0) return true;
    return place.local_tasks > 1 && TaskMeeting::has_ended(place, letters);
}

std::optional<JobReport> report_of_nodes(const std::string& run_directory) {
    const RunFiles files(run_directory);
    std::string letters;
    std::int64_t newest = -1;
    std::vector<std::pair<std::string, std::string>> found;  // letters and name
    for (std::string& name : files.names()) {
        const auto parsed = parse_node_file_name(name);
        struct stat info {};
        if (!parsed || ::lstat((run_directory + "/" + name).c_str(), &info) != 0) continue;
        if (info.st_mtime > newest) {
            newest = info.st_mtime;
            letters = parsed->letters;
        }
        found.emplace_back(parsed->letters, std::move(name));
    }
    std::erase_if(found, [&](const auto& file) { return file.first != letters; });
    std::sort(found.begin(), found.end());
    return merge_nodes(found.size(), [&](std::size_t i) {
        return files.read(found[i].second, kMostNodeFileBytes);
    });
}

NodeFiles::NodeFiles(RunFiles& files, JobPlace place, int run)
    : files_(files), place_(std::move(place)), letters_(run_letters(place_, run)) {}

std::string NodeFiles::write_start(const RunFacts& facts) {
    if (place_.local_task != 0) return {};
    return files_.write(file_name(place_.node, letters_, Kind::start),
                        node_facts_text(node_facts(facts, place_)));
}

std::vector<std::string> NodeFiles::names() const {
    std::vector<std::string> found;
    for (std::string& name : files_.names()) {
        const auto parsed = parse_node_file_name(name);
        if (parsed && parsed->letters == letters_) found.push_back(std::move(name));
    }
    std::sort(found.begin(), found.end());
    return found;
}

bool NodeFiles::all_ended() const {
    std::set<int> ended;
    for (const std::string& name : names()) {
        const auto parsed = parse_node_file_name(name);
        if (parsed->kind == Kind::whole) ended.insert(parsed->node);
    }
    return static_cast<int>(ended.size()) >= place_.nodes.value_or(1);
}

std::optional<JobReport> NodeFiles::merge_all() const {
    const std::vector<std::string> found = names();
    return merge_nodes(found.size(),
                       [&](std::size_t i) { return files_.read(found[i], kMostNodeFileBytes); });
}

std::string NodeFiles::write_report(RunFacts& facts, const std::optional<JobReport>& report,
                                    std::vector<std::string>& lines) {
    if (!report) return {};
    lines = report->lines;
    std::string fault = files_.write("report.json", report->json);
    if (fault.empty()) fault = files_.write("report.txt", report->text);
    if (fault.empty()) facts.report_path = facts.run_directory + "/report.txt";
    return fault;
}

/// Sets `text` to what the node's file holds now.
std::string NodeFiles::write_node(const RunFacts& facts, bool ended, std::string& text) {
    const std::string report = task_report(facts, place_, ended);
    std::vector<std::string> reports = {report};
    bool whole = ended;
    std::string letters = letters_;
    TaskMeeting meeting(place_, letters_);
    if (place_.local_tasks > 1) {
        reports = meeting.join(report, ended);
        whole = meeting.complete() || (ended && meeting.alone());
        if (meeting.alone()) letters += fmt::format("-{}", place_.local_task);
    }
    text = node_file(node_facts(facts, place_), place_, reports);
    std::string fault =
        files_.write(file_name(place_.node, letters, whole ? Kind::whole : Kind::part), text);
    if (!fault.empty()) return fault;
    files_.remove(file_name(place_.node, letters_, Kind::start));
    if (whole) files_.remove(file_name(place_.node, letters, Kind::part));
    return fault;
}

std::string NodeFiles::write_early(RunFacts& facts) {
    std::string own;
    std::vector<std::string> lines;
    std::string fault = write_node(facts, false, own);
    if (fault.empty() && (place_.leads() || !files_.exists("report.json")))
        fault = write_report(facts, place_.leads() ? merge_all() : merge_nodes(std::vector{own}),
                             lines);
    return fault;
}

std::string NodeFiles::write_end(RunFacts& facts, std::vector<std::string>& lines) {
    std::string own;
    std::string fault = write_node(facts, true, own);
    // Whoever writes looks once more afterwards: the last one may have written in between.
    for (bool written = false; fault.empty();) {
        if (all_ended()) return write_report(facts, merge_all(), lines);
        if (written) return fault;
        if (place_.leads())
            fault = write_report(facts, merge_all(), lines);
        else if (!files_.exists("report.json"))
            fault = write_report(facts, merge_nodes(std::vector{own}), lines);
        else
            return fault;
        written = true;
    }
    return fault;
}

}  // namespace toporun::launcher
