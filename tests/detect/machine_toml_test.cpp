#include "detect/machine_toml.hpp"

#include <limits>

#include "base/error.hpp"
#include "files.hpp"
#include "sample_machines.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;
using detect::machine_from_toml;
using detect::machine_to_toml;

}  // namespace

TEST_CASE("a machine file reads back as the machine that was written") {
    for (const auto& sample : sample_machines()) {
        const std::string& name = sample.first;
        const Machine& machine = sample.second;
        CAPTURE(name);
        const std::string text = machine_to_toml(machine);
        const Machine back = machine_from_toml(text, "m.toml");
        CHECK(back == machine);
        CHECK(machine_to_toml(back) == text);
        check_golden(text, "detect/" + name + ".toml");
    }
}

TEST_CASE("every key may be left out") {
    CHECK(machine_from_toml("", "m") == unknown_machine());
    const Machine machine = machine_from_toml(
        "[[gpus]]\nname = 'A'\n[[gpus]]\n[cpu]\nallowed = '0-3'\nnuma_nodes = [{id = 0}]\n", "m");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.cpu.allowed.count() == 4);
    CHECK(machine.gpu_paths.empty());
}

TEST_CASE("a list that is left out is unknown and an empty one is none") {
    struct Row {
        const char* text;
        bool gpus_known;
        bool nics_known;
    };
    const Row rows[] = {{"", false, false},
                        {"gpus = []\n", true, false},
                        {"nics = []\n", false, true},
                        {"[[gpus]]\n", true, false},
                        {"[[nics]]\nname = 'a'\n", false, true}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const Machine machine = machine_from_toml(row.text, "m");
        CHECK(machine.gpus_known == row.gpus_known);
        CHECK(machine.nics_known == row.nics_known);
        CHECK_FALSE(machine.container);
        CHECK_FALSE(machine.virtual_machine);
        CHECK(machine_from_toml(machine_to_toml(machine), "m") == machine);
    }
    const auto software = [](const char* text) { return machine_from_toml(text, "m").software; };
    CHECK_FALSE(software("[software]\n").modules.has_value());
    CHECK(software("[software]\nmodules = []\n").modules == std::vector<std::string>{});
}

TEST_CASE("pairs that a capture does not tell are kept") {
    Machine machine = workstation();
    machine.gpu_paths[0][1] = machine.gpu_paths[1][0] = detect::PathType::DIS;
    machine.gpu_links[0][1] = machine.gpu_links[1][0] = -1;
    CHECK(machine_from_toml(machine_to_toml(machine), "m") == machine);
}

TEST_CASE("NUMA nodes may be bare numbers") {
    const Machine machine = machine_from_toml("[cpu]\nnuma_nodes = [0, 8]\n", "m");
    REQUIRE(machine.cpu.numa_nodes.size() == 2);
    CHECK(machine.cpu.numa_nodes[1].os_index == 8);
    CHECK(machine.cpu.numa_nodes[1].cpus.empty());
    CHECK(machine_from_toml(machine_to_toml(machine), "m") == machine);
}

TEST_CASE("words of drivers are kept whatever they are") {
    Machine machine = full_machine();
    machine.gpus[0].fabric_state = "n/a";
    machine.nics[0].gids[0].type = "RoCE v3";
    CHECK(machine_from_toml(machine_to_toml(machine), "m") == machine);
}

TEST_CASE("figures that no machine can have are not written") {
    Machine machine = hgx_machine();
    machine.gpu_path_gbytes_per_s.assign(8, std::vector<std::optional<double>>(8, 0.0));
    machine.nics[0].speed_gbits = 0;
    machine.limits.cpu_quota = std::numeric_limits<double>::infinity();
    const Machine back = machine_from_toml(machine_to_toml(machine), "m");
    CHECK_FALSE(back.nics[0].speed_gbits.has_value());
    CHECK_FALSE(back.limits.cpu_quota.has_value());
    CHECK_FALSE(back.gpu_path_gbytes_per_s[1][2].has_value());
}

