#include "random_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;

constexpr std::array kVersions = {
    "2.5.6",  "2.7.8",  "2.8.3",  "2.8.4",  "2.9.9",  "2.10.3", "2.11.4", "2.12.12",
    "2.13.4", "2.14.3", "2.16.5", "2.17.1", "2.18.6", "2.19.3", "2.20.5", "2.21.5",
    "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2", "2.27.3", "2.27.7", "2.28.3",
    "2.28.9", "2.29.7", "2.30.7", "2.31.0", "3.0",    "none",   ""};

/// Right, wrong and hostile for some variable or other.
constexpr std::array kValues = {"",
                                "0",
                                "1",
                                "2",
                                "-1",
                                "16",
                                "22",
                                "999999999999999999999",
                                "0x1",
                                "01",
                                "NVL",
                                "nvl",
                                "NV",
                                "PXB",
                                "SYS",
                                "C2C",
                                "LOC",
                                " NVL",
                                "eth0",
                                "=eth0",
                                "^lo",
                                "^=lo,docker0",
                                "e",
                                "eth0,eth1, eth2",
                                "lo",
                                "docker",
                                "=",
                                "^",
                                "^=",
                                ",",
                                "mlx5_1",
                                "=mlx5_0:1,mlx5_1:1",
                                "^mlx5",
                                "INFO",
                                "info",
                                "TRACE",
                                "INIT,COLL",
                                "/tmp/nccl.%h.%p.log",
                                "none",
                                "Ring",
                                "10.0.0.1",
                                "10.0.0.1:29500",
                                "AF_INET6",
                                "0,1",
                                "1,0",
                                "GPU-00000000-aaaa",
                                "auto",
                                "false",
                                "true",
                                "it's $(here) `there`",
                                "\x1b]0;x\x07",
                                "a\nb",
                                "\xff\xfe",
                                "${X:-$(rm)}"};

constexpr std::array kNcclNames = {"NCCL_P2P_LEVEL",
                                   "NCCL_P2P_DISABLE",
                                   "NCCL_SOCKET_IFNAME",
                                   "NCCL_SOCKET_FAMILY",
                                   "NCCL_COMM_ID",
                                   "NCCL_IB_HCA",
                                   "NCCL_IB_GID_INDEX",
                                   "NCCL_IB_DISABLE",
                                   "NCCL_SHM_DISABLE",
                                   "NCCL_DEBUG",
                                   "NCCL_DEBUG_SUBSYS",
                                   "NCCL_DEBUG_FILE",
                                   "NCCL_PROFILER_PLUGIN",
                                   "NCCL_NET",
                                   "NCCL_NET_PLUGIN",
                                   "NCCL_ENV_PLUGIN",
                                   "NCCL_TOPO_FILE",
                                   "NCCL_ALGO",
                                   "NCCL_PROTO",
                                   "NCCL_CROSS_NIC",
                                   "NCCL_NVLS_ENABLE",
                                   "NCCL_MNNVL_ENABLE",
                                   "NCCL_CUMEM_ENABLE",
                                   "NCCL_IGNORE_DISABLED_P2P",
                                   "NCCL_MIN_NCHANNELS",
                                   "NCCL_SOCKET_NTHREADS",
                                   "NCCL_NSOCKS_PERTHREAD",
                                   "NCCL_HOSTID",
                                   "NCCL_IB_TC",
                                   "NCCL_IB_TIMEOUT",
                                   "NCCL_NET_GDR_LEVEL",
                                   "NCCL_NET_GDR_READ",
                                   "NCCL_NET_DISABLE_INTRA",
                                   "NCCL_TUNER_PLUGIN",
                                   "NCCL_BUFFSIZE",
                                   "NCCL_IB_QPS_PER_CONNECTION"};

constexpr std::array kOtherNames = {"OMP_NUM_THREADS",
                                    "OMP_PROC_BIND",
                                    "MKL_NUM_THREADS",
                                    "TOPORUN_NUM_WORKERS",
                                    "CUDA_DEVICE_ORDER",
                                    "HIP_VISIBLE_DEVICES",
                                    "ROCR_VISIBLE_DEVICES",
                                    "GLOO_SOCKET_IFNAME",
                                    "TP_SOCKET_IFNAME",
                                    "OMPI_MCA_btl_tcp_if_include",
                                    "OMPI_MCA_btl_tcp_if_exclude",
                                    "OMPI_MCA_oob_tcp_if_include",
                                    "UCX_NET_DEVICES",
                                    "UCX_TLS",
                                    "FI_PROVIDER",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "LD_PRELOAD",
                                    "SLURM_JOB_NUM_NODES",
                                    "SLURM_NTASKS_PER_NODE",
                                    "SLURM_NTASKS",
                                    "SLURM_NODEID",
                                    "SLURM_STEP_GPUS",
                                    "SLURM_TOPOLOGY_ADDR",
                                    "SLURM_CPUS_PER_TASK",
                                    "SLURM_GPUS_ON_NODE"};

