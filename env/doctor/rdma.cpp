#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/text.hpp"
#include "detect/network/port_counters.hpp"
#include "env/carrier.hpp"
#include "env/doctor/facts.hpp"

/// Verbs ports: state, rate, errors, rights, and the user's list of them.
namespace toporun::env::doctor {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;
using detect::PathType;

constexpr std::string_view kFamily = "rdma";

/// The ports that are up.
std::vector<int> usable_ports(const Patient& patient) {
    std::vector<int> ports = verbs_ports(patient.machine());
    std::erase_if(ports, [&](int port) { return !rdma_usable(nic_at(patient, port)); });
    return ports;
}

/// The ports that serve a GPU: within PXB of one.
bool near_a_gpu(const Patient& patient, int nic) {
    for (const int gpu : patient.inputs.visible)
        if (nic_path(patient.machine(), gpu, nic).value_or(PathType::SYS) <= PathType::PXB)
            return true;
    return false;
}

/// A GPU has the port within PXB, and none that is up is as near to it.
bool is_missed(const Patient& patient, int nic, const std::vector<int>& up) {
    for (const int gpu : patient.inputs.visible) {
        const auto path = nic_path(patient.machine(), gpu, nic);
        if (path.value_or(PathType::SYS) > PathType::PXB) continue;
        const auto left = nearest_path(patient.machine(), gpu, up);
        if (!left || *left > *path) return true;
    }
    return false;
}

/// The port has a place on the bus, and none that is up shares its adapter. Where the bus is not
/// told it may be the second port of one, which is often not cabled (NVIDIA/nccl-tests issue 188).
bool has_own_adapter(const Patient& patient, int nic, const std::vector<int>& up) {
    return nic_at(patient, nic).pci && std::all_of(up.begin(), up.end(), [&](int port) {
               return nic_at(patient, port).pci.has_value();
           });
}

/// "rocep1s0f" of "rocep1s0f1", "" of other names: ports of one card are functions of one device.
std::string_view card_stem(std::string_view name) {
    const std::size_t digits = name.find_last_not_of("0123456789");
    if (digits == std::string_view::npos || digits + 1 == name.size()) return {};
    const std::string_view stem = name.substr(0, digits + 1);
    return stem.ends_with('f') && stem.find_first_of("0123456789") != std::string_view::npos
               ? stem
               : std::string_view();
}

/// Another usable port of the same adapter: the second one is often not cabled.
bool has_usable_twin(const Patient& patient, int nic) {
    const Nic& down = nic_at(patient, nic);
    const std::string_view stem = down.rdma_device ? card_stem(*down.rdma_device) : "";
    for (const int other : verbs_ports(patient.machine())) {
        const Nic& up = nic_at(patient, other);
        if (other == nic || !rdma_usable(up)) continue;
        if (!stem.empty() && up.rdma_device && card_stem(*up.rdma_device) == stem) return true;
        if (!down.pci || !up.pci) continue;
        if (up.pci->domain == down.pci->domain && up.pci->bus == down.pci->bus &&
            up.pci->device == down.pci->device)
            return true;
    }
    return false;
}

/// Trained, but no subnet manager has set it up: state Initializing or Armed.
bool waits_for_manager(const Nic& nic) {
    return nic.port_state == "init" || nic.port_state == "armed";
}

/// What a port that is not up lacks, and what to look at.
struct PortFault {
    std::string state;
    std::string remark;  ///< on what ibstat shows
};
PortFault port_fault(const Patient& patient, const std::vector<int>& ports) {
    const auto waiting = std::count_if(ports.begin(), ports.end(), [&](int port) {
        return waits_for_manager(nic_at(patient, port));
    });
    if (waiting == 0) return {"down", "check cable and switch port"};
    const std::string manager =
        "start the subnet manager (opensm, or the switch's), and check with sminfo that it reaches "
        "the port";
    if (waiting == static_cast<std::ptrdiff_t>(ports.size()))
        return {"without a subnet manager (state Initializing)", manager};
    return {"down or without a subnet manager", manager + "; check cable and switch port"};
}

std::vector<std::string> port_names(const Patient& patient, const std::vector<int>& ports) {
    std::vector<std::string> names;
    for (const int port : ports) names.push_back(port_name(nic_at(patient, port)));
    return names;
}

void port_down(const Patient& patient, Verdict& verdict) {
    const std::vector<int> ports = verbs_ports(patient.machine());
    const std::vector<int> usable = usable_ports(patient);
    const std::size_t up = usable.size();
    std::vector<int> needed, others;
    for (const int port : ports) {
        if (rdma_usable(nic_at(patient, port)) || has_usable_twin(patient, port)) continue;
        if (is_missed(patient, port, usable))
            needed.push_back(port);
        else if (patient.machine().gpu_nic_paths.empty() ||
                 (near_a_gpu(patient, port) && has_own_adapter(patient, port, usable)))
            others.push_back(port);
    }
    if (up == 0 || !maybe_several_nodes(patient)) return;
    const bool slow = !needed.empty();
    const std::vector<int>& down = slow ? needed : others;
    if (down.empty()) return;
    const PortFault fault = port_fault(patient, down);
    verdict.find(slow ? Severity::slow : Severity::note,
                 {.what = fmt::format(
                      "RDMA port{} {} {} {} while {} other{} up", down.size() == 1 ? "" : "s",
                      and_list(port_names(patient, down)), down.size() == 1 ? "is" : "are",
                      fault.state, up, up == 1 ? " is" : "s are"),
                  .evidence = "port state (ibstat, /sys/class/infiniband/*/ports/*/state)",
                  .effect = slow ? "the GPUs beside it send through farther adapters, which then "
                                   "carry twice the data"
                                 : "fewer rails than adapters, if the port was meant to be used",
                  .fix = "ibstat",
                  .remark = fault.remark + "; or leave it out with NCCL_IB_HCA on all nodes"});
}

void none_usable(const Patient& patient, Verdict& verdict) {
    const std::vector<int> ports = verbs_ports(patient.machine());
    if (ports.empty() || !maybe_several_nodes(patient)) return;
    for (const int port : ports)
        if (rdma_usable(nic_at(patient, port))) return;
    const PortFault fault = port_fault(patient, ports);
    verdict.find(several_nodes(patient) ? Severity::slow : Severity::note,
                 {.what = fmt::format("no RDMA port is up: {} of {} {}", ports.size(), ports.size(),
                                      fault.state),
                  .evidence = "port state (ibstat, /sys/class/infiniband/*/ports/*/state)",
                  .effect = "NCCL says 'NET/IB : No device found' and takes TCP without an error",
                  .fix = "ibstat",
                  .remark = fault.remark});
}

/// Ports that have their GPU for themselves are meant to be alike.
void port_slow(const Patient& patient, Verdict& verdict) {
    std::map<double, int> rates;
    std::vector<int> near;
    for (const int port : verbs_ports(patient.machine()))
        if (const Nic& nic = nic_at(patient, port);
            rdma_usable(nic) && nic.speed_gbits && near_a_gpu(patient, port)) {
            near.push_back(port);
            ++rates[*nic.speed_gbits];
        }
    for (const auto& [known_rate, ports] : rates) {
        const double rate = known_rate;  // clang 14 captures no structured binding
        const int count = ports;
        if (count < 3 || static_cast<std::size_t>(count) * 2 <= near.size()) continue;
        for (const int port : near) {
            const Nic& nic = nic_at(patient, port);
            if (*nic.speed_gbits >= rate || nic.pcie_width_now.value_or(16) < 8) continue;
            const bool alike = std::any_of(near.begin(), near.end(), [&](int other) {
                const Nic& good = nic_at(patient, other);
                return *good.speed_gbits == rate && good.kind == nic.kind &&
                       good.pcie_generation == nic.pcie_generation &&
                       good.pcie_width == nic.pcie_width && good.driver == nic.driver;
            });
            if (!alike) continue;
            verdict.slow({.what = fmt::format("{} runs at {:g} Gb/s, {} alike at {:g} Gb/s",
                                              port_name(nic), *nic.speed_gbits, count, rate),
                          .evidence = "rate (ibstat, /sys/class/infiniband/*/ports/*/rate)",
                          .effect = "every rail waits for the slowest: collectives between nodes "
                                    "run at its pace",
                          .fix = fmt::format("ibstat {}", nic.rdma_device.value_or("")),
                          .remark = "check cable and switch port",
                          .where = port_name(nic)});
        }
    }
}

/// One finding for the ports that have counted the same, as after a fault of the fabric.
void port_errors(const Patient& patient, Verdict& verdict) {
    std::map<std::string, std::vector<std::string>> ports_by_counters;
    for (const int port : verbs_ports(patient.machine())) {
        const Nic& nic = nic_at(patient, port);
        std::vector<std::string> seen;
        for (const detect::PortCounter& counter : nic.errors)
            if (const auto* known = detect::error_counter(counter.name);
                known != nullptr && counter.value > known->usual)
                seen.push_back(
                    fmt::format("{} {} ({})", counter.name, counter.value, known->meaning));
        if (!seen.empty()) ports_by_counters[join(seen, ", ")].push_back(port_name(nic));
    }
    for (const auto& [counters, ports] : ports_by_counters)
        verdict.note({.what = fmt::format("{} {} counted errors since boot", and_list(ports),
                                          ports.size() == 1 ? "has" : "have"),
                      .evidence = counters,
                      .effect = "if they still rise: retransmissions, and in the end 'status 12'",
                      .fix = "perfquery",
                      .remark = "or ethtool -S, again after some minutes of load: a counter that "
                                "rises asks for a new cable or transceiver",
                      .where = ports.size() == 1 ? ports.front() : ""});
}

/// /dev/infiniband/uverbs* are what libibverbs opens.
void device_files(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!maybe_several_nodes(patient)) return;
    const bool efa = has_efa(machine);
    if (verbs_ports(machine).empty() && !efa) return;
    const auto& files = machine.software.verbs_devices;
    if (!files) return verdict.unknown("the device files of RDMA");
    if (*files > 0) return;
    verdict.slow({.what = efa ? "EFA adapters are here, but no /dev/infiniband/uverbs* to open them"
                              : "RDMA adapters are here, but no /dev/infiniband/uverbs* to open "
                                "them",
                  .evidence = fmt::format("0 of /dev/infiniband/uverbs*{}",
                                          machine.container ? ", in a container" : ""),
                  .effect = efa ? "the plugin falls to its tcp provider: 10 times slower and more"
                                : "NCCL says 'NET/IB : No device found' and takes TCP without "
                                  "an error",
                  .fix = machine.container
                             ? "docker run --device=/dev/infiniband --ulimit memlock=-1 "
                               "--network=host ..."
                             : "modprobe ib_uverbs",
                  .remark = machine.container ? "in Kubernetes the adapter's device plugin" : ""});
}

