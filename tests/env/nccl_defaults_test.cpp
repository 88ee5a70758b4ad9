#include "env/nccl_defaults.hpp"

#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

env::LevelDefault level_for(Machine machine, const std::string& version, int gpus) {
    if (version.empty())
        machine.software.nccl_version.reset();
    else
        machine.software.nccl_version = version;
    const env::Job no_job;
    const env::UserEnvironment nobody;
    const env::Options none;
    const toporun::profiles::Knowledge nothing_known;
    env::Inputs inputs{no_job, machine, nobody, none, nothing_known, nullptr, {}, false, {}, {}};
    inputs.nccl = toporun::detect::nccl_version_code(machine.software.nccl_version);
    return env::default_p2p_level(inputs, gpus);
}

Machine cpu(const std::string& vendor, const std::string& architecture = "x86_64",
            int model = 0x6a) {
    Machine machine;
    machine.cpu.vendor = vendor;
    machine.cpu.architecture = architecture;
    machine.cpu.family = 6;
    machine.cpu.model_number = model;
    return machine;
}

TEST_CASE("the default level follows version, CPU and number of GPUs") {
    struct Row {
        std::string name;
        Machine machine;
        std::string version;
        int gpus;
        PathType level;
        bool certain;
    };
    const Machine intel = cpu("GenuineIntel"), amd = cpu("AuthenticAMD"),
                  broadwell = cpu("GenuineIntel", "x86_64", 0x4f), arm = cpu("ARM", "aarch64"),
                  power = cpu("", "ppc64le"), zhaoxin = cpu("  Shanghai  "), nobody = cpu("", "");
    Machine skylake_unknown = intel;
    skylake_unknown.cpu.model_number.reset();
    const std::vector<Row> rows = {
        {"2.8 Broadwell", broadwell, "2.8.4", 4, PathType::PXB, true},
        {"2.8 Skylake", cpu("GenuineIntel", "x86_64", 0x55), "2.8.3", 4, PathType::PHB, true},
        {"2.8 Intel of unknown model", skylake_unknown, "2.8.3", 4, PathType::PHB, false},
        {"2.8 Arm", arm, "2.8.4", 4, PathType::PXB, true},
        {"2.8 AMD", amd, "2.8.4", 8, PathType::SYS, true},
        {"2.9 Intel", intel, "2.9.6", 4, PathType::PXB, true},
        {"2.22 Intel", intel, "2.22.3", 2, PathType::PXB, true},
        {"2.22 AMD", amd, "2.22.3", 8, PathType::SYS, true},
        {"2.22 POWER", power, "2.22.3", 4, PathType::SYS, true},
        {"2.22 Zhaoxin", zhaoxin, "2.22.3", 4, PathType::PXB, true},
        {"2.22 unknown CPU", nobody, "2.22.3", 4, PathType::PXB, false},
        {"2.23 AMD, many", amd, "2.23.4", 3, PathType::PXB, true},
        {"2.23 AMD, two", amd, "2.23.4", 2, PathType::SYS, true},
        {"2.23 Intel, two", intel, "2.23.4", 2, PathType::PXB, true},
        {"2.23 Arm, two", arm, "2.23.4", 2, PathType::PXB, true},
        {"2.30 POWER", power, "2.30.7", 4, PathType::PXB, true},
        {"2.28 unknown CPU, two", nobody, "2.28.9", 2, PathType::PXB, false},
        {"2.28 unknown CPU, four", nobody, "2.28.9", 4, PathType::PXB, true},
        {"unknown version", intel, "", 4, PathType::PXB, false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const env::LevelDefault level = level_for(row.machine, row.version, row.gpus);
        CHECK(level.level == row.level);
        CHECK(level.certain == row.certain);
        CHECK_FALSE(level.why.empty());
    }
}

TEST_CASE("level words are read as each version reads them") {
    struct Row {
        std::string value;
        int version;
        std::optional<PathType> level;
    };
    const std::vector<Row> rows = {
        {"NVL", 22809, PathType::NVL}, {"SYS", 20804, PathType::SYS},
        {"C2C", 22000, std::nullopt},  {"C2C", 22602, PathType::C2C},
        {"P2C", 22705, PathType::P2C}, {"PXN", 20909, std::nullopt},
        {"PXN", 21207, PathType::PXN}, {"NET", 22809, std::nullopt},
        {"DIS", 22809, std::nullopt},  {"nvl", 22809, std::nullopt},
        {"NV", 22809, std::nullopt},   {" NVL", 22809, std::nullopt},
        {"NVL ", 22809, std::nullopt}, {"", 22809, std::nullopt},
        {"0", 22809, PathType::LOC},   {"1", 22809, PathType::PIX},
        {"2", 22809, PathType::PXB},   {"3", 22809, PathType::PHB},
        {"4", 22809, PathType::SYS},   {"99999999999999999999", 22809, PathType::SYS},
        {"2x", 22809, PathType::PXB},  {"-1", 22809, std::nullopt},
        {"NVL", 20506, PathType::LOC}, {"3", 20506, PathType::PHB},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        CAPTURE(row.version);
        CHECK(env::level_of_value(row.value, row.version) == row.level);
    }
}

TEST_CASE("a refused pair over NVLink stops NCCL and others fall to shared memory") {
    Machine machine = host(1, 8);
    add_gpus(machine, 2, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    set_peer_access(machine, PeerAccess::refused);
    auto made = plan(machine, job(2));
    CHECK(made.pairs.at(0).transport_default == "NONE");
    CHECK(finding_ids(made) == std::vector<std::string>{"nvlink-p2p-refused"});
    CHECK_FALSE(exported(made, "NCCL_P2P_LEVEL"));
    made = plan(machine, job(2), user({{"NCCL_IGNORE_DISABLED_P2P", "1"}}));
    CHECK(made.pairs.at(0).transport == "SHM");
    machine.software.nccl_version = "2.11.4";  // before NVML was asked
    CHECK(plan(machine, job(2)).pairs.at(0).transport_default == "SHM");
}

TEST_CASE("transports follow the version at each change of the defaults") {
    struct Row {
        std::string version;
        Machine machine;
        int gpus;
        PathType path;
        std::string transport;
    };
    const Machine intel = cpu("GenuineIntel"), amd = cpu("AuthenticAMD"),
                  broadwell = cpu("GenuineIntel", "x86_64", 0x4f), arm = cpu("ARM", "aarch64"),
                  power = cpu("", "ppc64le");
    const std::vector<Row> rows = {
        {"2.8.3", intel, 4, PathType::PHB, "P2P"},
        {"2.8.4", intel, 4, PathType::SYS, "SHM"},
        {"2.8.4", broadwell, 4, PathType::PHB, "SHM"},
        {"2.9.6", intel, 4, PathType::PHB, "SHM"},
        {"2.9.6", intel, 4, PathType::PXB, "P2P"},
        {"2.9.6", amd, 8, PathType::SYS, "P2P"},
        {"2.22.3", amd, 8, PathType::SYS, "P2P"},
        {"2.22.3", amd, 8, PathType::PHB, "P2P"},
        {"2.22.3", arm, 4, PathType::PHB, "SHM"},
        {"2.22.3", power, 4, PathType::SYS, "P2P"},
        {"2.23.4", amd, 8, PathType::PHB, "SHM"},
        {"2.23.4", amd, 2, PathType::SYS, "P2P"},
        {"2.23.4", power, 4, PathType::SYS, "SHM"},
        {"2.23.4", intel, 2, PathType::PHB, "SHM"},
        {"2.30.7", amd, 3, PathType::SYS, "SHM"},
        {"2.30.7", amd, 2, PathType::SYS, "P2P"},
        {"2.30.7", arm, 2, PathType::PXB, "P2P"},
        {"2.8.3", intel, 4, PathType::NVB, "P2P-indirect"},
        {"2.30.7", intel, 4, PathType::C2C, "P2P"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.version);
        CAPTURE(row.machine.cpu.vendor);
        CAPTURE(row.gpus);
        Machine machine = row.machine;
        add_gpus(machine, row.gpus, "NVIDIA A40", row.path);
        machine.software.nccl_version = row.version;
        const auto made = plan(machine, job(row.gpus));
        CHECK(count_transport(made, row.transport, true) == row.gpus * (row.gpus - 1) / 2);
    }
}

TEST_CASE("NCCL_IGNORE_DISABLED_P2P saves the start and brings no P2P") {
    Machine machine = host(1, 8);
    add_gpus(machine, 2, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    set_peer_access(machine, PeerAccess::refused);
    for (const char* value : {"1", "2"})
        CHECK(plan(machine, job(2), user({{"NCCL_IGNORE_DISABLED_P2P", value}}))
                  .pairs.at(0)
                  .transport == "SHM");
    CHECK(plan(machine, job(2), user({{"NCCL_IGNORE_DISABLED_P2P", "0"}})).pairs.at(0).transport ==
          "NONE");
}

}  // namespace