/// A list for CUDA_VISIBLE_DEVICES out of the machine: numbers, UUIDs, parts of them, nonsense.
std::string visible_list(Dice& dice, const Machine& machine) {
    static constexpr std::array kOdd = {"",    "-1",     "NoDevFiles",   "MIG-a,MIG-b", "0,0",
                                        "8",   "GPU-",   "0;1",          "99,0",        "0,-1,1",
                                        "all", " 0, 1 ", "0,GPU-0000000"};
    if (machine.gpus.empty() || dice.one_in(4)) return dice.pick(kOdd);
    const bool uuids = dice.one_in(3);
    std::vector<std::string> words;
    const std::size_t count = 1 + dice.number(machine.gpus.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t gpu = dice.one_in(8) ? dice.number(machine.gpus.size()) : i;
        const auto& uuid = machine.gpus[gpu].uuid;
        words.push_back(uuids && uuid ? *uuid : std::to_string(gpu));
    }
    if (dice.one_in(3)) std::reverse(words.begin(), words.end());
    return join(words, ",");
}

std::string interface_value(Dice& dice, const Machine& machine) {
    if (machine.nics.empty() || dice.one_in(3)) return dice.pick(kValues);
    static constexpr std::array kBefore = {"", "", "=", "^", "^=", " "};
    return dice.pick(kBefore) + dice.pick(machine.nics).name;
}

std::string value_for(Dice& dice, const std::string& name, const Machine& machine) {
    if (name.ends_with("VISIBLE_DEVICES")) return visible_list(dice, machine);
    if (name.ends_with("IFNAME") || name.find("_if_") != std::string::npos ||
        name == "UCX_NET_DEVICES")
        return interface_value(dice, machine);
    return dice.pick(kValues);
}

env::UserEnvironment draw_user(Dice& dice, const Machine& machine) {
    env::UserEnvironment user;
    for (std::size_t i = dice.number(7); i > 0; --i) {
        const std::string name = dice.one_in(3)   ? dice.pick(kOtherNames)
                                 : dice.one_in(5) ? "CUDA_VISIBLE_DEVICES"
                                                  : dice.pick(kNcclNames);
        user.variables[name] = value_for(dice, name, machine);
    }
    if (!dice.one_in(4)) return user;
    for (std::size_t i = 1 + dice.number(3); i > 0; --i) {
        std::string name = dice.pick(kNcclNames);
        const std::string value = value_for(dice, name, machine);
        if (dice.one_in(8)) name = dice.one_in(2) ? " " + name : name + " ";
        user.conf.push_back({name, value, fmt::format("/etc/nccl.conf:{}", i)});
    }
    return user;
}

env::Job draw_job(Dice& dice, std::size_t gpus) {
    static constexpr std::array kLaunchers = {"plain",      "shell",      "torchrun", "accelerate",
                                              "openmpi",    "hydra",      "srun",     "deepspeed",
                                              "horovodrun", "colossalai", "python",   "mpirun"};
    static constexpr std::array kWords = {"", "", "", "gpu", "auto", "cpu", "x\x1b[2J"};
    static constexpr std::array kRendezvous = {"",
                                               "",
                                               "",
                                               "10.0.0.1",
                                               "10.0.0.77:29500",
                                               "[fe80::1%eth0]:1",
                                               "node-b",
                                               "127.0.0.1",
                                               "localhost",
                                               "[fd00::1]:29500",
                                               "\x1b[31m"};
    env::Job job;
    job.launcher = dice.pick(kLaunchers);
    if (!dice.one_in(4)) job.nodes = static_cast<int>(1 + dice.number(4));
    if (!dice.one_in(4)) {
        static constexpr std::array kCounts = {1, 2, 3, 4, 8, 16, 100};
        job.ranks_per_node =
            dice.one_in(3) ? dice.pick(kCounts) : static_cast<int>(1 + dice.number(gpus + 1));
    } else {
        job.ranks_word = dice.pick(kWords);
    }
    job.rendezvous = dice.pick(kRendezvous);
    job.same_host = !dice.one_in(6);
    job.shim = job.same_host && !dice.one_in(4);
    if (!job.shim && dice.one_in(2)) job.why_not_here = "workers start in a container";
    job.user_binds = dice.one_in(8);
    job.gpu_job_unknown = dice.one_in(8);
    return job;
}