/// Linux starts with 8 MiB (64 KiB before 5.16, MLOCK_LIMIT in include/uapi/linux/resource.h). NCCL
/// registers 4 MiB and more for each connection and channel (NCCL_BUFFSIZE): 16 of them reach this.
constexpr std::uint64_t kSmallMemlock = 64ull << 20;

void memlock(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!maybe_several_nodes(patient)) return;
    if (std::none_of(machine.nics.begin(), machine.nics.end(), rdma_usable)) return;
    const auto& limit = machine.limits.memlock_bytes;
    if (!limit) return verdict.unknown("the memlock limit");
    if (*limit >= kSmallMemlock) return;
    const auto& exempt = machine.limits.ipc_lock;  // as in pods that add IPC_LOCK, and for root
    if (!exempt)
        return verdict.unknown(fmt::format(
            "CAP_IPC_LOCK, without which {} of locked memory are few", format_bytes(*limit)));
    if (*exempt) return;
    verdict.find(
        machine.container ? Severity::broken : Severity::slow,
        {.what = fmt::format("only {} may be locked in memory, RDMA needs much more",
                             format_bytes(*limit)),
         .evidence = "RLIMIT_MEMLOCK (ulimit -l), no CAP_IPC_LOCK (CapEff in /proc/self/status)",
         .effect = "ibv_reg_mr fails with 'Cannot allocate memory' for who has no "
                   "CAP_IPC_LOCK, and NCCL stops",
         .fix = machine.container ? "docker run --ulimit memlock=-1 ..."
                                  : "memlock unlimited in /etc/security/limits.conf; for Slurm "
                                    "LimitMEMLOCK=infinity of slurmd and "
                                    "PropagateResourceLimitsExcept=MEMLOCK",
         .remark = machine.container ? "in Kubernetes securityContext.capabilities.add: [IPC_LOCK]"
                                     : ""});
}

