#include "platforms.hpp"

namespace toporun::tests {

Machine made(const Platform& row) {
    Machine machine = host(2, 48);
    machine.vendor = row.vendor;
    machine.product = row.product;
    machine.asset_tag = row.asset_tag;
    machine.cpu.architecture = row.architecture;
    machine.software.kernel = row.kernel;
    machine.virtual_machine = row.virtual_machine;
    machine.software.container_kind = row.container;
    machine.container = !row.container.empty();
    add_gpus(machine, row.gpus, row.gpu,
             row.wiring == Wiring::switches ? PathType::NVL : PathType::SYS,
             row.wiring == Wiring::switches ? 18 : 0);
    machine.nvswitch = row.wiring == Wiring::switches;
    if (row.wiring != Wiring::switches)
        for (int gpu = 0; gpu + 1 < row.gpus; gpu += 2)
            if (row.wiring != Wiring::none) connect(machine, gpu, gpu + 1, PathType::NVL, 4);
    if (row.gpu.find("AMD") != std::string::npos)
        for (auto& gpu : machine.gpus) gpu.vendor = "amd";
    if (row.profile == "geforce-no-nvlink") set_peer_access(machine, PeerAccess::refused);
    machine.nics_known = true;
    for (const Adapters& adapters : row.adapters)
        for (int i = 0; i < adapters.count; ++i) {
            auto one = nic(adapters.name + std::to_string(i), adapters.kind, {});
            one.driver = adapters.driver;
            one.speed_gbits = adapters.speed_gbits;
            if (adapters.kind != NicKind::ethernet) one.rdma_device = one.name;
            machine.nics.push_back(one);
        }
    return machine;
}

Adapters efa(int count) {
    return {count, NicKind::efa, "efa", 100, "rdmap"};
}
Adapters infiniband(int count) {
    return {count};
}
Adapters roce(int count, double speed_gbits) {
    return {count, NicKind::roce, "mlx5_core", speed_gbits, "mlx5_"};
}
Adapters gve(int count) {
    return {count, NicKind::ethernet, "gve", 200, "enp"};
}
Adapters hsn(int count) {
    return {count, NicKind::ethernet, "cxi_ss1", 200, "hsn"};
}
Adapters ibp(int count) {
    return {count, NicKind::infiniband, "mlx5_core", 400, "ibp"};
}

std::vector<Platform> aws_rows() {
    return {
        {"aws-p3", kAmazon, "p3.16xlarge", "", "Tesla V100-SXM2-16GB", 8, Wiring::mesh},
        {"aws-p3dn",
         kAmazon,
         "p3dn.24xlarge",
         "",
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {efa(1)}},
        {"aws-p4d",
         kAmazon,
         "p4d.24xlarge",
         "",
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {efa(4)}},
        {"aws-p4d",
         kAmazon,
         "p4de.24xlarge",
         "",
         "NVIDIA A100-SXM4-80GB",
         8,
         Wiring::switches,
         {efa(4)}},
        {"aws-p5", kAmazon, "p5.48xlarge", "", kH100, 8, Wiring::switches, {efa(32)}},
        {"aws-p5", kAmazon, "p5e.48xlarge", "", "NVIDIA H200", 8, Wiring::switches, {efa(32)}},
        {"aws-p5-4xlarge", kAmazon, "p5.4xlarge", "", kH100, 1, Wiring::none, {efa(1)}},
        {"aws-p5en", kAmazon, "p5en.48xlarge", "", "NVIDIA H200", 8, Wiring::switches, {efa(16)}},
        {"aws-p6-b200",
         kAmazon,
         "p6-b200.48xlarge",
         "",
         "NVIDIA B200",
         8,
         Wiring::switches,
         {efa(8)}},
        {"aws-p6-b300",
         kAmazon,
         "p6-b300.48xlarge",
         "",
         "NVIDIA B300",
         8,
         Wiring::switches,
         {efa(16)}},
        {"aws-p6e-gb200",
         kAmazon,
         "p6e-gb200.36xlarge",
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {efa(4)},
         "aarch64"},
        {"aws-g5", kAmazon, "g5.48xlarge", "", "NVIDIA A10G", 8, Wiring::none},
        {"aws-g6", kAmazon, "g6.48xlarge", "", "NVIDIA L4", 8, Wiring::none},
        {"aws-g6", kAmazon, "g6e.48xlarge", "", "NVIDIA L40S", 8, Wiring::none},
        {"aws-g7e", kAmazon, "g7e.48xlarge", "", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 8,
         Wiring::none},
    };
}

std::vector<Platform> azure_rows() {
    const std::string maker = "Microsoft Corporation", name = "Virtual Machine";
    return {
        {"azure-nd-v2",
         maker,
         name,
         kAzure,
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {infiniband(1)}},
        {"azure-nd-a100-v4",
         maker,
         name,
         kAzure,
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {infiniband(8)}},
        {"azure-nd-h100-v5", maker, name, kAzure, kH100, 8, Wiring::switches, {infiniband(8)}},
        {"azure-nd-h100-v5",
         maker,
         name,
         kAzure,
         "NVIDIA H200",
         8,
         Wiring::switches,
         {infiniband(8)}},
        {"azure-nd-h100-v5-ethernet",
         maker,
         name,
         kAzure,
         kH100,
         8,
         Wiring::switches,
         {roce(1, 100)}},
        {"azure-nd-mi300x-v5",
         maker,
         name,
         kAzure,
         "AMD Instinct MI300X VF",
         8,
         Wiring::none,
         {infiniband(8)}},
        {"azure-nc-a100-v4", maker, name, kAzure, "NVIDIA A100 80GB PCIe", 4, Wiring::bridge},
        {"azure-nc-h100-v5", maker, name, kAzure, "NVIDIA H100 NVL", 2, Wiring::bridge},
        {"azure-nc-rtxpro6000", maker, name, kAzure, "NVIDIA RTX PRO 6000 Blackwell Server Edition",
         2, Wiring::none},
        {"azure-nd-gb200-v6",
         maker,
         name,
         kAzure,
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {infiniband(4)},
         "aarch64"},
    };
}

std::vector<Platform> google_rows() {
    return {
        {"gcp-a2", "Google", kGoogle, "", "NVIDIA A100-SXM4-40GB", 16, Wiring::switches, {gve(1)}},
        {"gcp-a3-high", "Google", kGoogle, "", kH100, 8, Wiring::switches, {gve(5)}},
        {"gcp-a3-mega", "Google", kGoogle, "", kH100, 8, Wiring::switches, {gve(9)}},
        {"gcp-a3-ultra",
         "Google",
         kGoogle,
         "",
         "NVIDIA H200",
         8,
         Wiring::switches,
         {gve(2), roce(8)}},
        {"gcp-a4", "Google", kGoogle, "", "NVIDIA B200", 8, Wiring::switches, {gve(2), roce(8)}},
        {"gcp-a4x",
         "Google",
         kGoogle,
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {gve(2), roce(4)},
         "aarch64"},
        {"gcp-a4x-max",
         "Google",
         kGoogle,
         "",
         "NVIDIA GB300",
         4,
         Wiring::switches,
         {roce(8)},
         "aarch64"},
        {"gcp-g2", "Google", kGoogle, "", "NVIDIA L4", 8, Wiring::none, {gve(1)}},
    };
}

std::vector<Platform> other_cloud_rows() {
    return {
        {"oci-a100",
         "Oracle",
         "BM",
         kOracle,
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {roce(18, 100)}},
        {"oci-h100", "Oracle", "BM", kOracle, kH100, 8, Wiring::switches, {roce(18, 200)}},
        {"oci-h200", "Oracle", "BM", kOracle, "NVIDIA H200", 8, Wiring::switches, {roce(12)}},
        {"oci-h200", "Oracle", "BM", kOracle, "NVIDIA B200", 8, Wiring::switches, {roce(10)}},
        {"oci-b300", "Oracle", "BM", kOracle, "NVIDIA B300", 8, Wiring::switches, {roce(16)}},
        {"oci-gb200",
         "Oracle",
         "BM",
         kOracle,
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {roce(4)},
         "aarch64"},
        {"oci-mi300x", "Oracle", "BM", kOracle, "AMD Instinct MI300X", 8, Wiring::none, {roce(8)}},
        {"coreweave",
         "Supermicro",
         "SYS",
         "",
         kH100,
         8,
         Wiring::switches,
         {ibp(8)},
         "x86_64",
         "6.5",
         false,
         "kubernetes"},
        {"coreweave-nvl72",
         "Supermicro",
         "SYS",
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {ibp(4)},
         "aarch64",
         "6.5",
         false,
         "kubernetes"},
        {"ibm-h100", "IBM", "x", "ibmcloud", kH100, 8, Wiring::switches, {roce(8)}},
    };
}

std::vector<Platform> own_rows() {
    const std::string maker = "Supermicro", name = "SYS-821GE-TNHR";
    return {
        {"dgx-a100",
         "NVIDIA",
         "DGXA100 920-23687-2530-000",
         "",
         "NVIDIA A100-SXM4-80GB",
         8,
         Wiring::switches,
         {infiniband(10)}},
        {"dgx-h100", "NVIDIA", "DGXH100", "", kH100, 8, Wiring::switches, {infiniband(10)}},
        {"dgx-b200", "NVIDIA", "DGXB200", "", "NVIDIA B200", 8, Wiring::switches, {infiniband(10)}},
        {"hgx-a100", maker, name, "", "NVIDIA A100-SXM4-80GB"},
        {"hgx-h100", maker, name, "", kH100},
        {"hgx-h100", maker, name, "", "NVIDIA H800"},
        {"hgx-b200", maker, name, "", "NVIDIA B200"},
        {"dgx-2", "NVIDIA", "NVIDIA DGX-2", "", "Tesla V100-SXM3-32GB", 16},
        {"v100-cube-mesh",
         "NVIDIA",
         "NVIDIA DGX-1 with V100-32",
         "",
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {infiniband(4)}},
        {"gb200-nvl72",
         maker,
         name,
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {infiniband(4)},
         "aarch64"},
        {"gh200", maker, name, "", "NVIDIA GH200 480GB", 1, Wiring::none, {}, "aarch64"},
        {"bridged-servers", "Dell Inc.", "PowerEdge R750xa", "", "NVIDIA H100 PCIe", 4,
         Wiring::bridge},
        {"bridged-workstation", "ASUS", "Pro WS", "", "NVIDIA GeForce RTX 3090", 2, Wiring::bridge},
        {"bridged-workstation", "ASUS", "Pro WS", "", "NVIDIA RTX A6000", 4, Wiring::bridge},
        {"geforce-no-nvlink", "ASUS", "Pro WS", "", "NVIDIA GeForce RTX 4090", 2, Wiring::none},
        {"pcie-servers", "Dell Inc.", "PowerEdge R760xa", "", "NVIDIA L40S", 4, Wiring::none},
        {"mi250x", "HPE", "EX235a", "", "AMD Instinct MI250X", 8, Wiring::none},
        {"mi300x", maker, name, "", "AMD Instinct MI300X", 8, Wiring::none},
        {"mi350x", maker, name, "", "AMD Instinct MI355X", 8, Wiring::none},
        {"slingshot", "HPE", "EX235n", "", "NVIDIA A100-SXM4-40GB", 4, Wiring::switches, {hsn(2)}},
        {"mi250x-slingshot", "HPE", "EX235a", "", "AMD Instinct MI250X", 8, Wiring::none, {hsn(4)}},
        {"gh200-slingshot",
         "HPE",
         "EX254n",
         "",
         "NVIDIA GH200 120GB",
         4,
         Wiring::switches,
         {hsn(4)},
         "aarch64"},
        {"wsl2", "", "", "", "NVIDIA GeForce RTX 4090", 2, Wiring::none, {}, "x86_64", kWsl2, true},
        {"wsl2", "", "", "", "NVIDIA GeForce RTX 4060", 2, Wiring::none, {}, "x86_64", kWsl2, true},
        {"wsl2", "", "", "", "NVIDIA GeForce RTX 2080", 1, Wiring::none, {}, "x86_64", kWsl2, true},
    };
}

std::vector<Platform> all_rows() {
    std::vector<Platform> rows = aws_rows();
    for (const auto& more : {azure_rows(), google_rows(), other_cloud_rows(), own_rows()})
        rows.insert(rows.end(), more.begin(), more.end());
    return rows;
}

}  // namespace toporun::tests
