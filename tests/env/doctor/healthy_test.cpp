#include "support.hpp"

#include <functional>

#include "sample_machines.hpp"

namespace toporun::tests {
namespace {

struct Row {
    std::string name;
    Machine machine;
    env::UserEnvironment user = {};
    std::optional<int> ranks = {};
};

Machine single_gpu_of_a_board() {
    Machine machine = healthy_node();
    Machine one = host(2, 56);
    one.software = machine.software;
    one.limits = machine.limits;
    add_gpus(one, 1, "NVIDIA H100 80GB HBM3", PathType::LOC);
    one.virtual_machine = true;
    one.nvswitch = false;
    one.gpus[0].fabric_state = "completed";
    one.gpus[0].fabric_status = "success";
    one.gpus[0].links.resize(18);
    for (detect::GpuLink& link : one.gpus[0].links) link.active = false;
    add_nics(one, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    return one;
}

Machine cards_without_bridge() {
    Machine machine = healthy_workstation();
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.name = "NVIDIA RTX A6000";
        gpu.links.resize(4);
        for (int i = 0; i < 4; ++i) {
            gpu.links[static_cast<std::size_t>(i)].link = i;
            gpu.links[static_cast<std::size_t>(i)].active = false;
        }
    }
    return machine;
}

Machine ipoib_rails_in_one_subnet() {
    Machine machine = healthy_node();
    int number = 0;
    for (detect::Nic& port : machine.nics) {
        if (!port.rdma_device) continue;
        port.name = "ib" + std::to_string(number++);
        port.kind = NicKind::ipoib;
        port.mtu = 2044;
        port.addresses = {"10.10.0." + std::to_string(number) + "/16"};
    }
    return machine;
}

/// An IPoIB interface that nobody switched on: the port is fine.
Machine ipoib_not_configured() {
    Machine machine = ipoib_rails_in_one_subnet();
    for (detect::Nic& port : machine.nics)
        if (port.rdma_device) {
            port.state = "down";
            port.addresses.clear();
        }
    return machine;
}

Machine second_port_not_cabled() {
    Machine machine = healthy_node();
    detect::Nic second = rdma_port(8, NicKind::infiniband, 400);
    second.pci = machine.nics[2].pci;
    second.pci->function = 1;
    second.state = second.port_state = "down";
    machine.nics.push_back(second);
    connect_adapters(machine);
    machine.gpu_nic_paths[0].back() = PathType::PIX;
    return machine;
}

Machine unknown_machine() {
    Machine machine;
    machine.gpus_known = machine.nics_known = false;
    return machine;
}

std::vector<Row> rows() {
    return {{"H100 node", healthy_node()},
            {"H100 node with RoCE", healthy_roce_node()},
            {"workstation", healthy_workstation()},
            {"laptop without GPU", healthy_laptop()},
            {"container without NVML", healthy_container()},
            {"guest with its topology file", healthy_guest(), guest_environment()},
            {"AMD node", healthy_amd_node()},
            {"nothing known at all", unknown_machine()},
            {"one H100 of a board, in a guest", single_gpu_of_a_board()},
            {"cards without a bridge", cards_without_bridge()},
            {"IPoIB rails in one subnet", ipoib_rails_in_one_subnet()},
            {"IPoIB not configured", ipoib_not_configured()},
            {"second port without cable", second_port_not_cabled()},
            {"as many ranks as GPUs", healthy_node(), {}, 8}};
}

TEST_CASE("a machine with nothing wrong gives no finding") {
    for (const Row& row : rows())
        for (const std::optional<int> nodes : {std::optional<int>(), std::optional<int>(1)}) {
            CAPTURE(row.name);
            const auto diagnosis = examine(row.machine, row.user, doctor_job(nodes, row.ranks));
            CHECK(ids(diagnosis) == std::vector<std::string>{});
            CHECK(env::summary_line(diagnosis).starts_with("nothing found"));
        }
}

TEST_CASE("healthy nodes of a job of two are silent too") {
    for (const Machine& machine : {healthy_node(), healthy_roce_node()})
        CHECK(ids(examine(machine, {}, doctor_job(2, 8))) == std::vector<std::string>{});
}

TEST_CASE("where everything is known every check is made") {
    const auto diagnosis = examine(healthy_node(), {}, doctor_job(2, 8));
    CHECK(diagnosis.unknown == std::vector<std::string>{});
    CHECK(diagnosis.not_made == 0);
    CHECK(diagnosis.checks == static_cast<int>(env::check_list().size()));
    CHECK(env::summary_line(diagnosis) ==
          "nothing found: " + std::to_string(diagnosis.checks) + " checks");
}

TEST_CASE("the summary names the facts that were missing") {
    Machine machine = healthy_node();
    machine.limits.memlock_bytes.reset();
    machine.software.numa_balancing.reset();
    const auto diagnosis = examine(machine);
    CHECK(diagnosis.not_made == 2);
    CHECK(env::summary_line(diagnosis) ==
          "nothing found: " + std::to_string(diagnosis.checks) +
              " checks, 2 of them could not be made (not known: kernel.numa_balancing, the memlock "
              "limit)");
}

TEST_CASE("little locked memory is a fault for who has no CAP_IPC_LOCK") {
    struct Held {
        std::optional<bool> ipc_lock;
        bool found, unknown;
    };
    for (const Held& row :
         {Held{true, false, false}, Held{false, true, false}, Held{std::nullopt, false, true}})
        for (const bool container : {true, false}) {
            CAPTURE(row.found);
            Machine machine = healthy_node();
            machine.container = container;
            machine.limits.memlock_bytes = 65536;
            machine.limits.ipc_lock = row.ipc_lock;
            const auto diagnosis = examine(machine, {}, doctor_job(2, 8));
            const std::vector<std::string> found = ids(diagnosis);
            CHECK((std::find(found.begin(), found.end(), "memlock-small") != found.end()) ==
                  row.found);
            CHECK(std::any_of(diagnosis.unknown.begin(), diagnosis.unknown.end(),
                              [](const std::string& fact) {
                                  return fact.starts_with("CAP_IPC_LOCK");
                              }) == row.unknown);
        }
}

TEST_CASE("a capture that says nothing of GPUs is not called healthy") {
    const auto diagnosis = examine(unknown_machine());
    CHECK(diagnosis.not_made > 20);
    CHECK(diagnosis.untold == std::vector<std::string>{"the GPUs", "the network adapters"});
    const std::string line = env::summary_line(diagnosis);
    CHECK(line.starts_with(
        "nothing found, but nothing is told of the GPUs and the network adapters: "));
    CHECK(line.ends_with(" of them could not be made"));
    // What is left looks at variables only.
    CHECK(diagnosis.checks - diagnosis.not_made < 40);
}

TEST_CASE("a part that a capture does not tell is named before what is not known of the rest") {
    Machine machine = healthy_laptop();
    machine.gpus_known = false;
    machine.nics[0].state = "up";
    CHECK(env::summary_line(examine(machine))
              .starts_with("nothing found, but nothing is told of the GPUs: "));
}

TEST_CASE("what may hang unseen is asked for first, where GPUs would use P2P over PCIe") {
    struct Change {
        std::string name;
        std::function<void(Machine&)> change;
        std::vector<std::string> first;
    };
    const std::string acs = "PCIe access control (ACS): run toporun doctor as root";
    for (const Change& row : std::vector<Change>{{"both unknown",
                                                  [](Machine& m) {
                                                      m.software.acs_redirect.reset();
                                                      m.software.iommu_translating.reset();
                                                      m.gpu_acs_redirect.clear();
                                                  },
                                                  {acs, "the IOMMU's mode"}},
                                                 {"ACS unknown",
                                                  [](Machine& m) {
                                                      m.software.acs_redirect.reset();
                                                      m.gpu_acs_redirect.clear();
                                                  },
                                                  {acs}},
                                                 {"between root ports",
                                                  [](Machine& m) {
                                                      connect(m, 0, 1, PathType::PHB);
                                                      m.software.acs_redirect.reset();
                                                      m.gpu_acs_redirect.clear();
                                                  },
                                                  {}},
                                                 {"NVLink between all",
                                                  [](Machine& m) {
                                                      m = healthy_node();
                                                      m.software.acs_redirect.reset();
                                                      m.software.iommu_translating.reset();
                                                      m.gpu_acs_redirect.clear();
                                                  },
                                                  {}},
                                                 {"P2P refused",
                                                  [](Machine& m) {
                                                      set_peer_access(m, PeerAccess::refused);
                                                      m.gpus[0].name = m.gpus[1].name = "NVIDIA L4";
                                                      m.software.acs_redirect.reset();
                                                      m.gpu_acs_redirect.clear();
                                                  },
                                                  {}}}) {
        CAPTURE(row.name);
        Machine machine = healthy_workstation();
        machine.gpus[0].name = machine.gpus[1].name = "NVIDIA RTX A6000";
        set_peer_access(machine, PeerAccess::ok);
        connect(machine, 0, 1, PathType::PIX);
        machine.limits.nofile.reset();
        row.change(machine);
        const auto unknown = examine(machine).unknown;
        for (const std::string& fact : {acs, std::string("the IOMMU's mode")}) {
            const auto at = std::find(unknown.begin(), unknown.end(), fact);
            const auto wanted = std::find(row.first.begin(), row.first.end(), fact);
            CHECK(at - unknown.begin() == (wanted == row.first.end()
                                               ? static_cast<std::ptrdiff_t>(unknown.size())
                                               : wanted - row.first.begin()));
        }
    }
}

TEST_CASE("ordinary Ethernet with MTU 1500 is no finding") {
    struct Change {
        std::string name;
        std::function<void(Machine&)> change;
    };
    for (const Change& row :
         std::vector<Change>{{"10 Gb/s", [](Machine& m) { m.nics[1].speed_gbits = 10; }},
                             {"speed unknown", [](Machine& m) { m.nics[1].speed_gbits.reset(); }},
                             {"no GPU", [](Machine& m) { m.gpus.clear(), m.gpu_paths.clear(); }},
                             {"RDMA carries the data", [](Machine& m) {
                                  m.nics.push_back(rdma_port(0, NicKind::infiniband, 400));
                                  m.software.verbs_devices = 1;
                              }}}) {
        CAPTURE(row.name);
        Machine machine = healthy_workstation();
        machine.nics[1].mtu = 1500;
        machine.nics[1].speed_gbits = 100;
        REQUIRE(has(examine(machine), "iface-mtu-small"));
        CHECK_FALSE(has(examine(machine, {}, doctor_job(1)), "iface-mtu-small"));
        row.change(machine);
        CHECK_FALSE(has(examine(machine), "iface-mtu-small"));
    }
}

TEST_CASE("sample machines of other tests never break a check") {
    for (const auto& sample : sample_machines()) {
        CAPTURE(sample.first);
        const auto diagnosis = examine(sample.second);
        CHECK(diagnosis.checks > 0);
    }
}

TEST_CASE("the library mismatch that NVML reports is found") {
    CHECK(has(examine(workstation()), "driver-library-mismatch"));
}

}  // namespace
}  // namespace toporun::tests
