#include "launcher/report/machine_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "files.hpp"
#include "known_machines.hpp"
#include "sample_machines.hpp"
#include "schema.hpp"

namespace toporun::tests {
namespace {

Schema machine_schema() {
    return documented_schema("machine");
}

}  // namespace

TEST_CASE("the JSON of every sample machine obeys its schema") {
    const Schema schema = machine_schema();
    std::vector<std::pair<std::string, detect::Machine>> machines = sample_machines();
    for (auto& machine : known_machines()) machines.push_back(std::move(machine));
    for (const auto& sample : machines) {
        const std::string& name = sample.first;
        CAPTURE(name);
        for (const std::string& fault :
             schema.faults(json::parse(launcher::machine_json(sample.second))))
            FAIL_CHECK(fault);
    }
}

TEST_CASE("the schema refuses what the JSON must not be") {
    const Schema schema = machine_schema();
    const json good = json::parse(launcher::machine_json(hgx_machine()));
    struct Row {
        const char* name;
        const char* pointer;
        json value;
    };
    const Row rows[] = {
        {"unknown key", "/more", 1},         {"unknown key of a GPU", "/gpus/0/more", 1},
        {"type", "/gpus/0/index", "0"},      {"no null", "/gpus/0/index", nullptr},
        {"path", "/gpu_paths/0/1", "NVX"},   {"path of an adapter", "/gpu_nic_paths/0/0", 3},
        {"kind", "/nics/0/kind", "ethernt"}, {"schema", "/schema", "toporun.machine/2"}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        json bad = good;
        bad[json::json_pointer(row.pointer)] = row.value;
        CHECK(schema.faults(bad).size() == 1);
    }
    json bad = good;
    bad["cpu"].erase("model");
    CHECK(schema.faults(bad).size() == 1);
}

TEST_CASE("the schema describes every key") {
    check_all_described(machine_schema().root());
}

TEST_CASE("what a capture says nothing of is null and what is not there is an empty list") {
    const json unknown = json::parse(launcher::machine_json(unknown_machine()));
    const json none = json::parse(launcher::machine_json({}));
    for (const char* key : {"gpus", "nics", "gpu_paths", "gpu_links", "gpu_path_gbytes_per_s",
                            "peer_access", "gpu_nic_paths", "gpu_nic_acs_redirect"}) {
        CAPTURE(key);
        CHECK(unknown[key].is_null());
        CHECK(none[key] == json::array());
    }
    detect::Machine machine = workstation();
    machine.gpu_links.clear();
    const json some = json::parse(launcher::machine_json(machine));
    CHECK(some["gpu_links"] == json{{0, nullptr}, {nullptr, 0}});
    CHECK(some["gpu_nic_paths"].is_null());
    CHECK(some["gpu_paths"].is_array());
    CHECK(some["gpus"][0]["links"].is_null());
    CHECK(some["software"]["modules"].is_null());
}

TEST_CASE("a pair that a capture does not tell is null") {
    detect::Machine machine = workstation();
    machine.gpu_paths[0][1] = machine.gpu_paths[1][0] = PathType::DIS;
    machine.gpu_links[0][1] = machine.gpu_links[1][0] = -1;
    const json object = json::parse(launcher::machine_json(machine));
    CHECK(object["gpu_paths"][0] == json{"LOC", nullptr});
    CHECK(object["gpu_links"][1] == json{nullptr, 0});
    CHECK(machine_schema().faults(object).empty());
}

TEST_CASE("a NUMA node without CPUs is one of memory only where the CPUs of others are known") {
    detect::Machine machine = plain_machine();
    machine.cpu.numa_nodes.emplace_back();
    CHECK(json::parse(launcher::machine_json(machine))["cpu"]["numa_nodes"][1]["cpus"] == "");
    machine.cpu.numa_nodes[0].cpus = {};
    CHECK(json::parse(launcher::machine_json(machine))["cpu"]["numa_nodes"][1]["cpus"].is_null());
    machine.cpu.numa_nodes.clear();
    CHECK(json::parse(launcher::machine_json(machine))["cpu"]["numa_nodes"].is_null());
}

TEST_CASE("every fact of a machine reaches the JSON") {
    check_golden(launcher::machine_json(full_machine()), "report/machine/full.json");
}

}  // namespace toporun::tests
