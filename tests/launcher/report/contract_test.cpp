#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "facts.hpp"
#include "launcher/report/json.hpp"
#include "launcher/report/report.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;
using nlohmann::json;

namespace {

void check_keys(const json& object, const std::vector<std::string>& keys) {
    REQUIRE(object.is_object());
    for (const std::string& key : keys) {
        CAPTURE(key);
        CHECK(object.contains(key));
    }
}

bool is_clean(const std::string& text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
    }
    return text.find('\xff') == text.npos;
}

}  // namespace

TEST_CASE("the machine object keeps its contract") {
    const json machine = json::parse(machine_json(eight_gpu_run().machine));
    CHECK(machine["schema"] == "toporun.machine/1");
    check_keys(machine, {"gpus", "gpu_paths", "gpu_links", "nics", "gpu_nic_paths", "cpu", "limits",
                         "software", "notes"});
    check_keys(machine["gpus"][0], {"index", "name", "vendor", "pci", "uuid", "numa_node", "cpus",
                                    "memory_bytes", "pcie_generation", "pcie_width", "mig"});
    check_keys(machine["nics"][0], {"name", "kind", "state", "speed_gbits", "mtu", "addresses",
                                    "pci", "numa_node", "rdma_device", "port"});
    check_keys(machine["cpu"], {"vendor", "model", "packages", "numa_nodes", "allowed"});
    check_keys(machine["limits"], {"shm_bytes", "memlock_bytes", "cpu_quota"});
    check_keys(machine["software"], {"driver", "nccl_version", "nccl_library"});
    CHECK(machine["gpus"][0]["pci"] == "0000:1a:00.0");
    CHECK(machine["gpu_paths"][0] == json{"LOC", "NVL", "NVL", "NVL", "NVL", "NVL", "NVL", "NVL"});
    CHECK(machine["gpu_links"][1][0] == 18);
    CHECK(machine["gpu_nic_paths"][0][0].is_null());
    CHECK(machine["nics"][0]["rdma_device"].is_null());
    CHECK(machine["cpu"]["allowed"] == "0-63");
    CHECK(machine["limits"]["memlock_bytes"] == "unlimited");
    CHECK(machine["limits"]["cpu_quota"].is_null());
}

TEST_CASE("an empty machine is all null and empty lists") {
    const json machine = json::parse(machine_json({}));
    CHECK(machine["gpus"].empty());
    CHECK(machine["gpu_paths"].is_array());
    CHECK(machine["cpu"]["model"].is_null());
    CHECK(machine["software"]["nccl_version"].is_null());
}

TEST_CASE("the settings object keeps its contract") {
    toporun::env::Plan plan = eight_gpu_run().plan;
    plan.findings.push_back(
        {"shm-too-small", toporun::env::Severity::broken, "w", "e", "f", "x", ""});
    const json settings = json::parse(settings_json(plan));
    CHECK(settings["schema"] == "toporun.settings/1");
    check_keys(settings, {"settings", "pairs", "ranks", "workers", "findings"});
    check_keys(settings["settings"][0],
               {"name", "value", "origin", "reason", "evidence", "nccl_default"});
    CHECK(settings["settings"][0]["origin"] == "profile:hgx-h100");
    CHECK(settings["settings"][1]["value"].is_null());
    CHECK(settings["settings"][1]["origin"] == "left-to-nccl");
    CHECK(settings["pairs"].size() == 28);
    check_keys(settings["pairs"][0], {"a", "b", "path", "transport", "transport_default"});
    check_keys(settings["ranks"][0], {"local_rank", "gpu", "cpus", "numa_node", "nics"});
    check_keys(settings["workers"], {"omp_num_threads", "loader_workers"});
    check_keys(settings["findings"][0],
               {"id", "severity", "what", "evidence", "effect", "fix", "where"});
    CHECK(settings["findings"][0]["severity"] == "broken");
}

