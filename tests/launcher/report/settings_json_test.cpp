#include <algorithm>
#include <optional>

#include "facts.hpp"
#include "launcher/report/json.hpp"
#include "sample_machines.hpp"
#include "schema.hpp"

namespace toporun::tests {
namespace {

env::Plan decided(const detect::Machine& machine, const env::UserEnvironment& user,
                  std::optional<int> ranks) {
    env::Job job;
    job.launcher = "shell";
    job.nodes = 2;
    job.ranks_per_node = ranks;
    job.same_host = true;
    return env::decide(job, machine, profiles::builtin_knowledge(), user, {});
}

}  // namespace

TEST_CASE("the JSON of the settings obeys its schema on every sample machine") {
    const Schema schema = documented_schema("settings");
    env::UserEnvironment user;
    user.variables = {{"NCCL_P2P_LEVEL", "nvl"}, {"NCCL_SOCKET_IFNAME", "\xff\x1b["}};
    for (const auto& sample : sample_machines())
        for (const auto& ranks : {std::optional<int>(), std::optional<int>(4)})
            for (const auto& environment : {env::UserEnvironment{}, user}) {
                const std::string& name = sample.first;
                CAPTURE(name);
                const auto text =
                    launcher::settings_json(decided(sample.second, environment, ranks));
                for (const std::string& fault : schema.faults(json::parse(text))) FAIL_CHECK(fault);
            }
    for (const std::string& fault :
         schema.faults(json::parse(launcher::settings_json(eight_gpu_run().plan))))
        FAIL_CHECK(fault);
}

TEST_CASE("the schema of the settings refuses what the JSON must not be") {
    const Schema schema = documented_schema("settings");
    env::Plan plan = eight_gpu_run().plan;
    plan.findings.emplace_back();
    const json good = json::parse(launcher::settings_json(plan));
    REQUIRE_FALSE(good["pairs"].empty());
    struct Row {
        const char* name;
        const char* pointer;
        json value;
    };
    const Row rows[] = {{"unknown key", "/more", 1},
                        {"type", "/settings/0/exported", "yes"},
                        {"no null", "/settings/0/reason", nullptr},
                        {"path", "/pairs/0/path", "NVX"},
                        {"transport", "/pairs/0/transport", nullptr},
                        {"severity", "/findings/0/severity", "bad"},
                        {"schema", "/schema", "toporun.settings/2"}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        json bad = good;
        bad[json::json_pointer(row.pointer)] = row.value;
        CHECK(schema.faults(bad).size() == 1);
    }
}

TEST_CASE("JSON is plain ASCII whatever a value holds, and parses back to it") {
    env::Plan plan = eight_gpu_run().plan;
    const std::string odd = "a\x1b[31m\x7f\xc2\x9b\xe2\x80\xaex";  // ESC, DEL, CSI, right-to-left
    plan.settings.front().value = odd;
    const std::string text = launcher::settings_json(plan);
    CHECK(std::all_of(text.begin(), text.end(),
                      [](char c) { return c == '\n' || (c >= ' ' && c < '\x7f'); }));
    CHECK(json::parse(text)["settings"][0]["value"] == odd);
}

TEST_CASE("the schema of the settings describes every key") {
    check_all_described(documented_schema("settings").root());
}

}  // namespace toporun::tests
