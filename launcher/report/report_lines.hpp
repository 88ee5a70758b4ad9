#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// Collects lines under headings; every line is made printable here.
class ReportLines {
  public:
    void heading(std::string_view title) {
        if (!out_.empty()) out_ += '\n';
        out_ += fmt::format("{}\n", title);
    }
    void line(std::string_view text) { out_ += "  " + printable(text) + "\n"; }
    void detail(std::string_view name, const std::string& text) {
        if (!text.empty()) out_ += fmt::format("    {}: {}\n", name, printable(text));
    }
    void list(std::string_view name, const std::vector<std::string>& items) {
        if (!items.empty()) line(fmt::format("{}: {}", name, join(items, ", ")));
    }
    std::string take() { return std::move(out_); }

  private:
    std::string out_;
};

/// The first cause of a failed run: who, what, the line that tells it and what to do; nothing when
/// it did not fail.
void add_failure_lines(const RunFacts& facts, ReportLines& text);

/// What NCCL did, and how well its log could be read.
void add_nccl_lines(const RunFacts& facts, ReportLines& text);

/// A heading and the lines below it; nothing when there is none.
void add_list_lines(std::string_view title, const std::vector<std::string>& lines,
                    ReportLines& text);

/// Findings with evidence, effect and fix.
void add_finding_lines(const std::vector<env::Finding>& findings, ReportLines& text);

}  // namespace toporun::launcher
