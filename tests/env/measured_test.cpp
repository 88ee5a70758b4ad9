#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "detect/import/import.hpp"
#include "files.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;
namespace fs = std::filesystem;
using toporun::profiles::Measured;
using toporun::profiles::MeasuredPair;

void name_gpus(Machine& machine) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        machine.gpus[i].pci =
            toporun::detect::PciAddress{0, static_cast<std::uint8_t>(16 + i), 0, 0};
}

/// Two switches of two cards each on either CPU: 0-1 PXB, 0-2 PHB ... 0-4 SYS.
Machine l40s() {
    Machine machine = host(2, 32);
    add_gpus(machine, 8, "NVIDIA L40S", PathType::SYS);
    for (int a = 0; a < 8; ++a)
        for (int b = a + 1; b < 8; ++b)
            if (a / 4 == b / 4)
                connect(machine, a, b, a / 2 == b / 2 ? PathType::PXB : PathType::PHB);
    name_gpus(machine);
    machine.software.driver = "580.95.05";
    machine.software.kernel = "6.1.0-38-amd64";
    machine.software.iommu_mode = "pass-through";
    return machine;
}

using Fill = std::function<void(int a, int b, MeasuredPair& pair)>;

/// Every pair of the machine: P2P 20 GB/s and shared memory 10 GB/s, as `fill` changes it.
Measured measured(const Machine& machine, const Fill& fill = {}) {
    Measured made;
    made.name = "node-a";
    made.date = "2026-11-30";
    made.tool = "copies";
    made.driver = machine.software.driver.value_or("");
    made.kernel = machine.software.kernel;
    made.iommu = machine.software.iommu_mode;
    for (const auto& gpu : machine.gpus)
        made.gpus.push_back({gpu.pci->text(), gpu.uuid.value_or("")});
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b) {
            MeasuredPair pair{machine.gpus[b].pci->text(), machine.gpus[a].pci->text(), 20, 10,
                              true};
            if (fill) fill(static_cast<int>(a), static_cast<int>(b), pair);
            made.pairs.push_back(pair);
        }
    return made;
}

env::Plan with(const Machine& machine, std::vector<Measured> profiles,
               const env::UserEnvironment& environment = {}) {
    auto knowledge = toporun::profiles::builtin_knowledge();
    knowledge.measured = std::move(profiles);
    return env::decide(job(static_cast<int>(machine.gpus.size())), machine, knowledge, environment,
                       options());
}

void shm_faster(MeasuredPair& pair) {
    pair.p2p_gbytes_per_s = 5;
}

