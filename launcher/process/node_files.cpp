#include "launcher/process/node_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "base/descriptors.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/task_meeting.hpp"
#include "launcher/report/node_report.hpp"

namespace toporun::launcher {
namespace {

using Kind = NodeFileName::Kind;

constexpr std::size_t kLetters = 4;
constexpr int kMostTasks = 1 << 16;  // of a node
constexpr std::size_t kMostNodeFileBytes = 16u << 20;

const char* ending(Kind kind) {
    return kind == Kind::start ? ".start" : kind == Kind::part ? ".part" : ".json";
}

/// Of a node that shares a run with others, where one of its tasks could not meet the others.
std::string alone_letters(const std::string& letters, const JobPlace& place) {
    return fmt::format("{}-{}-{}", letters, place.local_task, place.local_tasks);
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
    // A task that could not meet the others of its node adds its number and how many there are.
    if (result.letters.size() > kLetters) {
        const std::vector<std::string> parts = split(result.letters, '-');
        if (parts.size() != 3 || parts[0].size() != kLetters) return std::nullopt;
        const auto task = to_integer(parts[1]);
        const auto tasks = to_integer(parts[2]);
        if (!task || !tasks || *task < 0 || *task >= *tasks || *tasks > kMostTasks)
            return std::nullopt;
        result.alone = static_cast<int>(*task);
        result.tasks = static_cast<int>(*tasks);
        result.letters.resize(kLetters);
    }
    result.node = static_cast<int>(*node);
    return result;
}

std::string run_letters(const JobPlace& place, int run) {
    std::uint64_t hash = fnv1a(fmt::format("{}/{}", place.job, run));
    std::string letters;
    for (std::size_t i = 0; i < kLetters; ++i, hash /= 26)
        letters += static_cast<char>('a' + hash % 26);
    return letters;
}

bool claim_run(const std::string& run_directory, const JobPlace& place, int run) {
    const std::string letters = run_letters(place, run);
    const auto path = [&](const std::string& word, Kind kind) {
        return run_directory + "/" + file_name(place.node, word, kind);
    };
    const auto is_there = [&](const std::string& word, Kind kind) {
        struct stat info {};
        return ::lstat(path(word, kind).c_str(), &info) == 0;
    };
    if (is_there(letters, Kind::whole)) return false;
    if (place.local_tasks < 2) {
        if (is_there(letters, Kind::part)) return false;
        constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        const Descriptor start(::open(path(letters, Kind::start).c_str(), kFlags, 0644));
        return start || errno != EEXIST;
    }
    TaskMeeting meeting(place, run_directory, letters);
    switch (meeting.claim()) {
        case TaskMeeting::Claim::taken:
            return false;
        case TaskMeeting::Claim::impossible:
            return !is_there(alone_letters(letters, place), Kind::whole);
        case TaskMeeting::Claim::made:
            break;
    }
    if (!is_there(letters, Kind::whole)) return true;
    meeting.withdraw();  // the run ended in between, with this task in it
    return false;
}

void release_run(const std::string& run_directory, const JobPlace& place, int run) {
    if (run_directory.empty() || !place.shared()) return;
    const std::string letters = run_letters(place, run);
    const std::string start = file_name(place.node, letters, Kind::start);
    if (place.local_task == 0) ::unlink((run_directory + "/" + start).c_str());
    if (place.local_tasks > 1) TaskMeeting(place, run_directory, letters).withdraw();
}

std::optional<int> claim_node(const std::string& run_directory, const JobPlace& place) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const std::string letters = run_letters(place, 1);
    const auto path = [&](int node, Kind kind) {
        return run_directory + "/" + file_name(node, letters, kind);
    };
    const int nodes = place.nodes.value_or(1);
    // Its own number first, where it has one.
    for (int i = 0; i < nodes; ++i) {
        const int node = i == 0 ? place.node : i;
        if (node < 1 || node >= nodes) continue;
        // Ended nodes have no .start any more.
        struct stat info {};
        const auto ended = [&] {
            return ::lstat(path(node, Kind::whole).c_str(), &info) == 0 ||
                   ::lstat(path(node, Kind::part).c_str(), &info) == 0;
        };
        if (ended()) continue;
        const std::string start = path(node, Kind::start);
        const Descriptor file(::open(start.c_str(), kFlags, 0644));
        if (!file && errno != EEXIST) return std::nullopt;
        if (!file) continue;
        // A node that ended in between has left its file and taken its .start away.
        if (!ended()) return node;
        ::unlink(start.c_str());
    }
    return std::nullopt;
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

NodeFiles::NodeFiles(RunFiles& files, JobPlace place, int run, std::chrono::milliseconds patience)
    : files_(files),
      place_(std::move(place)),
      letters_(run_letters(place_, run)),
      patience_(patience) {}

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
    std::map<int, int> alone;  // tasks of a node that ended, each with a file of its own
    for (const std::string& name : names()) {
        const auto parsed = parse_node_file_name(name);
        if (parsed->kind != Kind::whole) continue;
        if (!parsed->alone || ++alone[parsed->node] >= parsed->tasks) ended.insert(parsed->node);
    }
    return static_cast<int>(ended.size()) >= place_.nodes.value_or(1);
}

/// With `own`, which may not be in the directory yet.
std::optional<JobReport> NodeFiles::merge_all(const std::string& own) const {
    const std::vector<std::string> found = names();
    return merge_nodes(found.size() + 1, [&](std::size_t i) {
        return i < found.size() ? files_.read(found[i], kMostNodeFileBytes) : own;
    });
}

WrittenEnd NodeFiles::write_report(RunFacts& facts, const std::optional<JobReport>& report) {
    if (!report) return {};
    WrittenEnd end{files_.write("report.json", report->json), report->lines};
    if (end.fault.empty()) end.fault = files_.write("report.txt", report->text);
    if (end.fault.empty()) facts.report_path = facts.run_directory + "/report.txt";
    return end;
}

/// Until the first task or the last one writes the report of all.
std::string NodeFiles::write_first_report(RunFacts& facts, const std::string& own) {
    if (files_.exists("report.json")) return {};
    const auto report = merge_nodes(std::vector{own});
    if (!report) return {};
    bool written = false;
    std::string fault = files_.write_new("report.json", report->json, written);
    if (written) fault = files_.write_new("report.txt", report->text, written);
    if (written) facts.report_path = facts.run_directory + "/report.txt";
    return fault;
}

/// Of the nodes that end together one reads what all have left.
WrittenEnd NodeFiles::write_last_report(RunFacts& facts, const std::string& own) {
    const std::string marker = fmt::format("report-{}.writing", letters_);
    bool marked = false;
    files_.write_new(marker, "", marked);
    if (!marked && patience_.count() == 0) return {};  // else it may be of who was ended before
    WrittenEnd end = write_report(facts, merge_all(own));
    files_.remove(marker);
    return end;
}

NodeFiles::Written NodeFiles::write_alone(const NodeFacts& node, const std::string& report,
                                          bool ended) {
    Written written;
    const bool meets = place_.local_tasks > 1;
    const std::string letters = meets ? alone_letters(letters_, place_) : letters_;
    written.text = node_file(node, place_, std::vector{report});
    written.whole = ended;
    written.fault = files_.write(file_name(place_.node, letters, ended ? Kind::whole : Kind::part),
                                 written.text);
    if (!written.fault.empty()) return written;
    written.wrote = true;
    files_.remove(file_name(place_.node, letters_, Kind::start));
    if (ended) files_.remove(file_name(place_.node, letters, Kind::part));
    return written;
}

NodeFiles::Written NodeFiles::write_node(const RunFacts& facts, bool ended) {
    const std::string report = task_report(facts, place_, ended);
    const NodeFacts node = node_facts(facts, place_);
    const std::string whole = file_name(place_.node, letters_, Kind::whole);
    const std::string part = file_name(place_.node, letters_, Kind::part);
    if (place_.local_tasks < 2) return write_alone(node, report, ended);
    Written written;
    // Again for a task whose last word is there already.
    written.whole = written.wrote = files_.exists(whole);
    TaskMeeting meeting(place_, files_.path(), letters_);
    if (!written.whole && !meeting.put(report, ended)) return write_alone(node, report, ended);
    while (!written.whole) {
        Descriptor turn = meeting.turn(patience_);
        if (!turn) break;
        const TaskMeeting::Reports all = meeting.reports();
        written.whole = files_.exists(whole);
        if (!written.whole && !all.texts.empty()) {
            const bool last = all.ended >= place_.local_tasks;
            written.text = node_file(node, place_, all.texts);
            written.fault = files_.write(last ? whole : part, written.text);
            if (!written.fault.empty()) return written;
            files_.remove(file_name(place_.node, letters_, Kind::start));
            if (last) files_.remove(part);
            written.whole = last;
        }
        written.wrote = true;
        // Only now: until the file is there, what the tasks have left is nowhere else.
        if (written.whole) meeting.remove();
        turn.reset();  // who comes from here on writes; who came before is seen by the next look
        if (written.whole || meeting.names() == all.names) break;
    }
    if (written.text.empty()) written.text = node_file(node, place_, std::vector{report});
    return written;
}

std::string NodeFiles::write_early(RunFacts& facts) {
    Written node = write_node(facts, false);
    if (!node.fault.empty()) return node.fault;
    return place_.leads() ? write_report(facts, merge_all(node.text)).fault
                          : write_first_report(facts, node.text);
}

WrittenEnd NodeFiles::write_end(RunFacts& facts) {
    const Written node = write_node(facts, true);
    if (!node.fault.empty()) return {node.fault, {}};
    if (!place_.leads()) {
        if (node.whole && all_ended()) return write_last_report(facts, node.text);
        return {node.wrote ? write_first_report(facts, node.text) : std::string(), {}};
    }
    // Looks once more afterwards: the last one may have written in between.
    WrittenEnd end;
    for (bool complete = false, again = true; again && end.fault.empty();) {
        complete = all_ended();
        end = write_report(facts, merge_all(node.text));
        again = !complete && all_ended();
    }
    return end;
}

}  // namespace toporun::launcher