void hca_no_match(const Patient& patient, Verdict& verdict) {
    const auto value = user_value(patient.inputs, "NCCL_IB_HCA");
    const std::vector<int> ports = verbs_ports(patient.machine());
    if (!value || ports.empty()) return;
    const HcaList list = parse_hca_list(*value);
    if (list.entries.empty()) return;
    std::vector<std::string> usable;
    for (const int port : ports) {
        if (!rdma_usable(nic_at(patient, port))) continue;
        if (list.takes(nic_at(patient, port))) return;
        usable.push_back(port_name(nic_at(patient, port)));
    }
    verdict.slow(
        {.what = fmt::format("{} matches no RDMA port that is up", assigned("NCCL_IB_HCA", *value)),
         .evidence = fmt::format("ports that are up: {}", and_list(usable)),
         .effect = "NCCL says 'NET/IB : No device found' and takes TCP without an error",
         .fix = "unset NCCL_IB_HCA",
         .remark = "or name ports that exist on every node"});
}

void hca_prefix(const Patient& patient, Verdict& verdict) {
    const auto value = user_value(patient.inputs, "NCCL_IB_HCA");
    if (!value) return;
    // What is to be exported was said with toporun's own list.
    for (const Finding& said : patient.plan.findings)
        if (said.id == "ib-hca-extra") return;
    const HcaList list = parse_hca_list(*value);
    if (list.exact || list.exclude) return;
    for (const HcaEntry& entry : list.entries) {
        bool whole = false;
        std::vector<std::string> more;
        for (const int port : verbs_ports(patient.machine())) {
            const std::string device = nic_at(patient, port).rdma_device.value_or("");
            const bool named =
                std::any_of(list.entries.begin(), list.entries.end(),
                            [&](const HcaEntry& other) { return other.device == device; });
            if (device == entry.device)
                whole = true;
            else if (device.starts_with(entry.device) && !named)
                more.push_back(device);
        }
        if (!whole || more.empty()) continue;
        verdict.slow({.what = fmt::format("NCCL_IB_HCA: {} is a prefix and also takes {}",
                                          entry.device, and_list(more)),
                      .evidence = assigned("NCCL_IB_HCA", *value),
                      .effect = "adapters that were left out on purpose carry data",
                      .fix = fmt::format("export NCCL_IB_HCA={}", shell_word("=" + *value))});
    }
}