TEST_CASE("the dry run object keeps its contract and masks secrets") {
    Command command;
    command.argv = {"mpirun", "-np", "4", "./train", "--token", "abc"};
    command.program_at = {3};
    command.job.launcher = "openmpi";
    command.job.nodes = 1;
    Launch launch;
    launch.argv = {"mpirun",  "--bind-to", "none", "-np", "4", "/opt/bin/toporun-shim",
                   "./train", "--token",   "abc"};
    launch.added = {{"NCCL_P2P_LEVEL", "NVL"}};
    launch.rewrite = Rewrite::inserted;
    const json run = json::parse(dry_run_json(command, launch, eight_gpu_run().plan));
    CHECK(run["schema"] == "toporun.run/1");
    check_keys(run, {"launcher", "prefixes", "program", "nodes", "ranks_per_node", "command",
                     "exported", "filled_in", "rewrite", "settings", "findings"});
    CHECK(run["launcher"] == "openmpi");
    CHECK(run["program"] == json{"./train", "--token", "***"});
    CHECK(run["command"].back() == "***");
    CHECK(run["filled_in"] == json{"--bind-to", "none"});
    CHECK(run["exported"] == json{{"NCCL_P2P_LEVEL", "NVL"}});
    CHECK(run["rewrite"] == "inserted");
    CHECK(run["ranks_per_node"].is_null());
    const json empty = json::parse(dry_run_json({}, {}, {}));
    CHECK(empty["program"].is_array());
    CHECK(empty["exported"].is_object());
    CHECK(empty["rewrite"] == "export-only");
}

TEST_CASE("that NCCL started is true or unknown, for silence proves nothing") {
    CHECK(json::parse(report_json(ring_run()))["nccl"]["started"] == true);
    CHECK(json::parse(report_json(plain_run()))["nccl"]["started"].is_null());
}

TEST_CASE("the report object keeps its contract") {
    const json report = json::parse(report_json(eight_gpu_run()));
    CHECK(report["schema"] == "toporun.report/1");
    check_keys(report, {"command", "exit", "communication", "warnings", "findings", "next_steps",
                        "nccl", "collectives", "ranks", "nodes", "steps", "settings"});
    check_keys(report["exit"], {"status", "signal", "first_failure"});
    for (const char* name :
         {"in_flight_share", "transfer_share", "waiting_share", "exposed_share"}) {
        check_keys(report["communication"][name], {"value", "label"});
    }
    check_keys(report["nccl"], {"versions", "network", "interfaces", "transports"});
    check_keys(report["nccl"]["transports"][0], {"from", "to", "transport"});
    check_keys(report["collectives"][0],
               {"function", "size_class", "count", "bytes", "busbw_gbytes_per_s"});
    CHECK(report["command"][4] == "***");
    CHECK(report["exit"]["status"] == 0);
    CHECK(report["exit"]["signal"].is_null());
    CHECK(report["communication"]["in_flight_share"]["value"].get<double>() ==
          doctest::Approx(0.34));
    CHECK(report["communication"]["in_flight_share"]["label"] == "measured");
    CHECK(report["communication"]["exposed_share"]["value"].is_null());
    CHECK(report["communication"]["exposed_share"]["label"] == "unknown");
    CHECK(report["nccl"]["versions"] == json{"2.28.9"});
    CHECK(report["nccl"]["network"] == "Socket");
    CHECK(report["nccl"]["transports"].size() == 8);
    CHECK(report["ranks"].size() == 8);
    CHECK(report["ranks"][5]["in_flight_share"].get<double>() == doctest::Approx(0.34));
    CHECK(report["nodes"] == json{"node-a"});
    CHECK(report["warnings"].size() == 1);
    CHECK(report["steps"].is_null());
}

TEST_CASE("what is unknown is null with the label unknown") {
    const json report = json::parse(report_json(plain_run()));
    CHECK(report["communication"]["in_flight_share"]["value"].is_null());
    CHECK(report["communication"]["in_flight_share"]["label"] == "unknown");
    CHECK(report["nccl"]["network"].is_null());
    CHECK(report["nccl"]["started"].is_null());
    CHECK(report["warnings"].empty());
    CHECK(report["next_steps"].empty());
    const json nothing = json::parse(report_json({}));
    CHECK(nothing["exit"]["status"].is_null());
    CHECK(nothing["duration_s"].is_null());
    CHECK(nothing["nccl"]["started"].is_null());
}

TEST_CASE("hostile names are escaped in text and valid in JSON") {
    const RunFacts facts = hostile_run();
    CHECK(is_clean(report_text(facts)));
    for (const std::string& line : closing_lines(facts)) {
        CHECK(is_clean(line));
        CHECK(line.find('\n') == line.npos);
    }
    const std::string text = report_json(facts);
    CHECK(is_clean(text));
    CHECK(json::accept(text));
    CHECK(json::accept(machine_json(facts.machine)));
    CHECK(json::accept(settings_json(facts.plan)));
    CHECK(json::parse(text)["nccl"]["network"].get<std::string>().find("red\nnext") !=
          std::string::npos);
}
