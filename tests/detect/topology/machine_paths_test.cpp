#include "detect/topology/machine_paths.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "detect/topology/gpu_models.hpp"

using namespace toporun::detect;

namespace {

/// A place by addresses, the device first, all of generation 4.
std::optional<DevicePlace> place(const std::vector<std::string>& way, std::optional<int> node,
                                 const std::string& host_bridge = "") {
    DevicePlace result{{}, node, host_bridge};
    for (const std::string& text : way) {
        const auto address = PciAddress::parse(text);
        REQUIRE(address);
        result.way.push_back({*address, {}, 4, 16});
    }
    return result;
}

Machine machine_with(std::size_t gpus, std::size_t nics = 0) {
    Machine machine;
    for (std::size_t i = 0; i < gpus; ++i) {
        Gpu gpu;
        gpu.index = static_cast<int>(i);
        gpu.vendor = "nvidia";
        gpu.compute_capability = 80;
        machine.gpus.push_back(gpu);
    }
    for (std::size_t i = 0; i < nics; ++i) {
        Nic nic;
        nic.name = "mlx5_" + std::to_string(i);
        nic.rdma_device = nic.name;
        nic.speed_gbits = 200;
        nic.state = "up";
        machine.nics.push_back(nic);
    }
    machine.cpu.vendor = "AuthenticAMD";
    return machine;
}

void give_addresses(Machine& machine, const MachinePlaces& places) {
    for (std::size_t i = 0; i < places.gpus.size(); ++i)
        if (places.gpus[i]) machine.gpus[i].pci = places.gpus[i]->way[0].address;
}

}  // namespace

TEST_CASE("places below switches, root ports and CPUs") {
    Machine machine = machine_with(4, 1);
    const std::vector<std::string> below{"02:00.0", "01:00.0", "00:01.0"};
    const auto under = [&](const std::string& device, const std::string& port) {
        std::vector<std::string> way{device, port};
        way.insert(way.end(), below.begin() + 1, below.end());
        return way;
    };
    MachinePlaces places;
    places.gpus = {place(under("03:00.0", "02:00.0"), 0), place(under("04:00.0", "02:01.0"), 0),
                   place({"10:00.0", "00:02.0"}, 0), place({"90:00.0", "80:01.0"}, 1)};
    places.nics = {place(under("05:00.0", "02:02.0"), 0)};
    fill_paths(machine, places);
    using enum PathType;
    CHECK(machine.gpu_paths == std::vector<std::vector<PathType>>{{LOC, PIX, PHB, SYS},
                                                                  {PIX, LOC, PHB, SYS},
                                                                  {PHB, PHB, LOC, SYS},
                                                                  {SYS, SYS, SYS, LOC}});
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(24));
    CHECK(machine.gpu_path_gbytes_per_s[0][3] == doctest::Approx(16));
    CHECK(machine.gpu_nic_paths[0][0] == PIX);
    CHECK(machine.gpu_nic_paths[2][0] == PHB);
    CHECK(make_tree(machine, places).switches.size() == 1);
}

TEST_CASE("the slower end of a link counts, an unknown end does not") {
    Machine machine = machine_with(2);
    MachinePlaces places;
    places.gpus = {place({"03:00.0", "00:01.0"}, 0), place({"04:00.0", "00:02.0"}, 0)};
    places.gpus[0]->way[1].generation = 3;
    places.gpus[1]->way[1].width.reset();
    places.gpus[1]->way[0].width = 8;
    fill_paths(machine, places);
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(12));
    places.gpus[0]->way[1].generation = 5;
    fill_paths(machine, places);
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(12));  // generation 4 on 8 lanes
}

TEST_CASE("NVLinks by the matrix, with switches and with single links") {
    Machine machine = machine_with(2, 1);
    MachinePlaces places;
    places.gpus = {place({"03:00.0"}, 0), place({"83:00.0"}, 1)};
    places.nics = {place({"04:00.0"}, 0)};
    give_addresses(machine, places);
    for (const bool nvswitch : {false, true}) {
        CAPTURE(nvswitch);
        machine.gpu_links = {{0, 12}, {12, 0}};
        machine.nvswitch = nvswitch;
        fill_paths(machine, places);
        CHECK(machine.gpu_paths[0][1] == PathType::NVL);
        CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(240));
    }
    machine.gpu_links.clear();
    machine.nvswitch = false;
    for (std::size_t i = 0; i < 2; ++i)
        machine.gpus[i].links = {{0, true, 3, machine.gpus[1 - i].pci, "gpu", {}},
                                 {1, false, 3, machine.gpus[1 - i].pci, "gpu", {}}};
    fill_paths(machine, places);
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(20));
    machine.gpus[1].links[0].active = false;
    fill_paths(machine, places);
    CHECK(machine.gpu_paths[0][1] == PathType::SYS);
}