/// Ports that the job's NCCL takes although they speak iWARP.
void iwarp_ports(const Patient& patient, Verdict& verdict) {
    if (!maybe_several_nodes(patient) || data_carrier(patient.inputs).kind != Carrier::verbs)
        return;
    auto list = user_value(patient.inputs, "NCCL_IB_HCA");
    for (const Setting& setting : patient.plan.settings)
        if (!list && setting.name == "NCCL_IB_HCA") list = setting.value;
    std::vector<int> taken;
    for (const int port : usable_ports(patient)) {
        const Nic& nic = nic_at(patient, port);
        if (nic.iwarp && (!list || parse_hca_list(*list).takes(nic))) taken.push_back(port);
    }
    if (taken.empty()) return;
    std::vector<std::string> others;
    for (const int port : usable_ports(patient))
        if (!nic_at(patient, port).iwarp) others.push_back(port_name(nic_at(patient, port)));
    verdict.find(
        several_nodes(patient) ? Severity::broken : Severity::note,
        {.what = fmt::format("{} speak{} iWARP, which NCCL's RDMA transport does not",
                             and_list(port_names(patient, taken)), taken.size() == 1 ? "s" : ""),
         .evidence = "node type RNIC (/sys/class/infiniband/*/node_type), transport "
                     "(ibv_devinfo)",
         .effect = "NCCL takes them for InfiniBand or RoCE and stops as it connects to "
                   "other nodes (NVIDIA/nccl issue 622)",
         .fix = others.empty() ? "export NCCL_IB_DISABLE=1"
                               : "export NCCL_IB_HCA=" + shell_word("=" + join(others, ",")),
         .remark = others.empty() ? "then TCP carries the data; Intel's E810 speaks RoCE with "
                                    "irdma's roce_ena=1"
                                  : "Intel's E810 speaks RoCE with irdma's roce_ena=1"});
}

