#include "facts.hpp"

#include <fmt/format.h>

namespace toporun::tests {
namespace {

using namespace launcher;
using detect::PathType;
using detect::nccl_log::Transport;

detect::PciAddress gpu_address(int index) {
    return {0, static_cast<std::uint8_t>(0x1a + 0x10 * index), 0, 0};
}

detect::Gpu h100(int index) {
    detect::Gpu gpu;
    gpu.index = index;
    gpu.name = "NVIDIA H100 80GB HBM3";
    gpu.vendor = "nvidia";
    gpu.pci = gpu_address(index);
    gpu.uuid = fmt::format("GPU-00000000-0000-0000-0000-00000000000{}", index);
    gpu.numa_node = index / 4;
    gpu.cpus = detect::CpuSet::parse(index < 4 ? "0-31" : "32-63");
    gpu.memory_bytes = 85899345920;
    gpu.pcie_generation = 5;
    gpu.pcie_width = 16;
    gpu.mig = false;
    gpu.compute_capability = 90;
    return gpu;
}

detect::Machine h100_machine() {
    detect::Machine machine;
    machine.hostname = "node-a.cluster.example";
    for (int i = 0; i < 8; ++i) {
        machine.gpus.push_back(h100(i));
        machine.gpu_paths.emplace_back(8, PathType::NVL);
        machine.gpu_paths.back()[static_cast<std::size_t>(i)] = PathType::LOC;
        machine.gpu_links.emplace_back(8, 18);
        machine.gpu_links.back()[static_cast<std::size_t>(i)] = 0;
        machine.gpu_nic_paths.push_back({std::nullopt});
    }
    machine.nvswitch = true;
    detect::Nic nic;
    nic.name = "eth0";
    nic.kind = detect::NicKind::ethernet;
    nic.state = "up";
    nic.speed_gbits = 100;
    nic.mtu = 1500;
    nic.addresses = {"10.0.0.1/24"};
    nic.default_route = true;
    machine.nics.push_back(nic);
    machine.cpu.vendor = "GenuineIntel";
    machine.cpu.model = "Xeon 8480";
    machine.cpu.packages = 2;
    machine.cpu.numa_nodes = {{0, detect::CpuSet::parse("0-31"), 549755813888},
                              {1, detect::CpuSet::parse("32-63"), 549755813888}};
    machine.cpu.allowed = detect::CpuSet::parse("0-63");
    machine.cpu.architecture = "x86_64";
    machine.limits.shm_bytes = 549755813888;
    machine.limits.memlock_bytes = detect::kUnlimited;
    machine.software.driver = "550.54.15";
    machine.software.nccl_version = "2.28.9";
    machine.software.kernel = "6.1.0";
    return machine;
}

env::Plan nvl_plan() {
    env::Plan plan;
    plan.profile = "hgx-h100";
    plan.settings.push_back({"NCCL_P2P_LEVEL", "NVL", env::Origin::profile, "hgx-h100",
                             "every pair has NVLink", "18 links on each of 28 pairs",
                             "P2P between GPUs up to PXB apart", true, false});
    plan.settings.push_back({"NCCL_SOCKET_IFNAME", std::nullopt, env::Origin::left_to_nccl, "",
                             "one node", "eth0 is up", "eth0", false, false});
    for (int a = 0; a < 8; ++a) {
        for (int b = a + 1; b < 8; ++b) plan.pairs.push_back({a, b, PathType::NVL, "P2P", "P2P"});
    }
    for (int i = 0; i < 8; ++i) {
        plan.ranks.push_back(
            {i, i, detect::CpuSet::parse(fmt::format("{}-{}", 8 * i, 8 * i + 7)), i / 4, {}, {}});
    }
    plan.workers = {6, 7};
    plan.takes_log = plan.measures = plan.binds = true;
    return plan;
}

LogSummary ring_log(const std::string& host, int ranks, Transport transport) {
    LogSummary log;
    log.lines = 400;
    log.unknown = 90;
    log.versions = {"2.28.9"};
    log.rank_count = ranks;
    log.nodes = {host};
    log.node_count = 1;
    log.networks = {"Socket"};
    log.bootstrap_interfaces = {"eth0"};
    log.data_interfaces = {"eth0"};
    log.plugins = {{"PROFILER", "toporun"}};
    for (int i = 0; i < ranks; ++i) {
        log.ranks.push_back({i, host, 4000 + i, "", i, true});
        log.transports.push_back({i, (i + 1) % ranks, transport, "", false});
    }
    return log;
}

void add_records(RunFacts& facts, int ranks, const std::string& host) {
    for (int i = 0; i < ranks; ++i) {
        RankRecord record;
        record.rank = record.local_rank = i;
        record.local_size = record.world_size = ranks;
        record.host = host;
        record.pid = 4000 + i;
        record.cpus = detect::CpuSet::parse(fmt::format("{}-{}", 8 * i, 8 * i + 7));
        record.bind = "bound";
        record.log = "set";
        facts.ranks.push_back(record);
    }
}

void add_measured(RunFacts& facts, int ranks, double transfer, double waiting) {
    profiler::Measured& measured = facts.measured;
    measured.label = measured.parts_label = profiler::Label::measured;
    measured.in_flight = measured.in_flight_smallest = measured.in_flight_largest =
        transfer + waiting;
    measured.transfer = transfer;
    measured.waiting = waiting;
    measured.window_seconds = 700.5;
    measured.warm_up_left_out = true;
    measured.operations = static_cast<std::uint64_t>(ranks) * 12050;
    for (int i = 0; i < ranks; ++i) {
        measured.ranks.push_back(
            {{i, 0, 4000 + i}, transfer + waiting, transfer, waiting, 700.5, 12050});
    }
    measured.rows.push_back({"AllReduce", 32u << 20, static_cast<std::uint64_t>(ranks) * 12050,
                             static_cast<std::uint64_t>(ranks) * 12050 * (26u << 20), 310.25});
}

}  // namespace

RunFacts eight_gpu_run() {
    RunFacts facts;
    facts.tool_version = "0.1.0";
    facts.command = {"torchrun",
                     "--nproc-per-node=8",
                     "train.py",
                     "--hub-token",
                     "hf_abcdefghijklmnop",
                     "--epochs",
                     "3"};
    facts.job.launcher = "torchrun";
    facts.job.nodes = 1;
    facts.job.ranks_per_node = 8;
    facts.rewrite = "env";
    facts.machine = h100_machine();
    facts.plan = nvl_plan();
    facts.run_directory = "toporun/torchrun-4711.0";
    facts.report_path = "toporun/torchrun-4711.0/report.txt";
    facts.start_utc = "2026-03-01T12:00:00Z";
    facts.duration_s = 723.4;
    facts.exit.status = 0;
    facts.log = ring_log("node-a", 8, Transport::p2p);
    for (LogRank& rank : facts.log.ranks) rank.pci = gpu_address(rank.rank).text();
    facts.log.variables = {{"NCCL_P2P_LEVEL", {"NVL"}}};
    add_records(facts, 8, "node-a");
    add_measured(facts, 8, 0.11, 0.23);
    facts.measured.last = profiler::LastRank{{5, 0, 4005}, 0.91, 0.041};
    return facts;
}

RunFacts ring_run() {
    RunFacts facts;
    facts.tool_version = "0.1.0";
    facts.command = {"mpirun", "-np", "4", "ring_allreduce"};
    facts.job.launcher = "openmpi";
    facts.job.nodes = 1;
    facts.job.ranks_per_node = 4;
    facts.rewrite = "inserted";
    facts.machine.hostname = "laptop";
    facts.machine.cpu.architecture = "x86_64";
    facts.machine.cpu.allowed = detect::CpuSet::parse("0-1");
    facts.machine.notes = {"NVML: libnvidia-ml.so.1 not found"};
    facts.plan.takes_log = facts.plan.measures = true;
    facts.plan.bind_reason = "4 ranks share 2 CPUs";
    facts.run_directory = "toporun/mpirun-20260301-120000-abcd";
    facts.report_path = facts.run_directory + "/report.txt";
    facts.start_utc = "2026-03-01T12:00:00Z";
    facts.duration_s = 4.25;
    facts.exit.status = 0;
    facts.log = ring_log("laptop", 4, Transport::shm);
    add_records(facts, 4, "laptop");
    add_measured(facts, 4, 0.06, 0.03);
    return facts;
}

RunFacts plain_run() {
    RunFacts facts;
    facts.tool_version = "0.1.0";
    facts.command = {"true"};
    facts.job.gpu_job_unknown = true;
    facts.job.nodes = 1;
    facts.rewrite_note = "no launcher was recognised";
    facts.machine.hostname = "laptop";
    facts.plan.takes_log = facts.plan.measures = true;
    facts.run_directory = "toporun/true-20260301-120000-abcd";
    facts.report_path = facts.run_directory + "/report.txt";
    facts.start_utc = "2026-03-01T12:00:00Z";
    facts.duration_s = 0.0123;
    facts.exit.status = 0;
    return facts;
}

RunFacts hostile_run() {
    const std::string bad = "\x1b[31mred\nnext\r\xff\xfe\"<b>";
    RunFacts facts = eight_gpu_run();
    facts.command.push_back(bad);
    facts.machine.gpus[0].name = facts.machine.hostname = facts.machine.cpu.model = bad;
    facts.machine.nics[0].name = bad;
    facts.machine.notes = {bad};
    facts.plan.settings[0].evidence = facts.plan.measure_reason = bad;
    facts.plan.findings.push_back({bad, env::Severity::slow, bad, bad, bad, bad, bad});
    facts.run_directory = facts.report_path = bad;
    facts.log.nodes = facts.log.networks = facts.log.bootstrap_interfaces = {bad};
    facts.log.versions = {"2.28.9", bad};
    facts.log.plugins["NET"] = bad;
    facts.log.variables.push_back({"NCCL_IB_HCA", {bad}});
    facts.log.warnings.push_back({bad, bad, bad, 4001, 1, 3});
    facts.log.warning_count = 3;
    facts.log.notes = facts.warnings = facts.notes = facts.measured.notes = {bad};
    for (LogRank& rank : facts.log.ranks) rank.host = bad;
    for (RankRecord& record : facts.ranks) record.host = record.bind = bad;
    facts.measured.rows.push_back({bad, 0, 1, 1, std::nullopt});
    return facts;
}

}  // namespace toporun::tests
