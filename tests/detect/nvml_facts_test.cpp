#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "detect/gpu/architecture.hpp"
#include "detect/gpu/nvml_facts.hpp"
#include "detect/machine_toml.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Gpu;
using detect::GpuLink;
using detect::Machine;
using namespace std::chrono_literals;

const std::string kOne = "gpu 00000000:18:00.0 A\n";
const std::string kTwo = kOne + "gpu 00000000:19:00.0 B\n";

Machine look(const Tree& tree, const std::string& configuration, bool deep = true,
             const char* library = TOPORUN_STUB) {
    const StubNvml stub(configuration, library);
    detect::Sources sources;
    sources.root = tree.root();
    sources.nvml_library = stub.path();
    sources.deep = deep;
    return detect::detect_machine(sources);
}

Gpu only_gpu(const std::string& configuration, bool deep = true) {
    const Machine machine = look(Tree(), kOne + configuration, deep);
    REQUIRE(machine.gpus.size() == 1);
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
    return machine.gpus[0];
}

std::string full_gpu(int number) {
    const std::string set = "set " + std::to_string(number) + " ";
    std::string text;
    for (const char* fact : {"architecture 9",  "used 1073741824",  "pcie-now 1",
                             "lanes-now 16",    "persistence 1",    "ecc 1",
                             "compute-mode 3",  "ecc-errors 2",     "remap-pending 1",
                             "remap-failed 0",  "clocks 0x1",       "fabric 3",
                             "fabric-status 0", "fabric-version 3", "c2c 10",
                             "c2c-down 2",      "c2c-speed 44712",  "link-speed 26562",
                             "link-version 6",  "link-kind 2",      "link-count 4"})
        text += set + fact + "\n";
    return text + "link " + std::to_string(number) + " hidden 4\n";
}

}  // namespace

TEST_CASE("a deep look tells every fact of a GPU") {
    const Gpu gpu = only_gpu(full_gpu(0));
    CHECK(gpu.architecture == "Hopper");
    CHECK(gpu.memory_bytes == 80ull << 30);
    CHECK(gpu.memory_used_bytes == 1ull << 30);
    CHECK(gpu.pcie_generation == 5);
    CHECK(gpu.pcie_generation_now == 1);
    CHECK(gpu.pcie_width == 16);
    CHECK(gpu.pcie_width_now == 16);
    CHECK(gpu.mig == false);
    CHECK(gpu.persistence == true);
    CHECK(gpu.ecc == true);
    CHECK(gpu.responding.value_or(true));
    CHECK(gpu.compute_mode == "exclusive-process");
    CHECK(gpu.uncorrected_errors == 2);
    CHECK(gpu.row_remap_pending == true);
    CHECK(gpu.row_remap_failed == false);
    CHECK(gpu.throttle_reasons.empty());
    CHECK(gpu.fabric_state == "completed");
    CHECK(gpu.fabric_status == "success");
    CHECK(gpu.c2c_gbytes_per_s == doctest::Approx(8 * 44.712));
    REQUIRE(gpu.links.size() == 4);
    CHECK(gpu.links[3] == GpuLink{3, true, 4, std::nullopt, "switch", 26.562});
}

TEST_CASE("a look for a launch leaves out what no launch needs") {
    const Gpu gpu = only_gpu(full_gpu(0), false);
    CHECK_FALSE(gpu.persistence);
    CHECK_FALSE(gpu.ecc);
    CHECK(gpu.compute_mode.empty());
    CHECK_FALSE(gpu.uncorrected_errors);
    CHECK_FALSE(gpu.row_remap_pending);
    CHECK_FALSE(gpu.row_remap_failed);
    CHECK(gpu.pcie_width_now == 16);
    CHECK(gpu.memory_used_bytes == 1ull << 30);
    CHECK(gpu.architecture == "Hopper");
    CHECK(gpu.fabric_state == "completed");
    CHECK(gpu.c2c_gbytes_per_s);
    REQUIRE(gpu.links.size() == 4);
    CHECK(gpu.links[0] == GpuLink{0, true, {}, {}, "switch", {}});  // hidden: its kind is asked
}

