#include "launcher/cli/opening_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "env/summary.hpp"
#include "launcher/report/machine_view.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostOpeningLines = 5;

}  // namespace

std::vector<std::string> opening_lines(const Prepared& prepared, const std::string& run_directory) {
    std::vector<std::string> lines = {machine_line(prepared.machine)};
    for (std::string& line : env::plan_lines(prepared.command.job, prepared.machine, prepared.plan))
        lines.push_back(std::move(line));
    if (!run_directory.empty()) lines.back() += "; run directory " + run_directory;
    std::vector<std::string> remarks;
    for (const std::string& problem : prepared.problems) remarks.push_back("warning: " + problem);
    std::vector<env::Finding> findings = prepared.plan.findings;
    std::stable_sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
        return static_cast<int>(a.severity) < static_cast<int>(b.severity);
    });
    for (const env::Finding& finding : findings) {
        const bool note = finding.severity == env::Severity::note;
        remarks.push_back((note ? "note: " : "warning: ") + finding.what +
                          (finding.fix.empty() ? "" : ": " + env::fix_text(finding)));
    }
    for (const auto* notes : {&prepared.command.notes, &prepared.launch.notes})
        for (const std::string& note : *notes)
            if (std::find(remarks.begin(), remarks.end(), "note: " + note) == remarks.end())
                remarks.push_back("note: " + note);
    const std::size_t room = kMostOpeningLines - std::min(lines.size(), kMostOpeningLines);
    for (std::size_t i = 0; i < remarks.size(); ++i) {
        if (i + 1 == room && remarks.size() > room) {
            lines.push_back(fmt::format("{} more remarks, all in the report; first: {}",
                                        remarks.size() - i, remarks[i]));
            break;
        }
        lines.push_back(remarks[i]);
    }
    return lines;
}

}  // namespace toporun::launcher