TEST_CASE("text that cannot stand in TOML is written in a safe spelling") {
    Machine machine;
    machine.hostname = "a\"b\\c\x1b\xff";
    const Machine back = machine_from_toml(machine_to_toml(machine), "m");
    CHECK(back.hostname == "a\"b\\c\\x1b\\xff");
}

TEST_CASE("contradictions and mistakes are refused with their place") {
    struct Row {
        std::string name;
        std::string text;
        const char* where;
        const char* what;
        const char* hint;
    };
    const std::string two = "[[gpus]]\n[[gpus]]\n";
    const Row rows[] = {
        {"syntax", "x = \n", "m:1:5", "", ""},
        {"schema", "schema = 'toporun.machine/9'\n", "m:1:10", "not a machine file", "machine/1"},
        {"unknown key", "hostnam = 'x'\n", "m:1:1", "unknown key 'hostnam'", "'hostname'"},
        {"unknown key of a GPU", "[[gpus]]\nnam = 'x'\n", "m:2:1", "unknown key 'nam'", "'name'"},
        {"unknown key of a node", "[cpu]\nnuma_nodes = [{idd = 1}]\n", "m:2:16", "'idd'", "'id'"},
        {"type", "[limits]\nshm_bytes = [1]\n", "m:2:13", "shm_bytes", ""},
        {"negative", "[limits]\nnofile = -1\n", "m:2:10", "at least 0", ""},
        {"quota", "[limits]\ncpu_quota = 0\n", "m:2:13", "more than 0", ""},
        {"quota nan", "[limits]\ncpu_quota = nan\n", "m:2:13", "more than 0", ""},
        {"pci", "[[gpus]]\npci = 'zz'\n", "m:2:7", "'zz' is not a PCI bus id", "0000:18:00.0"},
        {"cpus", "[cpu]\nallowed = '3-1'\n", "m:2:11", "'3-1' is not a list", "0-7,64-71"},
        {"cpus type", "[cpu]\nallowed = 3\n", "m:2:11", "must be a string", ""},
        {"kind", "[[nics]]\nname = 'a'\nkind = 'ethernt'\n", "m:3:8", "not a kind", "'ethernet'"},
        {"state", "[[nics]]\nname = 'a'\nstate = 'upp'\n", "m:3:9", "not a state", "'up'"},
        {"nameless", "[[nics]]\nmtu = 1\n", "m:1:1", "'name' is missing", ""},
        {"index twice", "[[gpus]]\nindex = 1\n[[gpus]]\nindex = 1\n", "m:4:9", "the index 1", ""},
        {"bus id twice", "[[gpus]]\npci='1:0.0'\n[[gpus]]\npci='0000:01:00.0'\n", "m:4:5",
         "bus id 0000:01:00.0", ""},
        {"node twice", "[cpu]\nnuma_nodes=[{id=1},{id=1}]\n", "m:2:24", "the id 1", ""},
        {"index huge", "[[gpus]]\nindex = 99999999999\n", "m:2:9", "must be between", ""},
        {"path", "gpu_paths = [['LOC','NVX'],['NVX','LOC']]\n" + two, "m:1:13",
         "'NVX' is not a path type", "'NVL'"},
        {"rows", "gpu_paths = [['LOC']]\n" + two, "m:1:13", "has 1 rows, must have 2", ""},
        {"columns", "gpu_paths = [['LOC'],['LOC']]\n" + two, "m:1:13", "row 0", ""},
        {"asymmetric", "gpu_paths = [['LOC','SYS'],['PHB','LOC']]\n" + two, "m:1:13",
         "not symmetric: PHB from GPU 1 to 0, SYS back", ""},
        {"diagonal", "gpu_paths = [['PIX','SYS'],['SYS','LOC']]\n" + two, "m:1:13", "diagonal", ""},
        {"links", "gpu_links = [[0,-4],[-4,0]]\n" + two, "m:1:13", "-4 is not a number", ""},
        {"links diagonal", "gpu_links = [[1,4],[4,0]]\n" + two, "m:1:13", "diagonal", ""},
        {"access", "peer_access = [['ok','okay'],['okay','ok']]\n" + two, "m:1:15", "'okay'",
         "ok, refused"},
        {"ACS", "gpu_acs_redirect = [['off','onn'],['onn','off']]\n" + two, "m:1:20", "'onn'",
         "did you mean 'on'"},
        {"adapters", "gpu_nic_paths = [['PIX']]\n[[gpus]]\n", "m:1:17", "must have 0", ""},
        {"bandwidth", "gpu_path_gbytes_per_s = [['', -1],[1, '']]\n" + two, "m:1:25",
         "-1 is not a bandwidth", ""},
        {"bandwidth word", "gpu_path_gbytes_per_s = [['', 'x'],[1, '']]\n" + two, "m:1:31",
         "numbers", ""},
        {"bandwidth rows", "gpu_path_gbytes_per_s = [[1]]\n" + two, "m:1:25", "has 1 rows", ""},
        {"link twice", "[[gpus]]\nlinks = [{link = 1}, {link = 1}]\n", "m:2:30", "the number 1",
         ""},
        {"link partner", "[[gpus]]\nlinks = [{peer_kind = 'swich'}]\n", "m:2:23", "'swich' is not",
         "'switch'"},
        {"peer", "[[gpus]]\nlinks = [{peer = 'x'}]\n", "m:2:18", "not a PCI bus id", ""},
        {"port state", "[[nics]]\nname = 'a'\nport_state = 'up'\n", "m:3:14", "state of a port",
         "active"},
        {"ACS towards adapters", "gpu_nic_acs_redirect = [['on']]\n[[gpus]]\n", "m:1:24",
         "must have 0", ""},
        {"plugin", "[software]\nnccl_plugin_files = [{file = 'x'}]\n", "m:2:22",
         "'name' is missing", ""},
        {"counter", "[[nics]]\nname = 'a'\nerrors = [{value = 3}]\n", "m:3:11", "'name' is missing",
         ""},
        {"IOMMU", "[software]\niommu_mode = 'on'\n", "m:2:14", "mode of the IOMMU", "pass-through"},
        {"modules", "[software]\nmodules = 'gdrdrv'\n", "m:2:11", "array of strings", ""},
        {"route", "[[routes]]\nsource = 'x'\n", "m:1:1", "'destination' is missing", ""},
        {"distances", "[cpu]\nnuma_nodes = [0, 1]\nnuma_distances = [[10, 20]]\n", "m:3:18",
         "has 1 rows, must have 2", ""},
        {"distance row", "[cpu]\nnuma_nodes = [0]\nnuma_distances = [[10, 20]]\n", "m:3:18",
         "has 2 entries, must have 1", ""},
        {"node number twice", "[cpu]\nnuma_nodes = [1, 1]\n", "m:2:14", "named once", ""},
        {"negative node", "[cpu]\nnuma_nodes = [-1]\n", "m:2:14", "named once", ""},
        {"gpus is no table", "gpus = 3\n", "m:1:8", "an array of tables", ""},
        {"matrix of numbers", "gpu_paths = [[1]]\n[[gpus]]\n", "m:1:15", "strings", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        bool refused = false;
        try {
            machine_from_toml(row.text, "m");
        } catch (const Error& error) {
            refused = true;
            CHECK(error.where() == row.where);
            CHECK(std::string(error.what()).find(row.what) != std::string::npos);
            CHECK(error.hint().find(row.hint) != std::string::npos);
        }
        CHECK(refused);
    }
}

TEST_CASE("a machine file has its bounds") {
    struct Row {
        std::string table;
        std::size_t most;
    };
    for (const Row& row : {Row{"[[gpus]]\n", detect::kMostMachineGpus},
                           Row{"[[nics]]\nname = \"x\"\n", detect::kMostMachineNics}}) {
        CAPTURE(row.table);
        std::string text;
        for (std::size_t i = 0; i < row.most; ++i) text += row.table;
        CHECK_NOTHROW(machine_from_toml(text, "m"));
        CHECK_THROWS_AS(machine_from_toml(text + row.table, "m"), Error);
    }
}

}  // namespace toporun::tests
