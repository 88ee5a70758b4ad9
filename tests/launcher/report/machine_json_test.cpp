#include "launcher/report/machine_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "files.hpp"
#include "known_machines.hpp"
#include "sample_machines.hpp"

namespace toporun::tests {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
    return (type == "null" && value.is_null()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
           (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

/// Checks a value by the words of JSON Schema 2020-12 that docs/machine.schema.json uses.
class Schema {
  public:
    explicit Schema(json root) : root_(std::move(root)) {}

    /// What is wrong with `value`, one line each, "" for the path of the whole.
    std::vector<std::string> faults(const json& value) const {
        std::vector<std::string> found;
        check(root_, value, "", found);
        return found;
    }
    const json& root() const { return root_; }

  private:
    const json& followed(const json& schema) const {
        if (!schema.contains("$ref")) return schema;
        const std::string name = schema["$ref"].get<std::string>().substr(1);
        return root_.at(json::json_pointer(name));
    }

    void check(const json& reference, const json& value, const std::string& at,
               std::vector<std::string>& found) const {
        const json& schema = followed(reference);
        if (schema.contains("anyOf")) return check_any(schema["anyOf"], value, at, found);
        if (schema.contains("type") && !has_any_type(schema["type"], value)) {
            found.push_back(at + " is " + value.dump() + ", not " + schema["type"].dump());
            return;
        }
        if (schema.contains("enum") &&
            std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
            found.push_back(at + " is " + value.dump());
        if (value.is_object()) check_object(schema, value, at, found);
        if (value.is_array() && schema.contains("items"))
            for (std::size_t i = 0; i < value.size(); ++i)
                check(schema["items"], value[i], at + "/" + std::to_string(i), found);
    }

    static bool has_any_type(const json& types, const json& value) {
        if (types.is_string()) return has_type(value, types);
        return std::any_of(types.begin(), types.end(),
                           [&](const json& type) { return has_type(value, type); });
    }

    void check_any(const json& choices, const json& value, const std::string& at,
                   std::vector<std::string>& found) const {
        for (const json& choice : choices) {
            std::vector<std::string> faults_of_choice;
            check(choice, value, at, faults_of_choice);
            if (faults_of_choice.empty()) return;
        }
        found.push_back(at + " is " + value.dump());
    }

    void check_object(const json& schema, const json& value, const std::string& at,
                      std::vector<std::string>& found) const {
        for (const json& key : schema.at("required"))
            if (!value.contains(key)) found.push_back(at + " has no " + key.dump());
        for (const auto& [key, member] : value.items()) {
            if (schema.at("properties").contains(key))
                check(schema["properties"][key], member, at + "/" + key, found);
            else
                found.push_back(at + " has the unknown key " + key);
        }
    }

    json root_;
};

Schema machine_schema() {
    const auto file = std::filesystem::path(TOPORUN_TEST_DATA) / "../../docs/machine.schema.json";
    return Schema(json::parse(read_file(file)));
}

/// Every object of the schema describes each of its keys.
void check_described(const json& object) {
    for (const auto& item : object.at("properties").items()) {
        CAPTURE(item.key());
        CHECK((item.value().contains("$ref") || !item.value().value("description", "").empty()));
    }
    CHECK(object.at("additionalProperties") == false);
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
    const json schema = machine_schema().root();
    check_described(schema);
    for (const auto& item : schema.at("$defs").items()) {
        CAPTURE(item.key());
        const json& definition = item.value();
        CHECK(!definition.value("description", "").empty());
        if (definition.at("type") == "object") check_described(definition);
    }
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