env::Options draw_options(Dice& dice) {
    env::Options options;
    options.measure = static_cast<env::Measure>(dice.number(3));
    options.bind = dice.one_in(2) ? env::Bind::automatic : static_cast<env::Bind>(dice.number(4));
    options.log = !dice.one_in(5);
    options.take_log = dice.one_in(5);
    options.for_shell = dice.one_in(4);
    if (dice.one_in(4)) options.leave.push_back(dice.pick(kNcclNames));
    if (dice.one_in(8)) options.leave.push_back(dice.pick(kOtherNames));
    static constexpr std::array kDirectories = {"/tmp/run/logs", "/tmp/run/logs/", "/tmp/50% %h",
                                                "/tmp/it's here", ""};
    options.log_directory = dice.pick(kDirectories);
    static constexpr std::array kPlugins = {"/opt/toporun/libtoporun-nccl.so", "relative.so", ""};
    options.plugin = dice.pick(kPlugins);
    return options;
}

// --- machines ---------------------------------------------------------------------------------

/// Two different positions of a list with at least two entries.
std::pair<std::size_t, std::size_t> pair_of(Dice& dice, std::size_t size) {
    const std::size_t a = dice.number(size);
    return {a, (a + 1 + dice.number(size - 1)) % size};
}

void change_gpus(Dice& dice, Machine& machine) {
    const std::size_t size = machine.gpus.size();
    if (size < 2) return;
    const auto [a, b] = pair_of(dice, size);
    switch (dice.number(7)) {
        case 0:
            machine.peer_access.assign(
                size, std::vector<detect::PeerAccess>(size, detect::PeerAccess::ok));
            machine.peer_access[a][b] = machine.peer_access[b][a] = detect::PeerAccess::refused;
            break;
        case 1:
            machine.gpu_acs_redirect.assign(
                size, std::vector<detect::AcsRedirect>(size, detect::AcsRedirect::off));
            machine.gpu_acs_redirect[a][b] = machine.gpu_acs_redirect[b][a] =
                detect::AcsRedirect::on;
            break;
        case 2:
            machine.gpus[a].mig = true;
            break;
        case 3:
            machine.gpus[a].memory_bytes = 80ull << 30;
            machine.gpus[a].memory_used_bytes = 79ull << 30;
            break;
        case 4:
            machine.gpus[a].name = machine.gpus[b].name = "NVIDIA GeForce RTX 4090";
            machine.software.driver = dice.one_in(2) ? "525.85.12" : "550.54.15";
            break;
        case 5:
            for (std::size_t gpu = 0; gpu < size; ++gpu)
                machine.gpus[gpu].uuid = fmt::format("GPU-{:08x}-1111", gpu * 7919);
            break;
        default:
            for (detect::Gpu& gpu : machine.gpus) gpu.numa_node.reset();
    }
}

void change_processor(Dice& dice, Machine& machine) {
    static constexpr std::array kVendors = {"GenuineIntel", "AuthenticAMD", "ARM", "IBM", ""};
    switch (dice.number(5)) {
        case 0:
            machine.cpu.vendor = dice.pick(kVendors);
            machine.cpu.family = dice.one_in(2) ? std::optional<int>(6) : std::nullopt;
            machine.cpu.model_number = dice.one_in(2) ? 0x4f : 0x8f;
            break;
        case 1: {  // a job's share of the machine
            std::vector<int> kept;
            for (const int pu : machine.cpu.allowed.indices())
                if (!dice.one_in(3)) kept.push_back(pu);
            machine.cpu.allowed = detect::CpuSet(kept);
            break;
        }
        case 2: {
            std::vector<int> first = machine.cpu.allowed.indices();
            first.resize(dice.number(first.size() + 1));
            machine.cpu.allowed = detect::CpuSet(first);
            break;
        }
        case 3:
            machine.limits.cpu_quota = static_cast<double>(dice.number(64)) / 2;
            break;
        default:
            machine.cpu.architecture = dice.one_in(2) ? "aarch64" : "x86_64";
    }
}

