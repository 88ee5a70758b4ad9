#include <fmt/format.h>

#include "launcher/report/judge.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_lines.hpp"
#include "launcher/report/tests_view.hpp"

namespace toporun::launcher {
namespace {

std::string files_text(const RunFacts& facts) {
    return facts.logs.size() == 1 ? facts.logs.front() : fmt::format("{} files", facts.logs.size());
}

}  // namespace

std::string log_report_text(const RunFacts& facts) {
    ReportLines text;
    add_failure_lines(facts, text);
    const std::vector<env::Finding> findings = differences(facts);
    if (!facts.log.started()) {
        const std::string none = fmt::format("no line of NCCL's in {}", files_text(facts));
        if (!facts.failure && findings.empty() && facts.log.tests.empty() && facts.notes.empty())
            return printable(none) + "\n";
        text.heading("Log");
        text.line(none);
        add_list_lines("nccl-tests", test_lines(facts.log), text);
        add_finding_lines(findings, text);
        add_list_lines("Notes", facts.notes, text);
        return text.take();
    }
    text.heading("Log");
    text.line(fmt::format("{}: {} lines of NCCL's", files_text(facts), facts.log.lines));
    add_nccl_lines(facts, text);
    if (facts.measured.in_flight) {
        std::vector<std::string> lines = {share_text(facts)};
        lines.insert(lines.end(), facts.measured.notes.begin(), facts.measured.notes.end());
        add_list_lines("Communication", lines, text);
    }
    add_list_lines("nccl-tests", test_lines(facts.log), text);
    add_finding_lines(findings, text);
    add_list_lines("Replay with nccl-tests", replay_commands(facts.log), text);
    add_list_lines("Notes", facts.notes, text);
    add_list_lines("Next steps", next_steps(facts), text);
    return text.take();
}

}  // namespace toporun::launcher