TEST_CASE("only usable ports are reached through a neighbour") {
    Machine machine = machine_with(2, 1);
    MachinePlaces places;
    const std::vector<std::string> rest{"02:00.0", "01:00.0", "00:01.0"};
    places.gpus = {place({"03:00.0", "02:00.0", "01:00.0", "00:01.0"}, 0), place({"83:00.0"}, 1)};
    places.nics = {place({"04:00.0", "02:01.0", "01:00.0", "00:01.0"}, 0)};
    give_addresses(machine, places);
    machine.gpu_links = {{0, 12}, {12, 0}};
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[0][0] == PathType::PIX);
    CHECK(machine.gpu_nic_paths[1][0] == PathType::PXN);
    machine.software.nccl_version = "2.11.4";  // before PXN
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[1][0] == PathType::SYS);
    machine.software.nccl_version.reset();
    machine.nics[0].state = "down";
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[1][0] == PathType::SYS);
    machine.nics[0].port_state = "active";  // its IPoIB interface is switched off
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[1][0] == PathType::PXN);
    machine.nics[0].state = "up";
    machine.nics[0].port_state = "init";  // no subnet manager
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[1][0] == PathType::SYS);
}

TEST_CASE("a device without a place leaves the rest known") {
    Machine machine = machine_with(2, 2);
    MachinePlaces places;
    places.gpus = {place({"03:00.0"}, 0), std::nullopt};
    places.nics = {std::nullopt};  // shorter than the list of NICs
    fill_paths(machine, places);
    CHECK(machine.gpu_paths.empty());
    CHECK(machine.gpu_nic_paths.size() == 2);
    CHECK_FALSE(machine.gpu_nic_paths[0][0]);
    places.nics = {std::nullopt, place({"04:00.0"}, 0)};
    fill_paths(machine, places);
    CHECK(machine.gpu_nic_paths[0][1] == PathType::PHB);
    CHECK_FALSE(machine.gpu_nic_paths[1][1]);
    Machine nothing;
    fill_paths(nothing, {});
    CHECK(nothing.gpu_paths.empty());
}

TEST_CASE("bandwidth from names of paths and GPUs alone") {
    Machine machine = machine_with(0);
    machine.cpu = {};
    for (const std::string name :
         {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "Tesla T4", "unheard of"}) {
        Gpu gpu;
        gpu.index = static_cast<int>(machine.gpus.size());
        gpu.name = name;
        machine.gpus.push_back(gpu);
    }
    using enum PathType;
    machine.gpu_paths = {
        {LOC, NVL, PHB, PIX}, {NVL, LOC, SYS, PIX}, {PHB, SYS, LOC, PHB}, {PIX, PIX, PHB, LOC}};
    machine.gpu_links = {{0, 12, 0, 0}, {12, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    Machine with_cpu = machine;
    estimate_path_bandwidth(machine);
    REQUIRE(machine.gpu_path_gbytes_per_s.size() == 4);
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(240));
    CHECK(machine.gpu_path_gbytes_per_s[0][2] == doctest::Approx(12));
    CHECK_FALSE(machine.gpu_path_gbytes_per_s[1][2]);  // the CPUs are unknown
    CHECK_FALSE(machine.gpu_path_gbytes_per_s[0][3]);
    CHECK_FALSE(machine.gpu_path_gbytes_per_s[0][0]);
    with_cpu.cpu.vendor = "GenuineIntel";
    with_cpu.cpu.family = 6;
    with_cpu.cpu.model_number = 79;
    estimate_path_bandwidth(with_cpu);
    CHECK(with_cpu.gpu_path_gbytes_per_s[1][2] == doctest::Approx(6));
    Machine odd = machine;  // a matrix that does not fit
    odd.gpu_path_gbytes_per_s.clear();
    odd.gpu_paths.pop_back();
    estimate_path_bandwidth(odd);
    CHECK(odd.gpu_path_gbytes_per_s.empty());
}

TEST_CASE("names of GPUs as tools print them") {
    CHECK(gpu_model("NVIDIA H100 80GB HBM3")->compute_capability == 90);
    CHECK(gpu_model("Tesla V100-SXM2-16GB")->compute_capability == 70);
    CHECK(gpu_model("NVIDIA RTX 6000 Ada Generation")->compute_capability == 89);
    CHECK(gpu_model("NVIDIA A100 80GB PCIe")->pcie_generation == 4);
    CHECK(gpu_model("AMD Instinct MI300X")->amd_architecture == "gfx942");
    CHECK(gpu_model("NVIDIA A10G")->compute_capability == 86);
    CHECK(gpu_model("NVIDIA RTX PRO 6000 Blackwell Server Edition")->compute_capability == 120);
    CHECK(gpu_model("NVIDIA GeForce RTX 5060 Ti")->pcie_generation == 5);
    CHECK(gpu_model("NVIDIA GeForce RTX 4080 SUPER")->compute_capability == 89);
    CHECK(gpu_model("NVIDIA GeForce RTX 3060")->compute_capability == 86);
    CHECK_FALSE(gpu_model("NVIDIA GeForce GTX 1080 Ti"));
    CHECK_FALSE(gpu_model("NVIDIA T400"));
    CHECK_FALSE(gpu_model(""));
    CHECK(gpu_name(0x10de, 0x2330) == "NVIDIA H100 80GB HBM3");
    CHECK(gpu_name(0x1a03, 0x2000).empty());
}