void change_network(Dice& dice, Machine& machine) {
    if (machine.nics.empty()) return;
    detect::Nic& nic = machine.nics[dice.number(machine.nics.size())];
    static constexpr std::array kNames = {"eth0",     "eth",       "ib0", "a,b",
                                          "=x",       "^lo",       "y",   "enp1s0f0np0v12345",
                                          "\x1b[31m", "bond0.1:2", "lo"};
    switch (dice.number(7)) {
        case 0:
            nic.state = "down";
            break;
        case 1:
            nic.addresses = {"fe80::77/64"};
            break;
        case 2:
            nic.addresses = {fmt::format("10.{}.0.9/24", dice.number(4))};
            nic.speed_gbits = static_cast<double>(1 + dice.number(400));
            break;
        case 3:
            nic.kind = static_cast<detect::NicKind>(dice.number(13));
            break;
        case 4:
            nic.name = dice.pick(kNames);
            break;
        case 5:
            nic.port_state = dice.one_in(2) ? "down" : "active";
            break;
        default:
            nic.default_route = true;
    }
}

void change_rest(Dice& dice, Machine& machine) {
    switch (dice.number(7)) {
        case 0:
            machine.software.iommu_translating = true;
            break;
        case 1:
            machine.software.acs_redirect = true;
            break;
        case 2:
            machine.limits.shm_bytes = dice.number(3) << 26;
            break;
        case 3:
            machine.virtual_machine = true;
            break;
        case 4:
            machine.container = true;
            break;
        case 5:
            machine.software.nccl_library = "/opt/rocm/lib/librccl.so.1";
            break;
        default:
            machine.product = dice.one_in(2) ? "p5.48xlarge" : "Standard_ND96isr_H100_v5";
            machine.software.nccl_plugins = {"libnccl-net.so"};
    }
}

/// Copies between all pairs of GPUs whose bus ids are known, as if they had been measured.
std::vector<profiles::Measured> draw_measured(Dice& dice, const Machine& machine) {
    if (!dice.one_in(4)) return {};
    profiles::Measured measured;
    measured.name = "drawn";
    measured.driver = machine.software.driver.value_or("");
    measured.kernel = machine.software.kernel;
    measured.iommu = machine.software.iommu_mode;
    for (const detect::Gpu& gpu : machine.gpus)
        if (gpu.pci) measured.gpus.push_back({gpu.pci->text(), gpu.uuid.value_or("")});
    const bool p2p_wins = dice.one_in(2);
    for (std::size_t a = 0; a < measured.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < measured.gpus.size(); ++b) {
            profiles::MeasuredPair pair;
            pair.a = measured.gpus[a].pci;
            pair.b = measured.gpus[b].pci;
            pair.p2p_gbytes_per_s = (p2p_wins ? 20.0 : 4.0) + static_cast<double>(dice.number(4));
            pair.shm_gbytes_per_s = 10.0 + static_cast<double>(dice.number(4));
            if (dice.one_in(10)) pair.shm_gbytes_per_s.reset();
            pair.intact = !dice.one_in(20);
            measured.pairs.push_back(pair);
        }
    return {measured};
}

}  // namespace

Draw draw(Dice& dice, Machine machine) {
    const std::string version = dice.pick(kVersions);
    machine.software.nccl_version.reset();
    if (!version.empty()) machine.software.nccl_version = version;
    if (dice.one_in(2)) {
        using Change = void (*)(Dice&, Machine&);
        static constexpr std::array<Change, 4> kChanges = {change_gpus, change_processor,
                                                           change_network, change_rest};
        for (std::size_t i = 1 + dice.number(4); i > 0; --i) dice.pick(kChanges)(dice, machine);
    }
    Draw made;
    made.job = draw_job(dice, machine.gpus.size());
    made.user = draw_user(dice, machine);
    made.options = draw_options(dice);
    made.measured = draw_measured(dice, machine);
    made.machine = std::move(machine);
    return made;
}

std::string described(const Draw& draw) {
    const env::Job& job = draw.job;
    std::string text = fmt::format(
        "NCCL {}, {} of {} nodes, {} ranks '{}', rendezvous '{}', here {}, shim {}, user binds {};",
        draw.machine.software.nccl_version.value_or("unknown"), job.launcher,
        job.nodes ? std::to_string(*job.nodes) : "?",
        job.ranks_per_node ? std::to_string(*job.ranks_per_node) : "?", job.ranks_word,
        job.rendezvous, job.same_host, job.shim, job.user_binds);
    for (const auto& [name, value] : draw.user.variables)
        text += fmt::format(" {}={}", name, shell_word(value));
    for (const detect::ConfValue& line : draw.user.conf)
        text += fmt::format(" {}:{}={}", line.where, line.name, shell_word(line.value));
    const env::Options& options = draw.options;
    text +=
        fmt::format("; bind {}, log {}, take log {}, shell {}, measure {}, leave {}",
                    static_cast<int>(options.bind), options.log, options.take_log,
                    options.for_shell, static_cast<int>(options.measure), join(options.leave, ","));
    return printable(text);
}

}  // namespace toporun::tests
