#include "launcher/report/json_values.hpp"
#include "launcher/report/profiles_view.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kSchema = "toporun.profiles/1";

Json value_object(const profiles::Value& value) {
    return {
        {"name", value.name},     {"value", or_null(value.value)}, {"reason", value.reason},
        {"source", value.source}, {"since", or_null(value.since)}, {"until", or_null(value.until)}};
}

Json profile_object(const profiles::Profile& profile) {
    Json values = Json::array();
    for (const profiles::Value& value : profile.values) values.push_back(value_object(value));
    return {{"name", profile.name},
            {"title", profile.title},
            {"file", profile.file},
            {"from", layer_text(profile.layer)},
            {"values", values}};
}

Json matched_object(const MatchedProfile& one) {
    Json object = profile_object(*one.profile);
    object["used"] = one.used;
    object["features"] = Json::array();
    for (const env::Feature& feature : one.features)
        object["features"].push_back({{"name", feature.name},
                                      {"wanted", feature.wanted},
                                      {"found", or_null(feature.found)},
                                      {"fit", env::fit_text(feature.fit)}});
    return object;
}

Json matched_array(const std::vector<MatchedProfile>& list) {
    Json array = Json::array();
    for (const MatchedProfile& one : list) array.push_back(matched_object(one));
    return array;
}

}  // namespace

std::string profile_list_json(const std::vector<profiles::Profile>& known) {
    Json list = Json::array();
    for (const profiles::Profile& profile : known) list.push_back(profile_object(profile));
    return dumped({{"schema", kSchema}, {"profiles", list}});
}

std::string profile_match_json(const MatchResult& result) {
    Json settings = Json::array();
    for (const env::Setting& setting : result.settings)
        settings.push_back({{"name", setting.name},
                            {"value", or_null(setting.value)},
                            {"origin", env::origin_text(setting)},
                            {"exported", setting.exported},
                            {"reason", setting.reason}});
    return dumped({{"schema", kSchema},
                   {"matched", matched_array(result.matched)},
                   {"nearest", matched_array(result.nearest)},
                   {"settings", settings}});
}

std::string profile_check_json(const std::vector<CheckedFile>& files) {
    Json list = Json::array();
    for (const CheckedFile& file : files) {
        Json error = nullptr;
        if (!file.what.empty())
            error = {{"what", file.what}, {"where", file.where}, {"hint", or_null(file.hint)}};
        list.push_back({{"file", file.file},
                        {"name", or_null(file.name)},
                        {"fits", file.what.empty() ? Json(file.fits) : Json(nullptr)},
                        {"error", error}});
    }
    return dumped({{"schema", kSchema}, {"files", list}});
}

std::string profile_show_json(const profiles::Profile& profile, const std::string& text) {
    Json object = profile_object(profile);
    object["text"] = text;
    return dumped({{"schema", kSchema}, {"profiles", Json::array({object})}});
}

std::string profile_saved_json(const std::string& name, const std::string& file) {
    return dumped({{"schema", kSchema}, {"saved", {{"name", name}, {"file", file}}}});
}

}  // namespace toporun::launcher
