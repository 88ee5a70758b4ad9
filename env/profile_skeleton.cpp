#include "env/profile_skeleton.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/match_profile.hpp"
#include "profiles/value_grammar.hpp"
#include "profiles/variables.hpp"

namespace toporun::env {
namespace {

/// A TOML basic string.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : printable(text)) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string quoted_list(const std::set<std::string>& words) {
    std::vector<std::string> parts;
    for (const std::string& word : words) parts.push_back(quoted(word));
    return "[" + join(parts, ", ") + "]";
}

/// Firmware that was never filled in: "To Be Filled By O.E.M.", "System Product Name".
bool says_something(const std::string& text) {
    return !text.empty() && text.find("O.E.M.") == std::string::npos &&
           text.find("System ") == std::string::npos && text.find("Default") == std::string::npos &&
           text.find("Not Specified") == std::string::npos;
}

std::string match_lines(const detect::Machine& machine) {
    std::string lines;
    if (says_something(machine.vendor))
        lines += fmt::format("vendor = {}\n", quoted(machine.vendor));
    if (says_something(machine.product))
        lines += fmt::format("products = [{}]\n", quoted(machine.product));
    std::set<std::string> names;
    for (const detect::Gpu& gpu : machine.gpus)
        if (!gpu.name.empty()) names.insert(gpu.name);
    if (!names.empty()) lines += fmt::format("gpu_names = {}\n", quoted_list(names));
    if (!machine.gpus.empty()) lines += fmt::format("gpu_count = {}\n", machine.gpus.size());
    if (const std::string links = links_word(machine); !links.empty())
        lines += fmt::format("links = {}\n", quoted(links));
    if (lines.empty())
        throw Error("nothing is known of this machine by which a profile could recognise it", {},
                    "toporun detect shows what is known and why the rest is not");
    return lines;
}

struct Entry {
    std::string variable;
    std::string value;
    std::string reason;
    std::string source;
};

std::string entry_text(const Entry& entry) {
    return fmt::format("\n[[values]]\nvariable = {}\nvalue = {}\nreason = {}\nsource = {}\n",
                       quoted(entry.variable), quoted(entry.value), quoted(entry.reason),
                       quoted(entry.source));
}

bool may_be_set(const std::string& name, const std::string& value) {
    return name.starts_with("NCCL_") && !trim(value).empty() && printable(value) == value &&
           !profiles::refused_variable(name) && !profiles::value_fault(name, value, "");
}

/// Interfaces are the matter of each host, not of its kind.
bool is_of_one_host(const std::string& name) {
    return name.ends_with("_IFNAME");
}

std::vector<Entry> entries(const Plan& plan, const UserEnvironment& user,
                           const std::string& origin) {
    std::vector<Entry> found;
    std::set<std::string> named;
    for (const Setting& setting : plan.settings) {
        if (!setting.exported || setting.per_rank || !may_be_set(setting.name, *setting.value) ||
            is_of_one_host(setting.name))
            continue;
        found.push_back(
            {setting.name, *setting.value, setting.reason,
             fmt::format("chosen by {} [{}]: {}", origin, origin_text(setting), setting.evidence)});
        named.insert(setting.name);
    }
    for (const auto& [name, value] : user.variables)
        if (may_be_set(name, value) && !is_of_one_host(name) && named.insert(name).second)
            found.push_back({name, value,
                             "it was set where this file was written; write here why it is right",
                             fmt::format("the environment that {} ran in", origin)});
    return found;
}

}  // namespace

std::string profile_skeleton(const std::string& name, const detect::Machine& machine,
                             const Plan& plan, const UserEnvironment& user,
                             const std::string& origin) {
    const std::string match = match_lines(machine);
    const std::vector<Entry> values = entries(plan, user, origin);
    std::string text = fmt::format(
        "# Written by toporun profiles save. 'toporun profiles check' reads it, 'toporun profiles\n"
        "# match' shows where it fits. docs/profiles.md has every key.\n"
        "name = {}\ntitle = {}\n\n[match]\n{}",
        quoted(name), quoted(fmt::format("Profile {} of {}", name, origin)), match);
    for (const Entry& entry : values) text += entry_text(entry);
    if (values.empty())
        text +=
            "\n# Nothing is set on this machine: NCCL's own choices stand. A value looks like "
            "this:\n"
            "#\n# [[values]]\n# variable = \"NCCL_IB_TC\"\n# value = \"106\"\n"
            "# reason = \"the traffic class that our switches carry without loss\"\n"
            "# source = \"network team, page RoCE\"\n";
    return text;
}

}  // namespace toporun::env
