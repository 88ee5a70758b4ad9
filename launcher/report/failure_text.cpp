#include <fmt/format.h>

#include "launcher/report/judge.hpp"
#include "launcher/report/report_lines.hpp"

namespace toporun::launcher {

std::string failure_text(const failures::Verdict& failure) {
    return fmt::format("first cause: {} [{}, {}]", failure.what, failure.cause,
                       failures::confidence_text(failure.confidence));
}

void add_failure_lines(const RunFacts& facts, ReportLines& text) {
    if (!facts.failure) return;
    const failures::Verdict& failure = *facts.failure;
    text.heading("Failure");
    text.line(failure_text(failure));
    if (!failure.frame.empty()) text.detail("in", failure.frame);
    text.detail("evidence", failure.evidence);
    text.detail("where", failure.where);
    for (const std::string& step : failure.advice) text.detail("what to do", step);
    for (const std::string& remark : failure.remarks) text.detail("note", remark);
}

}  // namespace toporun::launcher
