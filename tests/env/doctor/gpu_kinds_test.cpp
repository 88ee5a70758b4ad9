#include "env/doctor/gpu_kinds.hpp"

#include <doctest/doctest.h>

/// What product names tell.
namespace toporun::env::doctor {
namespace {

detect::Gpu named(const std::string& name) {
    detect::Gpu gpu;
    gpu.name = name;
    return gpu;
}

struct Row {
    std::string name;
    bool sxm = false;
    bool server = false;
    bool geforce = false;
    bool rack = false;
    bool laptop = false;
    bool bridges = false;
    bool peers = false;
    std::optional<int> capability = {};
};

const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        {.name = ""},
        {.name = "Tesla V100-SXM2-32GB",
         .sxm = true,
         .server = true,
         .peers = true,
         .capability = 70},
        {.name = "Tesla V100-PCIE-16GB",
         .server = true,
         .bridges = true,
         .peers = true,
         .capability = 70},
        {.name = "NVIDIA A100-SXM4-80GB",
         .sxm = true,
         .server = true,
         .peers = true,
         .capability = 80},
        {.name = "NVIDIA A100 80GB PCIe",
         .server = true,
         .bridges = true,
         .peers = true,
         .capability = 80},
        {.name = "NVIDIA A100", .server = true, .peers = true, .capability = 80},
        {.name = "NVIDIA H100 80GB HBM3",
         .sxm = true,
         .server = true,
         .peers = true,
         .capability = 90},
        {.name = "NVIDIA H100 80GB HBM2e", .server = true, .peers = true, .capability = 90},
        {.name = "NVIDIA H100 64GB HBM2",
         .sxm = true,
         .server = true,
         .peers = true,
         .capability = 90},
        {.name = "NVIDIA H100 PCIe",
         .server = true,
         .bridges = true,
         .peers = true,
         .capability = 90},
        {.name = "NVIDIA H100 NVL",
         .server = true,
         .bridges = true,
         .peers = true,
         .capability = 90},
        {.name = "NVIDIA H100", .server = true, .peers = true, .capability = 90},
        {.name = "NVIDIA H200", .sxm = true, .server = true, .peers = true, .capability = 90},
        {.name = "NVIDIA H200 NVL",
         .server = true,
         .bridges = true,
         .peers = true,
         .capability = 90},
        {.name = "NVIDIA H20", .sxm = true, .server = true, .peers = true, .capability = 90},
        {.name = "NVIDIA H800", .sxm = true, .server = true, .peers = true, .capability = 90},
        {.name = "NVIDIA GH200 480GB", .server = true, .capability = 90},
        {.name = "NVIDIA B100", .sxm = true, .server = true, .peers = true, .capability = 100},
        {.name = "NVIDIA B200", .sxm = true, .server = true, .peers = true, .capability = 100},
        {.name = "NVIDIA GB200",
         .sxm = true,
         .server = true,
         .rack = true,
         .peers = true,
         .capability = 100},
        {.name = "NVIDIA GB10"},
        {.name = "NVIDIA L4", .server = true, .capability = 89},
        {.name = "NVIDIA L20", .server = true, .peers = true, .capability = 89},
        {.name = "NVIDIA L40S", .server = true, .peers = true, .capability = 89},
        {.name = "NVIDIA A10", .server = true, .peers = true, .capability = 86},
        {.name = "NVIDIA A40", .server = true, .peers = true, .capability = 86},
        {.name = "NVIDIA A40-48Q", .server = true, .capability = 86},
        {.name = "GRID A100-40C", .server = true, .capability = 80},
        {.name = "Tesla T4", .server = true, .capability = 75},
        {.name = "NVIDIA RTX A1000"},
        {.name = "NVIDIA RTX A6000", .peers = true, .capability = 86},
        {.name = "NVIDIA RTX A5000 Laptop GPU", .laptop = true, .capability = 86},
        {.name = "NVIDIA RTX 6000 Ada Generation", .peers = true, .capability = 89},
        {.name = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
         .peers = true,
         .capability = 120},
        {.name = "Quadro GV100", .bridges = true},
        {.name = "NVIDIA GeForce RTX 4090", .geforce = true, .capability = 89},
        {.name = "NVIDIA GeForce RTX 5070 Ti", .geforce = true, .capability = 120},
        {.name = "NVIDIA GeForce RTX 2080 with Max-Q Design",
         .geforce = true,
         .laptop = true,
         .capability = 75},
        {.name = "NVIDIA TITAN RTX", .geforce = true},
        {.name = "AMD Instinct MI300X", .server = true},
        {.name = "Radeon RX 7900 XTX"},
    };
    return table;
}

TEST_CASE("names tell how a GPU is built in") {
    for (const Row& row : rows()) {
        CAPTURE(row.name);
        const detect::Gpu gpu = named(row.name);
        CHECK(is_sxm(gpu) == row.sxm);
        CHECK(is_server_gpu(gpu) == row.server);
        CHECK(is_geforce(gpu) == row.geforce);
        CHECK(is_rack_gpu(gpu) == row.rack);
        CHECK(is_laptop_gpu(gpu) == row.laptop);
        CHECK(has_bridge_connectors(gpu) == row.bridges);
        CHECK(has_peer_access(gpu) == row.peers);
        CHECK(compute_capability(gpu) == row.capability);
    }
}

TEST_CASE("the driver's compute capability stands before that of the name") {
    detect::Gpu gpu = named("NVIDIA H100 PCIe");
    gpu.compute_capability = 89;
    CHECK(compute_capability(gpu) == 89);
}

}  // namespace
}  // namespace toporun::env::doctor
