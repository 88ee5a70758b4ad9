#include "log_report.hpp"

#include <algorithm>
#include <memory>

#include "launcher/failures/log_scan.hpp"
#include "launcher/log/stream.hpp"
#include "launcher/report/report.hpp"
#include "targets.hpp"

namespace toporun::fuzz {
namespace {

using namespace launcher;

struct Read {
    LogModel model;
    failures::FailureLog failures;
};

std::size_t end_of_line(std::string_view text, std::size_t at) {
    const std::size_t end = text.find('\n', at);
    return end == text.npos ? text.size() : end + 1;
}

void read_long(std::string_view text, Read& read) {
    LogStream stream(read.model);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = end_of_line(text, at);
        std::string_view line = text.substr(at, end - at);
        if (line.ends_with('\n')) line.remove_suffix(1);
        read.failures.add(line, &stream.add(line));
        at = end;
    }
}

/// Each block stands in memory of its own size, so that a look beyond it is seen.
void read_short(std::string_view text, std::size_t lines, Read& read) {
    failures::LogScan scan(read.model, read.failures);
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        for (std::size_t i = 0; i < lines && end < text.size(); ++i) end = end_of_line(text, end);
        const auto block = std::make_unique<char[]>(end - at);
        std::copy(text.begin() + static_cast<std::ptrdiff_t>(at),
                  text.begin() + static_cast<std::ptrdiff_t>(end), block.get());
        scan.add({block.get(), end - at}, false);
        at = end;
    }
}

RunFacts facts_of(const Read& read) {
    RunFacts facts;
    facts.logs = {"a.log"};
    facts.job.launcher = "unknown";
    facts.failure = read.failures.verdict();
    facts.line_findings = read.failures.evidence().findings;
    facts.interfaces = read.failures.evidence().interfaces;
    facts.log = read.model.summary();
    return facts;
}

bool obeyed(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n') || byte == 0x7f;
}

}  // namespace

void run_log_report(std::string_view text) {
    if (text.empty()) return;
    const std::size_t lines = 1 + static_cast<unsigned char>(text.front()) % 64;
    text.remove_prefix(1);
    Read one, other;
    one.failures.begin_file("a.log");
    other.failures.begin_file("a.log");
    read_long(text, one);
    read_short(text, lines, other);
    const RunFacts facts = facts_of(one);
    const std::string json = report_json(facts);
    if (json != report_json(facts_of(other)))
        throw Broken("the short way through the log has another result than the long one");
    const std::string shown = log_report_text(facts);
    if (std::any_of(shown.begin(), shown.end(), obeyed) ||
        std::any_of(json.begin(), json.end(), obeyed))
        throw Broken("a control character reaches the report");
}

}  // namespace toporun::fuzz
