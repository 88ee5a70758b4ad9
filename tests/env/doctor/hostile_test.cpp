#include <climits>

#include "support.hpp"

/// Machines that contradict themselves, as cut or forged captures may.
namespace toporun::tests {
namespace {

const std::string kEscape = "\x1b[31m\xff\xfe\n";

Machine odd_matrices() {
    Machine machine = healthy_node();
    machine.gpu_paths.pop_back();
    machine.gpu_links.assign(1, {});
    machine.peer_access.assign(3, {});
    machine.gpu_nic_paths.assign(2, {});
    machine.gpu_nic_acs_redirect.assign(9, std::vector<AcsRedirect>(99, AcsRedirect::on));
    machine.gpu_acs_redirect.assign(1, {});
    return machine;
}

Machine ragged_paths() {
    Machine machine = healthy_node();
    for (auto& row : machine.gpu_paths) row.resize(3);
    for (auto& row : machine.gpu_nic_paths) row.resize(1);
    return machine;
}

Machine unknown_pairs() {
    Machine machine = healthy_node();
    for (auto& row : machine.gpu_paths)
        for (auto& cell : row)
            if (cell == PathType::NVL) cell = PathType::DIS;
    for (auto& row : machine.gpu_links)
        for (auto& cell : row) cell = -1;
    return machine;
}

Machine odd_numbers() {
    Machine machine = healthy_roce_node();
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.numa_node = INT_MAX;
        gpu.memory_bytes = 0;
        gpu.memory_used_bytes = UINT64_MAX;
        gpu.pcie_generation = gpu.pcie_generation_now = 9;
        gpu.pcie_width = 0;
        gpu.pcie_width_now = INT_MIN;
        gpu.links.resize(1);
    }
    for (detect::Nic& nic : machine.nics) {
        nic.speed_gbits = 1e300;
        nic.mtu = INT_MAX;
        nic.pcie_generation_now = 42;
        nic.pcie_width_now = -1;
        nic.addresses = {"", "/", "10.0.0.1/0", "::/0", "not an address", "10.0.0.1/31"};
        nic.gids.push_back(gid(INT_MAX, "", ""));
        nic.errors.push_back({"symbol_error", UINT64_MAX});
    }
    machine.limits.shm_bytes = machine.limits.nproc = machine.limits.memlock_bytes = 0;
    machine.limits.cpu_quota = 0;
    machine.software.verbs_devices = machine.software.imex_channels = -5;
    return machine;
}

Machine odd_texts() {
    Machine machine = healthy_node();
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.name = kEscape + "H100 SXM";
        gpu.fabric_status = kEscape;
        gpu.throttle_reasons = {kEscape + "thermal"};
    }
    for (detect::Nic& nic : machine.nics) nic.name = nic.master = nic.parent = kEscape;
    machine.software.driver = machine.software.kernel = kEscape;
    machine.software.nccl_version = "99999999999999999999.-1";
    machine.software.topology_files = {"/opt/microsoft/" + kEscape};
    machine.virtual_machine = true;
    machine.notes = {kEscape + "Driver/library version mismatch"};
    return machine;
}

TEST_CASE("a machine that contradicts itself is examined all the same") {
    for (const Machine& machine :
         {odd_matrices(), ragged_paths(), unknown_pairs(), odd_numbers(), odd_texts()})
        for (const auto& job : {doctor_job(), doctor_job(2, 100000), doctor_job(1, 0)}) {
            const auto diagnosis = examine(machine, {}, job);
            CHECK(diagnosis.checks == static_cast<int>(env::check_list().size()));
        }
}

TEST_CASE("pairs that a cut capture does not tell are no missing NVLinks") {
    const auto diagnosis = examine(unknown_pairs());
    CHECK_FALSE(has(diagnosis, "nvlink-missing"));
    CHECK_FALSE(has(diagnosis, "nvlink-missing-pair"));
    CHECK_FALSE(has(diagnosis, "nvlink-uneven"));
}

TEST_CASE("odd values of variables are examined all the same") {
    for (const std::string& value :
         {std::string(), std::string("\0x", 2), kEscape, std::string(100000, ','),
          std::string("-1"), std::string("99999999999999999999")}) {
        std::map<std::string, std::string> variables;
        for (const char* name :
             {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_IB_TIMEOUT",
              "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NET_GDR_LEVEL", "NCCL_PROTO",
              "NCCL_NET", "CUDA_VISIBLE_DEVICES", "NCCL_TOPO_FILE", "NCCL_IB_DISABLE"})
            variables[name] = value;
        for (const Machine& machine : {healthy_node(), healthy_roce_node(), Machine{}})
            CHECK(examine(machine, user(variables), doctor_job(2)).checks > 0);
    }
}

}  // namespace
}  // namespace toporun::tests
