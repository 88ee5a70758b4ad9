#include "launcher/report/machine_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view_parts.hpp"

namespace toporun::launcher {

std::string titled(std::string_view title, const std::string& text) {
    return text.empty() ? text : fmt::format("\n{}\n{}", title, text);
}

std::string fact_lines(const std::vector<std::pair<std::string, std::string>>& facts) {
    std::size_t width = 0;
    for (const auto& [name, value] : facts)
        if (!value.empty()) width = std::max(width, text_width(name));
    std::string out;
    for (const auto& [name, value] : facts)
        if (!value.empty()) out += fmt::format("  {:{}}  {}\n", name, width, printable(value));
    return out;
}

namespace {

std::string note_section(const detect::Machine& machine) {
    std::string out;
    for (const std::string& note : machine.notes) out += "  " + printable(note) + "\n";
    return titled("notes", out);
}

}  // namespace

std::string machine_view(const detect::Machine& machine) {
    std::string out = machine_line(machine) + "\n";
    if (!machine.hostname.empty()) {
        const std::string host = printable(machine.hostname) + ":";
        const bool fits = text_width(host) + text_width(out) <= kViewWidth;
        out = host + (fits ? " " : "\n") + out;
    }
    struct Section {
        std::string_view subject;
        std::string text;
        bool may_be_empty;  ///< that there is nothing is known
    };
    const Section sections[] = {
        {"GPUs", gpu_section(machine) + link_section(machine), machine.gpus_known},
        {"network", network_section(machine), machine.nics_known},
        {"processors", processor_section(machine), false},
        {"limits", limit_section(machine), false},
        {"software", software_section(machine), false},
    };
    std::vector<std::string> unknown;
    for (const Section& section : sections) {
        out += section.text;
        if (section.text.empty() && !section.may_be_empty) unknown.emplace_back(section.subject);
    }
    out += note_section(machine);
    if (!unknown.empty()) out += "\nunknown: " + join(unknown, ", ") + "\n";
    return out;
}

}  // namespace toporun::launcher
