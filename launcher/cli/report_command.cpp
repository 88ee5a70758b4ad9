#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "launcher/cli/subcommands.hpp"
#include "launcher/explain/page.hpp"
#include "launcher/failures/log_scan.hpp"
#include "launcher/log/source.hpp"
#include "launcher/process/node_files.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/report/estimate.hpp"
#include "launcher/report/report.hpp"
#include "launcher/version.hpp"

namespace toporun::launcher {
namespace {

bool is_file(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// What the reports of a run are called (run_files.hpp).
bool is_report_name(const std::string& name) {
    const std::string extension = std::filesystem::path(name).extension();
    if (parse_node_file_name(name)) return true;
    return (name.starts_with("report") || name.starts_with("node-")) &&
           (extension == ".txt" || extension == ".json" || extension == ".html");
}

/// The run directory that `name` stands for: itself, or the directory of the report that it names;
/// "" when it is neither. A directory without a report and without a log is taken for one.
std::string run_directory_of(const std::string& name) {
    const std::filesystem::path path(name);
    std::error_code error;
    if (is_file(name)) {
        std::string parent = path.parent_path().string();
        if (parent.empty()) parent = ".";
        const bool report = is_report_name(path.filename()) && is_file(parent + "/plan.toml");
        return report ? parent : "";
    }
    if (!std::filesystem::is_directory(name, error)) return {};
    for (const char* file : {"/report.json", "/report.txt", "/plan.toml"})
        if (std::filesystem::exists(name + file, error)) return name;
    // Of a node whose directory the others do not share.
    for (std::filesystem::directory_iterator entry(name, error), end; !error && entry != end;
         entry.increment(error))
        if (parse_node_file_name(entry->path().filename().string())) return name;
    return {};
}

std::string report_format(const Arguments& arguments) {
    const std::string format = !arguments.format.empty() ? arguments.format
                               : arguments.json          ? "json"
                                                         : "text";
    if (format != "text" && format != "json" && format != "md")
        throw Error(fmt::format("--format={} is not known", printable(format)), {},
                    "write text, json or md");
    return format;
}

int report_run(const std::string& directory, const std::string& format) {
    if (const auto report = report_of_nodes(directory)) {
        const std::string text = printable_lines(format == "json" ? report->json : report->text);
        print(format == "md" ? markdown(text) : text);
        return 0;
    }
    const std::string file = directory + (format == "json" ? "/report.json" : "/report.txt");
    if (!is_file(file))
        throw Error(fmt::format("no report in '{}'", printable(directory)), {},
                    "the run still goes on, it left none, or this is no run directory");
    const std::string text = printable_lines(read_text_file(file));
    print(format == "md" ? markdown(text) : text);
    return 0;
}

/// Reads files and keeps in words what of them could not be read.
class LogReading {
  public:
    explicit LogReading(const LogFiles& logs) : notes_(logs.unlisted) {
        if (logs.further > 0)
            notes_.push_back(fmt::format(
                "{}{} further files of directories were not read, at most {} are: name them, or a "
                "directory of fewer",
                logs.further >= kMostFurtherFiles ? "more than " : "", logs.further,
                kMostLogFiles));
    }

    /// `read` hands over the lines of `file` and sets `any` when there is one. A file that was only
    /// found in a directory is none to fail for. False: nothing of it could be read.
    bool read(const LogFile& file, const bool& any, const std::function<LogEnd()>& read) {
        try {
            if (read() == LogEnd::cut)
                notes_.push_back(fmt::format(
                    "{} ends early: it is packed and its end is missing, or is still written",
                    file.name == "-" ? "standard input" : "'" + printable(file.name) + "'"));
            whole_ = true;
        } catch (const Error& fault) {
            if (!file.found) throw;
            if (!first_) first_ = std::current_exception();
            notes_.push_back(
                fmt::format("{}: {}", fault.what(), any ? "read up to there" : "left out"));
            return any;
        }
        return true;
    }
    /// Throws the first fault when no file could be read to its end.
    void check() const {
        if (first_ && !whole_) std::rethrow_exception(first_);
    }
    std::vector<std::string> notes() const {
        constexpr std::size_t kMost = 8;
        if (notes_.size() <= kMost) return notes_;
        std::vector<std::string> notes(notes_.begin(), notes_.begin() + kMost);
        notes.push_back(fmt::format("{} more files were not read whole", notes_.size() - kMost));
        return notes;
    }

  private:
    std::vector<std::string> notes_;
    std::exception_ptr first_;
    bool whole_ = false;
};

/// All that logs say of one run.
RunFacts read_logs(const LogFiles& logs) {
    RunFacts facts;
    facts.tool_version = kVersion;
    facts.job.launcher = "unknown";
    LogModel model;
    failures::FailureLog failures;
    CallTimes times;
    LogReading reading(logs);
    for (const LogFile& file : logs.files) {
        facts.logs.push_back(file.name == "-" ? "standard input" : file.name);
        failures.begin_file(facts.logs.back());
        failures::LogScan scan(model, failures);
        bool any = false;
        const TakeLines take = [&](std::string_view lines, bool cut) {
            any = true;
            scan.add(lines, cut);
            if (!cut) times.add_lines(lines);
        };
        if (!reading.read(file, any, [&] { return read_log_blocks(file.name, take); }))
            facts.logs.pop_back();
    }
    reading.check();
    facts.notes = reading.notes();
    facts.failure = failures.verdict();
    facts.line_findings = failures.evidence().findings;
    facts.interfaces = failures.evidence().interfaces;
    facts.log = model.summary();
    estimate_in_flight(times, facts);
    return facts;
}

int report_logs(const std::vector<std::string>& names, const std::string& format) {
    const RunFacts facts = read_logs(log_files(names));
    if (format == "json")
        print(report_json(facts));
    else
        print(format == "md" ? markdown(log_report_text(facts)) : log_report_text(facts));
    return 0;
}

explain::PageForm page_form(const std::string& format) {
    if (format == "json") return explain::PageForm::json;
    return format == "md" ? explain::PageForm::markdown : explain::PageForm::text;
}

/// NCCL's logs in a run directory.
LogFiles run_logs(const std::string& directory) {
    LogFiles logs;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->path().filename().string().starts_with("nccl.") && is_file(entry->path()))
            logs.files.push_back({entry->path(), true});
    if (logs.files.empty())
        throw Error(fmt::format("no log of NCCL's in '{}'", printable(directory)), {},
                    "name a log: toporun report --explain LOG");
    std::sort(logs.files.begin(), logs.files.end(),
              [](const LogFile& a, const LogFile& b) { return a.name < b.name; });
    return logs;
}

/// What is known from all that can be read twice: of lines before the one that says which rank the
/// process is, and which line tells the first cause.
explain::Annotator annotator_of(const LogFiles& logs) {
    explain::Annotator annotator;
    LogFiles again;
    for (const LogFile& file : logs.files)
        if (is_file(file.name)) again.files.push_back(file);
    if (again.files.empty()) return annotator;
    const RunFacts facts = read_logs(again);
    annotator.know(facts.log.ranks);
    if (facts.failure) annotator.know(*facts.failure);
    return annotator;
}

int explain_logs(const LogFiles& logs, const std::string& format, const Console& console) {
    const explain::PageForm form = page_form(format);
    explain::Annotator annotator = annotator_of(logs);
    LogReading reading(logs);
    print(explain::page_begin(form));
    bool first = true;
    for (const LogFile& file : logs.files) {
        const bool live = file.name == "-";  // somebody may be looking
        const std::string name = live ? "standard input" : file.name;
        std::string page = logs.files.size() > 1 ? explain::page_file(form, name) : "";
        std::uint64_t number = 0;
        bool any = false;
        std::exception_ptr unprinted;  // no fault of the log
        const TakeLine take = [&](std::string_view line, bool cut) {
            any = true;
            const explain::Annotation annotation =
                annotator.annotate(line, fmt::format("{}:{}", name, ++number));
            page += explain::page_line(form, name, number, line, cut, annotation,
                                       std::exchange(first, false));
            constexpr std::size_t kPageBytes = 64 * 1024;
            if (!live && page.size() < kPageBytes) return;
            try {
                print(std::exchange(page, {}));
            } catch (const Error&) {
                unprinted = std::current_exception();
                throw;
            }
        };
        reading.read(file, any, [&] { return read_log_lines(file.name, take); });
        if (unprinted) std::rethrow_exception(unprinted);
        print(page);
    }
    print(explain::page_end(form));
    for (const std::string& note : reading.notes()) console.warn(note);
    return 0;
}

}  // namespace

int report_command(const Arguments& arguments, const Console& console) {
    const std::string format = report_format(arguments);
    std::vector<std::string> names = arguments.positional;
    for (std::string& name : names) {
        if (name == "/dev/stdin") name = "-";
        if (name.empty())  // most often a variable of a script that is not set
            throw Error("an empty name stands for no log", {},
                        "name a run directory or a log; '.' is this directory");
    }
    if (names.empty()) {
        const std::string newest = newest_run(environment_map());
        if (newest.empty())
            throw Error("no run is known here: toporun/latest is not there", {},
                        "name a run directory or a log, or start where the run was started");
        if (std::error_code error; !std::filesystem::exists(newest, error))
            throw Error(fmt::format("'{}' is not there", printable(newest)), {},
                        "name a run directory or a log");
        return arguments.explain ? explain_logs(run_logs(newest), format, console)
                                 : report_run(newest, format);
    }
    const std::string directory = names.size() == 1 ? run_directory_of(names.front()) : "";
    if (arguments.explain)
        return explain_logs(directory.empty() ? log_files(names) : run_logs(directory), format,
                            console);
    return directory.empty() ? report_logs(names, format) : report_run(directory, format);
}

}  // namespace toporun::launcher
