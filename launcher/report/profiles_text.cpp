#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/profiles_view.hpp"

namespace toporun::launcher {
namespace {

using profiles::Layer;
using profiles::Profile;

/// "sets NCCL_IB_TC", "sets nothing".
std::string sets_text(const Profile& profile) {
    std::vector<std::string> names;
    for (const profiles::Value& value : profile.values)
        if (value.value && std::find(names.begin(), names.end(), value.name) == names.end())
            names.push_back(value.name);
    return names.empty() ? "sets nothing" : "sets " + join(names, ", ");
}

std::string feature_line(const env::Feature& feature) {
    const std::string found = feature.found.empty() ? "not known" : feature.found;
    return fmt::format("    {:<8} {}: wants {}; here {}\n", env::fit_text(feature.fit),
                       feature.name, printable(feature.wanted), printable(found));
}

std::string head_line(const MatchedProfile& one) {
    return fmt::format(
        "{} ({}, {})\n", one.profile->name, printable(one.profile->title),
        one.profile->layer == Layer::built_in ? "built-in" : printable(one.profile->file));
}

std::string setting_lines(const env::Setting& setting) {
    const std::string value =
        setting.value ? "=" + shell_word(*setting.value) : std::string(" not set");
    return fmt::format("    {} [{}]\n        {}\n", printable(setting.name + value),
                       printable(env::origin_text(setting)), printable(setting.reason));
}

std::string matched_text(const MatchedProfile& one, const std::vector<env::Setting>& settings) {
    std::string text = (one.used ? "fits: " : "fits too, but another is closer: ") + head_line(one);
    for (const env::Feature& feature : one.features) text += feature_line(feature);
    if (!one.used) return text;
    std::string lines;
    for (const env::Setting& setting : settings)
        if (std::any_of(one.profile->values.begin(), one.profile->values.end(),
                        [&](const auto& value) { return value.name == setting.name; }))
            lines += setting_lines(setting);
    return text + (lines.empty() ? "" : "  of its variables:\n" + lines);
}

}  // namespace

std::string_view layer_text(Layer layer) {
    switch (layer) {
        case Layer::built_in:
            return "built-in";
        case Layer::site:
            return "site";
        case Layer::user:
            return "user";
        case Layer::command_line:
            break;
    }
    return "command-line";
}

std::string profile_list_text(const std::vector<Profile>& known) {
    std::size_t width = 0;
    for (const Profile& profile : known) width = std::max(width, profile.name.size());
    std::string text;
    for (const Profile& profile : known)
        text += fmt::format(
            "{:<{}}  {}; {}{}\n", profile.name, width, printable(profile.title), sets_text(profile),
            profile.layer == Layer::built_in ? "" : fmt::format(" [{}]", printable(profile.file)));
    return text;
}

std::string profile_match_text(const MatchResult& result) {
    std::string text;
    for (const MatchedProfile& one : result.matched) text += matched_text(one, result.settings);
    if (result.matched.empty()) text += "no profile fits this machine\n";
    for (const MatchedProfile& one : result.nearest) {
        text += "near: " + head_line(one);
        for (const env::Feature& feature : one.features)
            if (feature.fit != env::Fit::fits) text += feature_line(feature);
    }
    return text;
}

std::string profile_check_text(const std::vector<CheckedFile>& files) {
    std::string text;
    for (const CheckedFile& file : files) {
        if (file.what.empty()) {
            text += fmt::format("{}: profile {}, {} this machine\n", printable(file.file),
                                file.name, file.fits ? "fits" : "does not fit");
            continue;
        }
        text += fmt::format("{}: {}\n", printable(file.where), printable(file.what));
        if (!file.hint.empty()) text += fmt::format("  hint: {}\n", printable(file.hint));
    }
    return text;
}

}  // namespace toporun::launcher
