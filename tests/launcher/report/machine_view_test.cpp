#include "launcher/report/machine_view.hpp"

#include "files.hpp"
#include "known_machines.hpp"
#include "sample_machines.hpp"

namespace toporun::tests {

TEST_CASE("the view of each machine is as reviewed") {
    for (const auto& sample : sample_machines())
        check_golden(launcher::machine_view(sample.second),
                     "report/machine/" + sample.first + ".txt");
    for (const auto& known : known_machines())
        check_golden(launcher::machine_view(known.second),
                     "report/machine/" + known.first + ".txt");
}

TEST_CASE("the machine line says what decides") {
    CHECK(launcher::machine_line(hgx_machine()) ==
          "8 x H100 80GB (NVSwitch, 450 GB/s per GPU), 2 x 4 cores, 4 x 400 Gb/s InfiniBand, "
          "NCCL 2.28.9");
    CHECK(launcher::machine_line(plain_machine()) ==
          "no GPU; 1 x 2 cores, e\\x1b[31m 2.5 Gb/s, NCCL version unknown");
    CHECK(launcher::machine_line({}) == "no GPU; CPUs unknown, no network, NCCL version unknown");
    CHECK(launcher::machine_line(unknown_machine()) ==
          "GPUs unknown; CPUs unknown, network unknown, NCCL version unknown");
    CHECK(launcher::machine_line(workstation()) ==
          "1 x GeForce RTX 4090 + 1 x NVIDIA GPU (PCIe, farthest pair PHB), 1 x 4 cores (4 of 8 "
          "CPUs allowed, quota 3.5 CPUs), eth0, NCCL version unknown");
}

TEST_CASE("matrices of another shape than the lists are left alone") {
    detect::Machine machine = hgx_machine();
    machine.gpus.pop_back();
    CHECK(launcher::machine_view(machine).find("paths between") == std::string::npos);
    machine = hgx_machine();
    machine.gpu_links.pop_back();
    machine.gpu_links[0].clear();
    machine.peer_access.pop_back();
    machine.gpu_acs_redirect[0].clear();
    machine.gpu_path_gbytes_per_s = {{}};
    machine.gpu_nic_paths[3].pop_back();
    machine.cpu.numa_distances = {{10, 20}};
    CHECK(launcher::machine_view(machine).find("paths between") != std::string::npos);
}

TEST_CASE("a pair that a capture does not tell is a question mark") {
    detect::Machine machine = workstation();
    machine.gpu_paths[0][1] = machine.gpu_paths[1][0] = PathType::DIS;
    machine.gpu_links[0][1] = machine.gpu_links[1][0] = -1;
    const std::string text = launcher::machine_view(machine);
    CHECK(text.find("  0    -  ?\n") != std::string::npos);
    CHECK(text.find("  ?  not told\n") != std::string::npos);
}

TEST_CASE("the line of a capture that tells no states or no cores") {
    detect::Machine machine = hgx_machine();
    const auto says = [&](const char* words) {
        return launcher::machine_line(machine).find(words) != std::string::npos;
    };
    machine.cpu.cores.clear();
    machine.cpu.allowed = {};
    CHECK(says(", 16 CPUs,"));
    for (detect::Nic& each : machine.nics) each.state = "unknown";
    CHECK(says("4 x 400 Gb/s InfiniBand"));
    for (detect::Nic& each : machine.nics) {
        each.kind = detect::NicKind::other;
        each.speed_gbits.reset();
    }
    CHECK(says("4 x RDMA port"));
    for (detect::Nic& each : machine.nics) each.rdma_device.reset();
    CHECK(says("5 NICs"));
    CHECK(launcher::machine_view(machine).find("  ib0   1500  0     0-1 (PIX)") !=
          std::string::npos);
    machine.nics[0].state = "down";
    CHECK(says("no network"));
}

TEST_CASE("a device stands for the network before a bridge") {
    detect::Machine machine;
    for (const auto kind : {detect::NicKind::bridge, detect::NicKind::ethernet}) {
        machine.nics.push_back(nic(kind == detect::NicKind::bridge ? "br0" : "eth0", kind, 1));
        machine.nics.back().addresses = {"10.0.0.1/24"};
    }
    machine.nics[0].speed_gbits = 100;
    CHECK(launcher::machine_line(machine).find("eth0") != std::string::npos);
    machine.nics.push_back(nic("eth1", detect::NicKind::ethernet, 2));
    machine.nics[2].addresses = {"10.0.1.1/24"};
    machine.nics[2].default_route = true;
    CHECK(launcher::machine_line(machine).find("eth1") != std::string::npos);
}

TEST_CASE("the line tells how many pairs have NVLinks") {
    detect::Machine machine = hgx_machine();
    machine.nvswitch = false;
    machine.gpus.resize(4);
    machine.gpu_paths.assign(4, std::vector(4, PathType::SYS));
    machine.gpu_links.assign(4, std::vector(4, 0));
    const auto bridge = [&](std::size_t a, std::size_t b) {
        machine.gpu_paths[a][b] = machine.gpu_paths[b][a] = PathType::NVL;
        machine.gpu_links[a][b] = machine.gpu_links[b][a] = 12;
    };
    const auto says = [&](const char* words) {
        return launcher::machine_line(machine).find(words) != std::string::npos;
    };
    CHECK(says("(PCIe, farthest pair SYS)"));
    bridge(0, 1);
    CHECK(says("(NVLink on 1 of 6 pairs)"));
    bridge(2, 3);
    CHECK(says("(NVLink on 2 of 6 pairs, 300 GB/s per GPU)"));
    machine.gpus[0].compute_capability.reset();
    CHECK(says("(NVLink on 2 of 6 pairs, 12 links per GPU)"));
    bridge(0, 2);
    CHECK(says("(NVLink on 3 of 6 pairs, 12 to 24 links per GPU)"));
    machine.gpus[0].vendor = "amd";
    CHECK(says("(xGMI on 3 of 6 pairs"));
    machine.gpu_paths.assign(4, std::vector(4, PathType::SYS));
    machine.gpu_links.clear();
    CHECK(says("(PCIe, xGMI unknown, farthest pair SYS)"));
    machine.gpus[0].vendor = "nvidia";
    CHECK(says("(PCIe, NVLinks unknown, farthest pair SYS)"));
    machine.gpu_links.assign(4, std::vector(4, -1));
    CHECK(says("(PCIe, NVLinks unknown, farthest pair SYS)"));
}

TEST_CASE("the line counts only pairs that are told") {
    detect::Machine machine = hgx_machine();
    const auto says = [&](const char* words) {
        return launcher::machine_line(machine).find(words) != std::string::npos;
    };
    const auto forget = [&](std::size_t a, std::size_t b) {
        machine.gpu_paths[a][b] = machine.gpu_paths[b][a] = PathType::DIS;
        machine.gpu_links[a][b] = machine.gpu_links[b][a] = -1;
    };
    forget(6, 7);
    CHECK(says("(NVSwitch, 450 GB/s per GPU, 1 pair not told)"));
    machine.nvswitch = false;
    CHECK(says("(NVLink, 1 pair not told)"));
    machine.gpu_paths[0][1] = machine.gpu_paths[1][0] = PathType::PHB;
    machine.gpu_links[0][1] = machine.gpu_links[1][0] = 0;
    CHECK(says("(NVLink on 26 of 27 pairs, 1 pair not told)"));
    for (std::size_t a = 0; a < 8; ++a)
        for (std::size_t b = 0; b < a; ++b) forget(a, b);
    CHECK(says("8 x H100 80GB, 2 x 4 cores"));
}

TEST_CASE("the line tells CPUs near GPUs from all CPUs") {
    detect::Machine machine = hgx_machine();
    const auto says = [&](const char* words) {
        return launcher::machine_line(machine).find(words) != std::string::npos;
    };
    machine.cpu.cores.clear();
    machine.cpu.allowed = {};
    CHECK(says(", 16 CPUs,"));  // the memory of the nodes is known, so these are all
    machine.cpu.packages.reset();
    machine.cpu.numa_distances.clear();
    for (detect::NumaNode& node : machine.cpu.numa_nodes) node.memory_bytes.reset();
    CHECK(says(", 16 CPUs near the GPUs,"));
    machine.gpus.clear();
    CHECK(says(" at least 16 CPUs,"));
}

TEST_CASE("ports of one bond count once in the line") {
    detect::Machine machine;
    const auto add = [&](const char* name, const char* device, const char* master) {
        machine.nics.push_back(nic(name, detect::NicKind::roce, 1));
        machine.nics.back().rdma_device = device;
        machine.nics.back().master = master;
    };
    const auto says = [&](const char* words) {
        return launcher::machine_line(machine).find(words) != std::string::npos;
    };
    add("eth0", "mlx5_0", "");
    add("eth1", "mlx5_1", "bond0");
    add("eth2", "mlx5_2", "bond0");
    CHECK(says(", 3 x RoCE,"));  // whether bond0 is a bond is not known
    machine.nics.push_back(nic("bond0", detect::NicKind::bond, 2));
    CHECK(says(", 2 x RoCE,"));
    machine.nics.back().rdma_device = "mlx5_bond_0";
    CHECK(says(", 2 x RoCE,"));
    add("eth3", "mlx5_3", "br0");
    machine.nics.push_back(nic("br0", detect::NicKind::bridge, 3));
    CHECK(says(", 3 x RoCE,"));
}

TEST_CASE("the view tells what is common to all GPUs once and the rest in their order") {
    detect::Machine machine;
    machine.gpus.resize(3);
    for (std::size_t i = 0; i < 3; ++i) {
        machine.gpus[i].index = static_cast<int>(i);
        machine.gpus[i].architecture = "Hopper";
        machine.gpus[i].ecc = true;
        machine.gpus[i].persistence = i != 1;
    }
    const std::string text = launcher::machine_view(machine);
    CHECK(text.find("GPUs\n  every GPU: Hopper, ECC on\n  GPU 0,2: persistence on\n"
                    "  GPU 1: persistence off\n") != std::string::npos);
    machine.gpus.resize(1);
    CHECK(launcher::machine_view(machine).find("GPUs\n  GPU 0: Hopper, ECC on, persistence on\n") !=
          std::string::npos);
}

TEST_CASE("a table of GPUs with numbers alone is left out") {
    detect::Machine machine;
    machine.gpus.resize(2);
    machine.gpus[1].index = 1;
    CHECK(launcher::machine_view(machine).find("GPUs\n") == std::string::npos);
    machine.gpus[1].numa_node = 0;
    CHECK(launcher::machine_view(machine).find("GPUs\n  GPU  NUMA\n  0\n  1    0\n") !=
          std::string::npos);
}

TEST_CASE("the driver's word on peer access is told with and without paths") {
    using detect::PeerAccess;
    detect::Machine machine;
    machine.gpus.resize(3);
    for (std::size_t i = 0; i < 3; ++i) machine.gpus[i].index = static_cast<int>(i);
    machine.peer_access.assign(3, std::vector(3, PeerAccess::ok));
    const auto says = [&](const char* words) {
        return launcher::machine_view(machine).find(words) != std::string::npos;
    };
    CHECK(says("pairs of GPUs\n  peer access allowed by the driver: every pair\n"));
    machine.peer_access[0][1] = machine.peer_access[1][0] = PeerAccess::refused;
    machine.peer_access[0][2] = machine.peer_access[2][0] = PeerAccess::unknown;
    CHECK(
        says("  peer access allowed by the driver: 1-2\n"
             "  peer access refused by the driver: 0-1\n"));
    machine.gpu_paths.assign(3, std::vector(3, PathType::PHB));
    CHECK(
        says("PHB: through the CPU of one NUMA node\n  peer access allowed by the driver: 1-2\n"));
    CHECK_FALSE(says("pairs of GPUs"));
}

TEST_CASE("links of unknown number are told by their kind") {
    detect::Machine machine;
    machine.gpus.resize(3);
    machine.gpu_paths.assign(3, std::vector(3, PathType::NVL));
    machine.gpu_links.assign(3, std::vector(3, -1));
    const auto says = [&](const char* words) {
        return launcher::machine_view(machine).find(words) != std::string::npos;
    };
    for (detect::Gpu& gpu : machine.gpus) gpu.vendor = "nvidia";
    CHECK(says("  every pair NVL: NVLink\n"));
    for (detect::Gpu& gpu : machine.gpus) gpu.vendor = "amd";
    CHECK(says("  every pair NVL: xGMI\n"));
    machine.gpu_paths[0][1] = machine.gpu_paths[1][0] = PathType::NVB;
    CHECK(says("  NVB  xGMI through a third GPU\n"));
}

TEST_CASE("the view tells which CPUs are allowed only where they are not all") {
    detect::Machine machine = hgx_machine();
    CHECK(launcher::machine_view(machine).find("  allowed: ") == std::string::npos);
    machine.cpu.allowed = CpuSet::parse("0-3");
    CHECK(launcher::machine_view(machine).find("  allowed: CPUs 0-3 (4 of 16)\n") !=
          std::string::npos);
}

TEST_CASE("names cannot act on a terminal or break a line") {
    detect::Machine machine = workstation();
    machine.hostname = "h\x1b]0;x\x07";
    machine.gpus[0].name = "NVIDIA \x1b[2J\n";
    machine.nics[0].name = "\xff\r";
    machine.nics[0].addresses = {
        "\x9b"
        "31m"};
    machine.cpu.model = "\x1b";
    machine.software.nccl_version = "\x1b";
    machine.software.nccl_library = "\x1b";
    machine.software.nccl_plugins = {"\x1b"};
    machine.software.nccl_plugin_files = {{"\x1b", "\x1b", "\x1b"}};
    machine.software.kernel = machine.software.container_kind = machine.software.hypervisor =
        "\x1b";
    machine.software.modules = {"\x1b"};
    machine.software.topology_files = {"\x1b"};
    machine.gpus[0].architecture = machine.gpus[0].fabric_status = "\x1b";
    machine.gpus[0].fabric_state = "completed";
    machine.gpus[0].throttle_reasons = {"\x1b"};
    machine.gpus[1].vendor = "\x1b";
    machine.nics.push_back(machine.nics[0]);
    machine.nics[1].kind = detect::NicKind::roce;
    machine.nics[1].rdma_device = "\x1b";
    machine.nics[1].numa_node = 0;
    machine.nics[1].errors = {{"\x1b", 1}};
    machine.nics[1].master = "\x1b";
    machine.nics[1].state = machine.nics[1].port_state = "\x1b";
    for (int i = 0; i < 4; ++i) machine.nics.push_back(machine.nics[0]);
    machine.routes = {{"\x1b", "\x1b", "\x1b"}};
    machine.notes = {"\x1b\n"};
    machine.vendor = "\x1b";
    const std::string text = launcher::machine_view(machine);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        CHECK((c == '\n' || (byte >= 0x20 && byte < 0x7f)));
    }
    CHECK(launcher::machine_line(machine).find('\n') == std::string::npos);
}

}  // namespace toporun::tests
