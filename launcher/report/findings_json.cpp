#include "launcher/report/findings.hpp"
#include "launcher/report/json_values.hpp"

namespace toporun::launcher {

std::string findings_json(const env::Diagnosis& diagnosis) {
    return dumped({{"schema", "toporun.findings/1"},
                   {"findings", findings_array(diagnosis.findings)},
                   {"checks",
                    {{"total", diagnosis.checks},
                     {"not_made", diagnosis.not_made},
                     {"unknown", diagnosis.unknown}}},
                   {"profile", diagnosis.profiles.empty() ? Json(nullptr)
                                                          : Json(diagnosis.profiles.front().name)},
                   {"notes", diagnosis.notes}});
}

std::string preflight_json(const std::vector<env::Finding>& findings) {
    return dumped({{"schema", "toporun.findings/1"}, {"findings", findings_array(findings)}});
}

std::string check_list_json() {
    Json checks = Json::array();
    for (const env::CheckInfo& check : env::check_list())
        checks.push_back({{"id", check.id},
                          {"family", check.family},
                          {"worst", env::severity_text(check.worst)},
                          {"explanation", check.explanation}});
    return dumped({{"schema", "toporun.checks/1"}, {"checks", checks}});
}

}  // namespace toporun::launcher
