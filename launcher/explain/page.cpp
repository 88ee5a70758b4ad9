#include "launcher/explain/page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace toporun::launcher::explain {
namespace {

constexpr std::string_view kMeans = "    = ";
constexpr std::string_view kToDo = "    > ";

std::string json_line(const std::string& file, std::uint64_t number, std::string_view line,
                      bool cut, const Annotation& annotation, bool first) {
    using Json = nlohmann::ordered_json;
    const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
    Json row = {{"file", file},
                {"line", number},
                {"text", line},
                {"cut", cut},
                {"kind", or_null(annotation.kind)},
                {"meaning", or_null(annotation.says)},
                {"what_to_do", annotation.todo},
                {"rank", annotation.rank ? Json(*annotation.rank) : Json()}};
    return (first ? "" : ",\n") + row.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Markdown that stays text whatever it holds.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '<')
            out += "&lt;";
        else if (c == '&')
            out += "&amp;";
        else if (std::string_view("\\`*_[]()|#!~>").find(c) != std::string_view::npos)
            out += {'\\', c};
        else
            out += c;
    }
    return out;
}

}  // namespace

std::string page_begin(PageForm form) {
    return form == PageForm::json ? "{\"schema\":\"toporun.explanation/1\",\"lines\":[\n" : "";
}

std::string page_end(PageForm form) {
    return form == PageForm::json ? "\n]}\n" : "";
}

std::string page_file(PageForm form, const std::string& file) {
    if (form == PageForm::json) return {};
    if (form == PageForm::markdown) return fmt::format("\n## {}\n\n", escaped(printable(file)));
    return fmt::format("==> {} <==\n", printable(file));
}

std::string page_line(PageForm form, const std::string& file, std::uint64_t number,
                      std::string_view line, bool cut, const Annotation& annotation, bool first) {
    if (form == PageForm::json) return json_line(file, number, line, cut, annotation, first);
    const bool markdown = form == PageForm::markdown;
    const std::string shown = printable(line) + (cut ? " ..." : "");
    std::string out = markdown ? fmt::format("- {}\n", escaped(shown)) : shown + "\n";
    const auto add = [&](std::string_view mark, std::string_view text) {
        out += markdown ? fmt::format("  - {}\n", escaped(printable(text)))
                        : fmt::format("{}{}\n", mark, printable(text));
    };
    if (cut) add(kMeans, "the line is longer: its rest is not shown");
    if (!annotation.says.empty()) add(kMeans, annotation.says);
    for (const std::string& todo : annotation.todo)
        add(kToDo, markdown ? "what to do: " + todo : todo);
    return out;
}

}  // namespace toporun::launcher::explain