TEST_CASE("the level follows what was measured on the pairs that it changes") {
    struct Row {
        std::string name;
        Fill fill;
        std::optional<std::string> level, disable;
        int p2p;
    };
    const auto numa = [](int a, int b) { return a / 4 == b / 4; };
    const auto below = [](int a, int b) { return a / 2 == b / 2; };
    const std::vector<Row> rows = {
        {"P2P faster everywhere", {}, "SYS", {}, 28},
        {"shared memory faster everywhere",
         [](int, int, MeasuredPair& pair) { shm_faster(pair); },
         {},
         "1",
         0},
        {"shared memory faster where NCCL uses it",
         [&](int a, int b, MeasuredPair& pair) {
             if (!below(a, b)) shm_faster(pair);
         },
         {},
         {},
         4},
        {"slower between the CPUs",
         [&](int a, int b, MeasuredPair& pair) {
             if (!numa(a, b)) shm_faster(pair);
         },
         "PHB",
         {},
         12},
        {"one pair between the CPUs is slower",
         [](int a, int b, MeasuredPair& pair) {
             if (a == 0 && b == 7) shm_faster(pair);
         },
         "PHB",
         {},
         12},
        {"one pair between the CPUs is broken",
         [](int a, int b, MeasuredPair& pair) { pair.intact = !(a == 0 && b == 7); },
         "PHB",
         {},
         12},
        {"one pair between the CPUs was not measured",
         [](int a, int b, MeasuredPair& pair) {
             if (a == 0 && b == 7) pair.p2p_gbytes_per_s.reset();
         },
         "PHB",
         {},
         12},
        {"equal within the margin",
         [](int, int, MeasuredPair& pair) { pair.p2p_gbytes_per_s = 10.9; },
         {},
         {},
         4},
        {"one pair faster, the others within the margin",
         [](int a, int b, MeasuredPair& pair) {
             if (!(a == 0 && b == 2)) pair.p2p_gbytes_per_s = 10.9;
         },
         "PHB",
         {},
         12},
        {"a pair below a switch is broken",
         [](int a, int b, MeasuredPair& pair) { pair.intact = !(a == 0 && b == 1); },
         {},
         "1",
         0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Machine machine = l40s();
        const auto made = with(machine, {measured(machine, row.fill)});
        CHECK(exported(made, "NCCL_P2P_LEVEL") == row.level);
        CHECK(exported(made, "NCCL_P2P_DISABLE") == row.disable);
        CHECK(count_transport(made, "P2P", false) == row.p2p);
        CHECK(count_transport(made, "P2P", true) == 4);
        if (!row.level && !row.disable) {
            CHECK(setting(made, "NCCL_P2P_LEVEL").reason.find("no level is better") !=
                  std::string::npos);
            continue;
        }
        const auto chosen = setting(made, row.level ? "NCCL_P2P_LEVEL" : "NCCL_P2P_DISABLE");
        CHECK(env::origin_text(chosen) == "measured");
        CHECK(chosen.evidence.find("2026-11-30") != std::string::npos);
    }
}

TEST_CASE("a broken pair takes no NVLink with it and broken NVLink is only told") {
    Machine machine = l40s();
    connect(machine, 2, 3, PathType::NVL, 4);
    const Fill broken = [](int a, int b, MeasuredPair& pair) { pair.intact = a / 2 != b / 2; };
    const auto made = with(machine, {measured(machine, broken)});
    CHECK(exported(made, "NCCL_P2P_LEVEL") == "NVL");
    CHECK_FALSE(exported(made, "NCCL_P2P_DISABLE"));
    CHECK(finding_ids(made) ==
          std::vector<std::string>{"p2p-measured-broken", "p2p-measured-broken"});
    CHECK(made.findings[0].severity == env::Severity::broken);
    CHECK(made.findings[1].severity == env::Severity::slow);
    Machine links = hgx_h100();
    name_gpus(links);
    const auto all =
        with(links, {measured(links, [](int, int, MeasuredPair& pair) { pair.intact = false; })});
    CHECK(exported(all, "NCCL_P2P_LEVEL") == "NVL");
    CHECK(finding_ids(all) == std::vector<std::string>{"p2p-measured-broken"});
}

TEST_CASE("a measurement outweighs a fault that did no harm and no other") {
    Machine machine = l40s();
    set_acs_redirect(machine, AcsRedirect::on);
    const auto made = with(machine, {measured(machine)});
    CHECK(exported(made, "NCCL_P2P_LEVEL") == "SYS");
    REQUIRE(finding_ids(made) == std::vector<std::string>{"acs-redirect"});
    CHECK(made.findings[0].evidence.find("data was intact on 4") != std::string::npos);
    const auto one_left = with(machine, {measured(machine, [](int a, int b, MeasuredPair& pair) {
                                   if (a == 0 && b == 1) pair.p2p_gbytes_per_s.reset();
                               })});
    CHECK(exported(one_left, "NCCL_P2P_DISABLE") == "1");
}

TEST_CASE("a measurement holds for the machine that it was made on") {
    struct Row {
        std::string name;
        std::function<void(Measured&)> change;
        std::string told;
        bool stale;
    };
    const std::vector<Row> rows = {
        {"driver", [](Measured& one) { one.driver = "570.86"; },
         "driver 570.86 was measured, 580.95.05 is here", true},
        {"no driver", [](Measured& one) { one.driver.clear(); }, "driver unknown was measured",
         true},
        {"kernel", [](Measured& one) { one.kernel = "5.15"; }, "kernel 5.15 was measured", true},
        {"IOMMU", [](Measured& one) { one.iommu = "off"; }, "IOMMU mode off was measured", true},
        {"UUID", [](Measured& one) { one.gpus[3].uuid = "GPU-zz"; }, "has another UUID", false},
        {"no UUID", [](Measured& one) { one.gpus[3].uuid.clear(); }, "has another UUID", false},
        {"place", [](Measured& one) { one.gpus[3].pci = "0000:99:00.0"; },
         "there is no GPU 0000:99:00.0 here", false},
        {"fewer", [](Measured& one) { one.gpus.pop_back(); }, "7 GPUs were measured, 8 are here",
         false},
    };
    const Machine machine = l40s();
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Measured other = measured(machine);
        row.change(other);
        const auto made = with(machine, {other});
        const auto level = setting(made, "NCCL_P2P_LEVEL");
        CHECK_FALSE(level.value);
        CHECK(level.reason.find(row.told) != std::string::npos);
        CHECK((finding_ids(made) == std::vector<std::string>{"measured-stale"}) == row.stale);
        CHECK(exported(with(machine, {other, measured(machine)}), "NCCL_P2P_LEVEL") == "SYS");
    }
    Measured newer = measured(machine, [](int, int, MeasuredPair& pair) { shm_faster(pair); });
    newer.date = "2026-12-01";
    CHECK(exported(with(machine, {newer, measured(machine)}), "NCCL_P2P_DISABLE") == "1");
    CHECK_FALSE(exported(with(machine, {measured(machine)}, user({{"NCCL_P2P_LEVEL", "PXB"}})),
                         "NCCL_P2P_LEVEL"));
}

