#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"
#include "profiles/profile.hpp"
#include "profiles/variables.hpp"

namespace toporun::profiles {
namespace {

std::string required_text(TomlTable& table, const std::string& key) {
    std::string text = table.required_string(key);
    if (trim(text).empty()) table.fail(key, fmt::format("'{}' must not be empty", key));
    return text;
}

/// One of `allowed`, or "" when the key is absent.
std::string one_of(TomlTable& table, const std::string& key,
                   const std::vector<std::string>& allowed) {
    const auto word = table.string(key);
    if (!word) return "";
    if (std::find(allowed.begin(), allowed.end(), *word) != allowed.end()) return *word;
    const auto close = closest_word(*word, allowed);
    table.fail(key, fmt::format("'{}' is no value of '{}'", printable(*word), key),
               close ? fmt::format("did you mean '{}'?", *close)
                     : fmt::format("write one of {}", join(allowed, ", ")));
}

std::string version(TomlTable& table, const std::string& key) {
    const auto text = table.string(key);
    if (!text) return "";
    const std::vector<std::string> parts = split(*text, '.');
    const bool good = parts.size() >= 2 && parts.size() <= 3 &&
                      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
                          const auto number = to_integer(part);
                          return number && *number >= 0 && *number <= 99 && part.size() <= 2;
                      });
    if (!good)
        table.fail(key, fmt::format("'{}' is not a version", printable(*text)),
                   "write it like 2.28.9, or 2.28 for all of 2.28");
    return *text;
}

struct Range {
    std::string since;
    std::string until;
};

Range range(TomlTable& table) {
    Range range{version(table, "since"), version(table, "until")};
    if (!range.since.empty() && !version_in_range(range.since, "", range.until))
        table.fail("until",
                   fmt::format("'until' {} is below 'since' {}", range.until, range.since));
    return range;
}

/// The variable's value as text; nothing for `leave = true`. Exactly one of the two must be there.
std::optional<std::string> value_of(TomlTable& table) {
    const auto value = table.scalar_text("value");
    const auto leave = table.boolean("leave");
    if (leave && !*leave)
        table.fail("leave", "'leave' can only be true", "write a 'value' instead");
    if (value && leave) table.fail("leave", "'value' and 'leave' exclude each other");
    if (!value && !leave)
        table.fail("value", "a value is missing", "write 'value', or 'leave = true'");
    if (!value) return std::nullopt;
    if (value->empty())
        table.fail("value", "a value must not be empty",
                   "NCCL takes an empty value for something else than none: write 'leave = true'");
    if (*value == "true" || *value == "false")
        table.fail("value", fmt::format("'{}' means 0 to NCCL", *value), "write 1 or 0");
    if (value->find_first_of("\r\n") != std::string::npos || value->find('\0') != std::string::npos)
        table.fail("value", "a value must be one line");
    return value;
}

Value read_value(TomlTable& table) {
    Value value;
    value.name = table.required_string("variable");
    if (const auto why = refused_variable(value.name))
        table.fail("variable", fmt::format("'{}' cannot be in a profile", printable(value.name)),
                   *why);
    value.value = value_of(table);
    value.reason = required_text(table, "reason");
    value.source = required_text(table, "source");
    Range versions = range(table);
    value.since = std::move(versions.since);
    value.until = std::move(versions.until);
    value.where = table.where();
    return value;
}

std::optional<int> count(TomlTable& table, const std::string& key) {
    const auto number = table.integer(key);
    if (!number) return std::nullopt;
    if (*number < 0 || *number > 1024)
        table.fail(key, fmt::format("'{}' must be 0 to 1024, found {}", key, *number));
    return static_cast<int>(*number);
}

Match read_match(TomlTable& table) {
    Match match;
    match.gpu_names = table.strings("gpu_names").value_or(std::vector<std::string>{});
    for (const std::string& name : match.gpu_names)
        if (name.empty()) table.fail("gpu_names", "a GPU name must not be empty");
    match.gpu_count = count(table, "gpu_count");
    match.gpu_count_min = count(table, "gpu_count_min");
    match.links = one_of(table, "links", {"nvswitch", "nvlink", "none"});
    match.peer_access = one_of(table, "peer_access", {"ok", "refused"});
    match.vendor = table.string("vendor").value_or("");
    match.product = table.string("product").value_or("");
    return match;
}

bool matches_everything(const Match& match) {
    return match.gpu_names.empty() && !match.gpu_count && !match.gpu_count_min &&
           match.links.empty() && match.peer_access.empty() && match.vendor.empty() &&
           match.product.empty();
}

bool good_name(const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    });
}

ProfilerRule read_rule(TomlTable& table) {
    ProfilerRule rule;
    rule.library = one_of(table, "library", {"nccl", "rccl"});
    if (rule.library.empty()) table.required_string("library");
    const auto load = table.boolean("load");
    if (!load) table.fail("load", "'load' is missing", "write true or false");
    rule.load = *load;
    Range versions = range(table);
    rule.since = std::move(versions.since);
    rule.until = std::move(versions.until);
    if (const auto bytes = table.integer("shm_below_bytes")) {
        if (*bytes <= 0) table.fail("shm_below_bytes", "'shm_below_bytes' must be above 0");
        rule.shm_below_bytes = static_cast<std::uint64_t>(*bytes);
    }
    rule.all_events_only = table.boolean("all_events_only").value_or(false);
    rule.reason = required_text(table, "reason");
    rule.source = required_text(table, "source");
    rule.where = table.where();
    return rule;
}

}  // namespace

Profile read_profile(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    Profile profile;
    profile.file = file;
    profile.name = table.required_string("name");
    if (!good_name(profile.name))
        table.fail("name", fmt::format("'{}' is no profile name", printable(profile.name)),
                   "lower-case letters, digits, '-', '.' and '_'");
    profile.title = required_text(table, "title");
    auto match = table.table("match");
    if (match) profile.match = read_match(*match);
    std::vector<TomlTable> values = table.tables("values");
    for (TomlTable& value : values) profile.values.push_back(read_value(value));
    table.finish();
    if (matches_everything(profile.match))
        table.fail("match", "the profile does not say what it matches",
                   "give [match] at least one of gpu_names, gpu_count, gpu_count_min, links, "
                   "peer_access, vendor, product");
    return profile;
}

ProfilerVersions read_profiler_versions(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    ProfilerVersions versions;
    std::vector<TomlTable> rules = table.tables("rules");
    for (TomlTable& rule : rules) versions.rules.push_back(read_rule(rule));
    table.finish();
    return versions;
}

}  // namespace toporun::profiles