TEST_CASE("facts that the driver does not support are unknown") {
    const Gpu gpu = only_gpu(
        "unset memory\nunset used\nunset mig\nunset pcie-max\nunset lanes-max\nunset capability\n");
    Gpu bare;
    bare.name = "A";
    bare.vendor = "nvidia";
    bare.pci = detect::PciAddress{0, 0x18, 0, 0};
    bare.uuid = "GPU-0000-00000000:18:00.0";
    CHECK(gpu == bare);
}

TEST_CASE("a driver without the optional symbols still tells where its GPUs are") {
    const Machine machine = look(Tree(), kTwo, true, TOPORUN_STUB_OLD_DRIVER);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[1].pci->text() == "0000:19:00.0");
    CHECK(machine.gpus[1].name == "");
    CHECK(machine.gpus[1].links.empty());
    CHECK(machine.gpu_links == std::vector(2, std::vector(2, 0)));
    CHECK(machine.peer_access.empty());
    CHECK_FALSE(machine.software.driver);
    CHECK_FALSE(has_note(machine, "does not answer"));
}

TEST_CASE("nonsense from the driver is no fact") {
    const Machine machine =
        look(Tree(), kOne + full_gpu(0) + "mode garbage\n");  // every number is 0xe9e9...
    REQUIRE(!machine.gpus.empty());
    const Gpu& gpu = machine.gpus[0];
    CHECK(gpu.architecture == "");
    CHECK_FALSE(gpu.memory_bytes);
    CHECK_FALSE(gpu.memory_used_bytes);
    CHECK_FALSE(gpu.pcie_generation_now);
    CHECK_FALSE(gpu.pcie_width_now);
    CHECK_FALSE(gpu.persistence);
    CHECK_FALSE(gpu.ecc);
    CHECK(gpu.fabric_state == "");
    CHECK(gpu.fabric_status == "");
    CHECK_FALSE(gpu.c2c_gbytes_per_s);
    for (const GpuLink& link : gpu.links) {
        CHECK_FALSE(link.version);
        CHECK(link.peer_kind == "");
    }
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("single values that cannot be true are unknown") {
    const Gpu gpu = only_gpu(
        "set 0 lanes-now 0\nset 0 pcie-now 99\nset 0 mig 7\nset 0 persistence 3\nset 0 ecc 2\n"
        "set 0 used 999999999999\nset 0 fabric-version 3\nset 0 fabric 77\nset 0 c2c 4000000000\n"
        "set 0 link-kind 255\nset 0 link-version 99\nset 0 link-speed 4000000000\nlink 0 hidden 1\n"
        "set 0 architecture 4294967295\n");
    CHECK_FALSE(gpu.pcie_width_now);
    CHECK_FALSE(gpu.pcie_generation_now);
    CHECK_FALSE(gpu.mig);
    CHECK_FALSE(gpu.persistence);
    CHECK_FALSE(gpu.ecc);
    CHECK_FALSE(gpu.memory_used_bytes);
    CHECK(gpu.fabric_state == "");
    CHECK_FALSE(gpu.c2c_gbytes_per_s);
    CHECK(gpu.architecture == "Hopper");  // by its compute capability
    REQUIRE(gpu.links.size() == 1);
    CHECK(gpu.links[0] == GpuLink{0, true, {}, {}, "", {}});
}

TEST_CASE("a question that hangs costs the time limit, one note and no more facts than it must") {
    struct Row {
        const char* fact;
        bool deep;  // the basic facts are known
    };
    const Row rows[] = {{"memory", false}, {"fabric", false},    {"c2c", false},
                        {"ecc", true},     {"link-speed", true}, {"link-version", true}};
    for (const Row& row : rows) {
        CAPTURE(row.fact);
        const Tree tree;
        tree.gpu("pci0000:00/0000:00:05.0", 0);
        const StubNvml stub("gpu 00000000:00:05.0 A\n" + full_gpu(0) + "hang " + row.fact + "\n");
        detect::Sources sources;
        sources.root = tree.root();
        sources.nvml_library = stub.path();
        sources.deep = true;
        // Where facts are to arrive the limit must be long enough for a busy machine.
        sources.nvml_limit = row.deep ? 1000ms : 50ms;
        const Machine machine = detect::detect_machine(sources);
        REQUIRE(machine.gpus.size() == 1);
        CHECK(machine.gpus[0].pci->text() == "0000:00:05.0");
        CHECK(machine.gpus[0].name == (row.deep ? "A" : ""));
        CHECK(machine.gpus[0].links.size() == (row.deep ? 4 : 0));
        CHECK(has_note(machine, "NVML: no answer within"));
        CHECK(has_note(machine, "to the questions of a deep look") == row.deep);
        CHECK(has_note(machine, "GPUs without NVML") != row.deep);
    }
}

TEST_CASE("the state of the fabric is read from each version of the structure") {
    struct Row {
        std::string name;
        std::string facts;
        std::string state;
        std::string status;
    };
    const Row rows[] = {
        {"version 3", "set 0 fabric-version 3\nset 0 fabric 2\n", "in progress", ""},
        {"version 2", "set 0 fabric-version 2\nset 0 fabric 1\n", "not started", ""},
        {"first", "set 0 fabric 3\nset 0 fabric-status 0\n", "completed", "success"},
        {"not supported", "set 0 fabric-version 3\nset 0 fabric 0\n", "not supported", ""},
        {"failed", "set 0 fabric-version 3\nset 0 fabric 3\nset 0 fabric-status 999\n", "completed",
         "Driver Not Loaded (999)"},
        {"status of another state does not count",
         "set 0 fabric-version 3\nset 0 fabric 2\nset 0 fabric-status 999\n", "in progress", ""},
        {"no such call", "", "", ""},
        {"before Hopper", "set 0 capability 80\nset 0 fabric-version 3\nset 0 fabric 2\n", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Gpu gpu = only_gpu(row.facts);
        CHECK(gpu.fabric_state == row.state);
        CHECK(gpu.fabric_status == row.status);
    }
}

TEST_CASE("a fabric that is not well is noted") {
    const Machine machine =
        look(Tree(), kOne +
                         "set 0 fabric-version 3\nset 0 fabric 3\nset 0 fabric-status 0\n"
                         "set 0 fabric-health 1025\n");  // 0x401
    CHECK(has_note(machine, "GPU 0: NVLink fabric: bandwidth degraded"));
    CHECK(has_note(machine, "GPU 0: NVLink fabric: wrong configuration: no partition"));
    using Faults = std::vector<std::string>;
    CHECK(detect::fabric_faults(0) == Faults{});
    CHECK(detect::fabric_faults(0x11aa) == Faults{});  // all parts say that they are well
    CHECK(detect::fabric_faults(0x2000) == Faults{"no partition is assigned"});
    CHECK(detect::fabric_faults(0xf00) == Faults{"wrong configuration: 15"});
    CHECK(detect::fabric_faults(0x54) == Faults{"route recovery in progress",
                                                "a route is unhealthy",
                                                "recovery from an access timeout in progress"});
}

TEST_CASE("clocks that are held down have a reason and idle clocks have none") {
    using Names = std::vector<std::string>;
    CHECK(detect::clock_reason_names(0) == Names{});
    CHECK(detect::clock_reason_names(0x1 | 0x2 | 0x10 | 0x100) == Names{});
    CHECK(detect::clock_reason_names(0x48) == Names{"hw-slowdown", "hw-thermal"});
    CHECK(detect::clock_reason_names(0x20) == Names{"sw-thermal"});
    CHECK(detect::clock_reason_names(0x84) == Names{"power-brake", "power-cap"});
    CHECK(only_gpu("set 0 clocks 72\n").throttle_reasons == Names{"hw-slowdown", "hw-thermal"});
    // The name of the call before driver 535.
    CHECK(only_gpu("unset events\nset 0 clocks 4\n").throttle_reasons == Names{"power-cap"});
}

TEST_CASE("the NVLink generation is the same whichever numbers a driver uses") {
    struct Row {
        int told;
        int capability;
        std::optional<int> generation;
    };
    const Row rows[] = {{1, 60, 1},  {2, 70, 2},  {3, 75, 2},  {4, 80, 3},  {5, 80, 3},
                        {3, 80, 3},  {6, 90, 4},  {4, 90, 4},  {7, 100, 5}, {5, 100, 5},
                        {7, 103, 5}, {8, 999, 6}, {0, 90, {}}, {9, 90, {}}, {-1, 90, {}}};
    for (const Row& row : rows) {
        CAPTURE(row.told);
        CAPTURE(row.capability);
        CHECK(detect::nvlink_version(row.told, row.capability) == row.generation);
    }
}

TEST_CASE("the state of a link comes from the field, else from the older call") {
    const auto active = [](const std::string& facts) {
        std::string states;
        for (const GpuLink& link :
             only_gpu(facts + "link 0 hidden 1\ndown 0 1\nasleep 0 1\n").links)
            states += *link.active ? "+" : "-";
        return states;
    };
    CHECK(active("") == "+-+");  // a link that sleeps is not down
    CHECK(active("unset link-state-fields\n") == "+--");
    CHECK(active("set 0 capability 80\n") == "+--");
    CHECK(active("unset link-state\n") == "+-+");
    CHECK(active("unset link-state\nunset link-state-fields\n") == "");
}

TEST_CASE("links that the GPU does not have are not down") {
    const std::string listed = "link 0 hidden 4\ndown 0 14\n";
    const auto note = [&](const std::string& facts) {
        const Machine machine = look(Tree(), kOne + listed + facts);
        for (const std::string& text : machine.notes)
            if (text.find("are down") != std::string::npos) return text;
        return std::string();
    };
    CHECK(note("") == "GPU 0: 14 of 18 NVLinks are down");
    CHECK(note("set 0 link-count 18\n") == "GPU 0: 14 of 18 NVLinks are down");
    CHECK(note("set 0 link-count 6\n") == "GPU 0: 2 of 6 NVLinks are down");
    CHECK(note("set 0 link-count 4\n") == "");
    CHECK(note("set 0 link-count 2\n") == "");
    CHECK(only_gpu(listed + "set 0 link-count 6\n").links.size() == 6);
}

TEST_CASE("more links than the older call knows are found") {
    const Gpu gpu = only_gpu("link 0 hidden 36\nset 0 link-speed-common 50000\n");
    REQUIRE(gpu.links.size() == 36);
    CHECK(gpu.links[35].speed_gbytes_per_s == 50.0);
}

TEST_CASE("the partner of a link is told by the driver, else by its PCI class") {
    struct Row {
        std::string name;
        std::string facts;
        std::string pci_class;
        std::string kind;
    };
    const Row rows[] = {
        {"a GPU of this job", "link 0 00000000:19:00.0 1\n", "", "gpu"},
        {"a switch", "link 0 00000000:99:00.0 1\n", "0x068000", "switch"},
        {"a CPU", "link 0 00000000:99:00.0 1\n", "0x068001", "cpu"},
        {"another GPU", "link 0 00000000:99:00.0 1\n", "0x030200", "gpu"},
        {"something else", "link 0 00000000:99:00.0 1\n", "0x020000", ""},
        {"not visible", "link 0 00000000:99:00.0 1\n", "", ""},
        {"hidden", "link 0 hidden 1\n", "", ""},
        {"hidden switch", "link 0 hidden 1\nset 0 link-kind 2\n", "", "switch"},
        {"hidden CPU", "link 0 hidden 1\nset 0 link-kind 1\n", "", "cpu"},
        {"the driver's word first", "link 0 00000000:99:00.0 1\nset 0 link-kind 0\n", "", "gpu"},
        {"down", "down 0 1\nset 0 link-kind 2\n", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        if (!row.pci_class.empty()) tree.pci("pci0000:00/0000:99:00.0", row.pci_class, "0x10de");
        const Machine machine = look(tree, kTwo + row.facts);
        REQUIRE(machine.gpus.at(0).links.size() == 1);
        CHECK(machine.gpus[0].links[0].peer_kind == row.kind);
    }
}

TEST_CASE("C2C is the sum of the links that are active") {
    CHECK_FALSE(only_gpu("").c2c_gbytes_per_s);
    CHECK_FALSE(only_gpu("set 0 c2c 0\n").c2c_gbytes_per_s);
    CHECK(only_gpu("set 0 c2c 2\nset 0 c2c-speed 45000\n").c2c_gbytes_per_s == 90.0);
    CHECK_FALSE(
        only_gpu("set 0 c2c 2\nset 0 c2c-down 2\nset 0 c2c-speed 45000\n").c2c_gbytes_per_s);
    CHECK_FALSE(only_gpu("set 0 c2c 2\n").c2c_gbytes_per_s);
}

TEST_CASE("no bytes of a report lead to a fact that cannot be") {
    std::uint32_t state = 12345;  // xorshift: the same bytes in every run
    const auto random = [&] {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state;
    };
    const auto report = std::make_unique<detect::NvmlReport>();
    for (int round = 0; round < 50; ++round) {
        auto* words = reinterpret_cast<unsigned char*>(report.get());
        for (std::size_t i = 0; i < sizeof *report; i += 4) {
            // Small numbers too: most of the random ones are cut away as impossible.
            const std::uint32_t word = round % 2 == 0 ? random() : random() % 40;
            std::memcpy(words + i, &word, sizeof word);
        }
        report->magic = detect::kNvmlReportMagic;
        report->outcome = detect::NvmlOutcome::ok;
        report->gpu_count = 4;
        const auto decoded =
            detect::decode_nvml_report({reinterpret_cast<const char*>(words), sizeof *report});
        REQUIRE(decoded);
        Machine machine;
        for (std::size_t i = 0; i < 4; ++i) {
            Gpu gpu;
            gpu.index = static_cast<int>(i);
            detect::take_nvml_facts(decoded->gpus[i], gpu);
            gpu.links = detect::nvml_links(*decoded, i, [](const auto&) { return std::nullopt; });
            machine.gpus.push_back(std::move(gpu));
        }
        // The file's reader is strict about ranges and words.
        CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
    }
}

TEST_CASE("a card that trained down is noted by its lanes and not by its generation") {
    const auto machine = [](const std::string& facts) { return look(Tree(), kOne + facts); };
    const char* note = "GPU 0: the PCIe link runs with 8 of 16 lanes";
    CHECK(has_note(machine("set 0 lanes-now 8\n"), note));
    CHECK_FALSE(has_note(machine("set 0 lanes-now 16\nset 0 pcie-now 1\n"), "PCIe link"));
    CHECK_FALSE(has_note(machine("unset lanes-max\nset 0 lanes-now 8\n"), "PCIe link"));
}

TEST_CASE("without NVML sysfs tells what the link does now") {
    const Tree tree;
    const std::string device = "/sys/devices/pci0000:00/0000:00:05.0";
    tree.gpu("pci0000:00/0000:00:05.0", 0);
    tree.write(device + "/max_link_speed", "16.0 GT/s PCIe\n");
    tree.write(device + "/max_link_width", "16\n");
    tree.write(device + "/current_link_speed", "2.5 GT/s PCIe\n");
    tree.write(device + "/current_link_width", "4\n");
    const Machine machine = detect_tree(tree);
    CHECK(machine.gpus.at(0).pcie_generation_now == 1);
    CHECK(machine.gpus[0].pcie_width_now == 4);
    CHECK(has_note(machine, "GPU 0: the PCIe link runs with 4 of 16 lanes"));
    CHECK_FALSE(has_note(machine, "nvidiactl"));  // a capture of /sys says nothing of /dev
}

TEST_CASE("a card in a narrow slot has not trained down") {
    const Tree tree;
    const std::string port = "pci0000:00/0000:00:01.0";
    tree.bridge(port);
    tree.gpu(port + "/0000:01:00.0", 0);
    const auto link = [&](const std::string& path, const char* rate, const char* lanes) {
        for (const char* when : {"max", "current"}) {
            tree.write("/sys/devices/" + path + "/" + when + "_link_speed", rate);
            tree.write("/sys/devices/" + path + "/" + when + "_link_width", lanes);
        }
    };
    link(port, "8.0 GT/s PCIe\n", "8\n");
    link(port + "/0000:01:00.0", "16.0 GT/s PCIe\n", "16\n");
    tree.write("/sys/devices/" + port + "/0000:01:00.0/current_link_width", "8\n");
    const Machine machine = detect_tree(tree);
    CHECK(machine.gpus.at(0).pcie_generation == 3);
    CHECK(machine.gpus[0].pcie_width == 8);
    CHECK(machine.gpus[0].pcie_width_now == 8);
    CHECK_FALSE(has_note(machine, "PCIe link"));
}

TEST_CASE("a GPU without a handle says why") {
    const Machine machine = look(Tree(), "gpu gone A\ngpu 00000000:19:00.0 B\n");
    REQUIRE(machine.gpus.size() == 2);
    Gpu lost;
    lost.vendor = "nvidia";
    lost.responding = false;
    CHECK(machine.gpus[0] == lost);
    CHECK(has_note(machine, "NVML: GPU 0 does not answer (GPU is lost); it may have fallen off"));
    const Machine others = look(Tree(), "gpu denied A\ngpu 00000000:19:00.0 B\n");
    REQUIRE(others.gpus.size() == 2);
    CHECK_FALSE(others.gpus[0].responding);  // a GPU of another job is not broken
    CHECK(has_note(others, "NVML: GPU 0 is not for this process (Insufficient Permissions)"));
}

TEST_CASE("the driver's version is read from open and from closed kernel modules") {
    struct Row {
        std::string text;
        std::optional<std::string> driver;
    };
    const Row rows[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC "
         "2024\n",
         "550.54.15"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  "
         "(dvs-builder@U16)  Wed Feb 26 02:27:29 UTC 2025\nGCC version:  gcc 12.3.0\n",
         "570.124.06"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build\n",
         "580.65.06"},
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  unknown\n", std::nullopt},
        {"\x1b[31m 1.2.3\n", std::nullopt},
        {"", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const Tree tree;
        tree.write("/proc/driver/nvidia/version", row.text);
        CHECK(detect_tree(tree).software.driver == row.driver);
    }
}

TEST_CASE("architectures have the names of their makers") {
    CHECK(detect::nvidia_architecture(29) == "");
    CHECK(detect::nvidia_architecture(37) == "Kepler");
    CHECK(detect::nvidia_architecture(61) == "Pascal");
    CHECK(detect::nvidia_architecture(72) == "Volta");
    CHECK(detect::nvidia_architecture(75) == "Turing");
    CHECK(detect::nvidia_architecture(86) == "Ampere");
    CHECK(detect::nvidia_architecture(89) == "Ada");
    CHECK(detect::nvidia_architecture(90) == "Hopper");
    CHECK(detect::nvidia_architecture(103) == "Blackwell");
    CHECK(detect::nvidia_architecture(121) == "Blackwell");
    CHECK(detect::nvidia_architecture(900) == "");
    CHECK(detect::nvml_architecture(13) == "Rubin");
    CHECK(detect::nvml_architecture(-1) == "");
    CHECK(detect::amd_architecture(90402) == "gfx942");
    CHECK(detect::amd_architecture(90010) == "gfx90a");
    CHECK(detect::amd_architecture(90500) == "gfx950");
    CHECK(detect::amd_architecture(110001) == "gfx1101");
    CHECK(detect::amd_architecture(0) == "");
    CHECK(detect::amd_architecture(-5) == "");
    CHECK(detect::amd_architecture(99'999'999) == "");
    // A GPU newer than the table of capabilities has the driver's name.
    CHECK(only_gpu("set 0 capability 140\nset 0 architecture 13\n").architecture == "Rubin");
}

}  // namespace toporun::tests