/// The variable that takes RDMA away, "" where none does.
std::string switch_off(const Patient& patient) {
    if (user_number(patient, "NCCL_IB_DISABLE").value_or(0) != 0) return "NCCL_IB_DISABLE";
    const bool asked = user_value(patient.inputs, "NCCL_NET").has_value();
    return asked && data_carrier(patient.inputs).kind == Carrier::sockets ? "NCCL_NET" : "";
}

void ib_disabled(const Patient& patient, Verdict& verdict) {
    const std::string name = switch_off(patient);
    if (name.empty() || !maybe_several_nodes(patient)) return;
    std::vector<std::string> usable;
    for (const Nic& nic : patient.machine().nics)
        if (nic.rdma_device && rdma_usable(nic) && !nic.iwarp &&
            (nic.kind != NicKind::efa || name == "NCCL_NET"))
            usable.push_back(port_name(nic));
    if (usable.empty()) return;
    const std::string set = assigned(name, *user_value(patient.inputs, name));
    const auto on = [&](const char* variable) { return user_number(patient, variable) != 0; };
    const bool rack = in_rack(patient) && on("NCCL_CUMEM_ENABLE") && on("NCCL_MNNVL_ENABLE");
    const std::string what =
        fmt::format("{} switches RDMA off although ports are up", name == "NCCL_NET" ? set : name);
    if (rack)
        return verdict.note(
            {.what = what,
             .evidence = set,
             .effect = "data between racks goes by TCP; inside a rack NVLink carries it, if IMEX "
                       "works",
             .fix = "unset " + name,
             .remark = "where the job spans racks; inside one it may stay"});
    verdict.slow({.what = what,
                  .evidence = fmt::format("{}; up: {}", set, and_list(usable)),
                  .effect = "the data between nodes goes by TCP, typically 5 to 10 times slower",
                  .fix = "unset " + name});
}

constexpr Check kChecks[] = {
    {{"rdma-port-down", kFamily, Severity::slow,
      "ports that are down while others are up: their GPUs take farther adapters"},
     port_down},
    {{"rdma-none-usable", kFamily, Severity::slow,
      "whether any RDMA port is up: without one NCCL takes TCP silently"},
     none_usable},
    {{"rdma-port-slow", kFamily, Severity::slow,
      "the rate of each adapter beside a GPU against that of its likes: a link trained down "
      "slows every rail"},
     port_slow},
    {{"rdma-port-errors", kFamily, Severity::note,
      "error counters of the ports that stand still on a sound link"},
     port_errors},
    {{"verbs-devices-missing", kFamily, Severity::slow,
      "/dev/infiniband/uverbs* where RDMA or EFA adapters are: containers see the adapters in "
      "/sys but may not open them"},
     device_files},
    {{"memlock-small", kFamily, Severity::broken,
      "the memlock limit where RDMA is used and CAP_IPC_LOCK is not held: registering memory "
      "fails"},
     memlock},
    {{"ib-hca-no-match", kFamily, Severity::slow,
      "NCCL_IB_HCA against the ports that are up: when nothing matches NCCL takes TCP silently"},
     hca_no_match},
    {{"ib-hca-prefix", kFamily, Severity::slow,
      "names in NCCL_IB_HCA that are prefixes of further devices: mlx5_1 also takes mlx5_10"},
     hca_prefix},
    {{"ib-disabled", kFamily, Severity::slow,
      "NCCL_IB_DISABLE, or NCCL_NET=Socket, where RDMA ports are up"},
     ib_disabled},
    {{"iwarp-ports", kFamily, Severity::broken,
      "RDMA ports that speak iWARP: NCCL takes them and cannot connect"},
     iwarp_ports},
};

}  // namespace

std::span<const Check> rdma_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
