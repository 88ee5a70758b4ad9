#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/findings.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kLineWidth = 100;

const char* colour_of(env::Severity severity) {
    switch (severity) {
        case env::Severity::broken:
            return "\033[31m";
        case env::Severity::slow:
            return "\033[33m";
        case env::Severity::note:
            break;
    }
    return "\033[36m";
}

std::string severity_word(env::Severity severity, bool colour) {
    const std::string word = fmt::format("{:<6}", env::severity_text(severity));
    return colour ? fmt::format("{}{}\033[0m", colour_of(severity), word) : word;
}

/// "        fix:    ...", "" for an empty text. Not wrapped: commands are copied as they stand.
std::string row(std::string_view label, const std::string& text) {
    if (text.empty()) return "";
    return fmt::format("        {:<8}{}\n", label, printable(text));
}

std::string block(const env::Finding& finding, bool colour) {
    return fmt::format("{}  {}  [{}]\n", severity_word(finding.severity, colour),
                       printable(finding.what), printable(finding.id)) +
           row("where:", finding.where) + row("seen:", finding.evidence) +
           row("effect:", finding.effect) + row("fix:", finding.fix) +
           row("remark:", finding.remark);
}

/// `text` broken between words into lines that start with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
    std::string out, line;
    for (const std::string& word : split(text, ' ')) {
        if (!line.empty() && indent + line.size() + 1 + word.size() > kLineWidth) {
            out += std::string(indent, ' ') + line + '\n';
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return out + std::string(indent, ' ') + line + '\n';
}

}  // namespace

std::string findings_text(const env::Diagnosis& diagnosis, bool colour,
                          const std::string& notes_command) {
    std::string text;
    for (const env::Finding& finding : diagnosis.findings) text += block(finding, colour) + '\n';
    for (const env::UsedProfile& profile : diagnosis.profiles)
        text += "profile: " + env::profile_text(profile) + '\n';
    text += printable(env::summary_line(diagnosis)) + '\n';
    const std::size_t notes = diagnosis.notes.size();
    if (notes == 0 || notes_command.empty()) return text;
    return text + fmt::format("the capture has {} note{}: {} shows {}\n", notes,
                              notes == 1 ? "" : "s", printable(notes_command),
                              notes == 1 ? "it" : "them");
}

std::string preflight_text(const std::vector<env::Finding>& findings, bool colour) {
    std::string text;
    std::vector<std::string> counts;
    for (const env::Finding& finding : findings) text += block(finding, colour) + '\n';
    for (const auto severity : {env::Severity::broken, env::Severity::slow, env::Severity::note}) {
        const auto count =
            std::count_if(findings.begin(), findings.end(),
                          [&](const auto& finding) { return finding.severity == severity; });
        const bool several = severity == env::Severity::note && count > 1;
        if (count > 0)
            counts.push_back(
                fmt::format("{} {}{}", count, env::severity_text(severity), several ? "s" : ""));
    }
    return text + (counts.empty() ? "nothing found" : join(counts, ", ")) + '\n';
}

std::string check_list_text() {
    std::string text;
    std::string_view family;
    for (const env::CheckInfo& check : env::check_list()) {
        if (check.family != family) {
            if (!text.empty()) text += '\n';
            family = check.family;
            text += fmt::format("{}\n", family);
        }
        text += fmt::format("  {} ({})\n", check.id, env::severity_text(check.worst));
        text += wrapped(check.explanation, 6);
    }
    return text;
}

}  // namespace toporun::launcher