/// The cells of a row of a Markdown table, trimmed.
std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> found;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '|');) {
        const auto begin = cell.find_first_not_of(' ');
        if (begin != std::string::npos)
            found.push_back(cell.substr(begin, cell.find_last_not_of(' ') - begin + 1));
    }
    return found;
}

TEST_CASE("a measurement for P2P moves each machine's pairs as its levels move them in the rig") {
    const fs::path shared(TOPORUN_SHARED);
    if (!fs::exists(shared / "logs/rig/p2p-levels.md")) {
        MESSAGE("skipped: no " TOPORUN_SHARED "/logs/rig/p2p-levels.md");
        return;
    }
    std::istringstream table(read_file(shared / "logs/rig/p2p-levels.md"));
    int machines = 0;
    for (std::string line; std::getline(table, line);) {
        const auto row = cells(line);  // topology, default, LOC, NVL, PIX, PXB, PHB, SYS
        const fs::path file = shared / "rig/topo" / (row.empty() ? "" : row[0] + ".xml");
        if (row.size() != 8 || !fs::is_regular_file(file)) continue;
        CAPTURE(row[0]);
        ++machines;
        const toporun::detect::Capture capture{file.filename().string(), read_file(file)};
        Machine machine = toporun::detect::import_captures(std::span(&capture, 1));
        machine.software.nccl_version = "2.28.9";
        const auto made = with(machine, {measured(machine)});
        const int pairs = static_cast<int>(made.pairs.size());
        const bool moves = row[7] == "all P2P";
        CHECK(count_transport(made, moves ? "SHM" : "P2P", false) == 0);
        CHECK(count_transport(made, "P2P", false) + count_transport(made, "P2P-indirect", false) ==
              (moves ? pairs : 0));
        const bool changes = moves && row[1] != "all P2P";
        CHECK((env::origin_text(setting(made, "NCCL_P2P_LEVEL")) == "measured") == changes);
        const auto opposite =
            with(machine, {measured(machine, [&](int a, int b, MeasuredPair& pair) {
                     for (const env::Pair& one : made.pairs)
                         if (one.a == a && one.b == b && one.transport_default == "SHM")
                             shm_faster(pair);
                 })});
        CHECK_FALSE(exported(opposite, "NCCL_P2P_DISABLE"));
        const auto level = setting(opposite, "NCCL_P2P_LEVEL");
        CHECK(env::origin_text(level) != "measured");
        CHECK(count_transport(opposite, "SHM", false) == count_transport(opposite, "SHM", true));
    }
    CHECK(machines == 25);
}

}  // namespace
