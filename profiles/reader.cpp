#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"
#include "profiles/profile.hpp"
#include "profiles/read_match.hpp"
#include "profiles/value_grammar.hpp"
#include "profiles/variables.hpp"

namespace toporun::profiles {
namespace {

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
    if (printable(*value) != *value)
        table.fail("value", fmt::format("'{}' holds what cannot be shown", printable(*value)),
                   "a value is one line of visible characters");
    return value;
}

Value read_value(TomlTable& table) {
    Value value;
    value.name = table.required_string("variable");
    value.value = value_of(table);
    const Use use = value.value ? Use::set : Use::leave;
    if (const auto why = refused_variable(value.name, use))
        table.fail("variable", fmt::format("'{}' cannot be in a profile", printable(value.name)),
                   *why);
    value.reason = required_text(table, "reason");
    value.source = required_text(table, "source");
    Range versions = range(table);
    value.since = std::move(versions.since);
    value.until = std::move(versions.until);
    if (value.value)
        if (const auto fault = value_fault(value.name, *value.value, value.since))
            table.fail("value", fault->what, fault->hint);
    value.where = table.where();
    return value;
}

/// The first entry for all versions is the one that is used.
void check_twice(const TomlTable& table, const std::vector<Value>& values, const Value& value) {
    for (const Value& earlier : values)
        if (earlier.name == value.name && earlier.since.empty() && earlier.until.empty())
            table.fail(
                "variable",
                fmt::format("'{}' is there already and holds for every version", value.name),
                fmt::format("this one would never be used: the first is at {}", earlier.where));
}

constexpr const char* kNameHint = "lower-case letters, digits, '-', '.' and '_'";

bool good_name(std::string_view name) {
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
    rule.reason = required_text(table, "reason");
    rule.source = required_text(table, "source");
    rule.where = table.where();
    return rule;
}

}  // namespace

void check_profile_name(std::string_view name) {
    if (!good_name(name))
        throw Error(fmt::format("'{}' is no profile name", printable(name)), {}, kNameHint);
}

Profile read_profile(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    Profile profile;
    profile.file = file;
    profile.name = table.required_string("name");
    if (!good_name(profile.name))
        table.fail("name", fmt::format("'{}' is no profile name", printable(profile.name)),
                   kNameHint);
    profile.title = required_text(table, "title");
    auto match = table.table("match");
    if (match) profile.match = read_match(*match);
    if (auto expect = table.table("expect")) profile.expect = read_expect(*expect);
    std::vector<TomlTable> values = table.tables("values");
    for (TomlTable& table_of_value : values) {
        Value value = read_value(table_of_value);
        check_twice(table_of_value, profile.values, value);
        profile.values.push_back(std::move(value));
    }
    table.finish();
    if (specificity(profile.match) == 0)
        table.fail("match", "the profile does not say what it matches",
                   "give [match] at least one of vendor, products, asset_tag, board, gpu_names, "
                   "gpu_ids, gpu_count, gpu_count_min, links, peer_access, nics, kernel, plugins, "
                   "files");
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
