#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/doctor/check.hpp"

/// Questions that several families ask.
namespace toporun::env::doctor {

/// The job has several nodes for certain.
bool several_nodes(const Patient& patient);
/// The job may have several nodes: they are not known to be one.
bool maybe_several_nodes(const Patient& patient);

/// Ranks of this host: the job's, else one a visible GPU.
int ranks_here(const Patient& patient);

/// NCCL's version is known and at least / below `code` (22809).
bool nccl_since(const Patient& patient, int code);
bool nccl_before(const Patient& patient, int code);

/// Any part of `text` from the list.
bool contains_any(std::string_view text, const std::vector<std::string_view>& parts);

/// A module of eight GPUs or so on a board (SXM), for which NVLink is always wired. By name.
bool is_sxm(const detect::Gpu& gpu);
/// Consumer cards: no GPUDirect RDMA, and mostly no peer access. By name.
bool is_geforce(const detect::Gpu& gpu);
/// GPUs of servers, by name: they are not in desktops and laptops.
bool is_server_gpu(const detect::Gpu& gpu);
/// A GPU of a rack that NVLink joins (GB200, GB300). By name.
bool is_rack_gpu(const detect::Gpu& gpu);

/// Positions of visible GPUs for which `holds`.
template <class Predicate>
std::vector<int> visible_gpus(const Patient& patient, Predicate holds) {
    std::vector<int> found;
    for (const int position : patient.inputs.visible)
        if (holds(patient.machine().gpus[static_cast<std::size_t>(position)]))
            found.push_back(position);
    return found;
}

bool has_nvidia_gpu(const Patient& patient);

/// "GPU 3", "GPUs 0, 1 and 5", "GPUs 0, 1, 2 and 5 more"; by NVML's number.
std::string gpus_text(const detect::Machine& machine, const std::vector<int>& positions);

/// "a, b and c".
std::string and_list(const std::vector<std::string>& words);

/// An RDMA port that NCCL could use: not known to be down.
bool rdma_usable(const detect::Nic& nic);
/// "mlx5_0:1", or the interface's name.
std::string port_name(const detect::Nic& nic);
/// Positions of the RDMA ports that are no EFA.
std::vector<int> verbs_ports(const detect::Machine& machine);
bool has_efa(const detect::Machine& machine);

/// Path between GPU and NIC; nothing when unknown.
std::optional<detect::PathType> nic_path(const detect::Machine& machine, int gpu, int nic);

/// The running kernel is at least `major`.`minor`; nothing when its release is unknown.
std::optional<bool> kernel_since(const detect::Machine& machine, int major, int minor);

/// NCCL's reading of the user's variable as an integer; nothing when it is not set.
std::optional<long long> user_number(const Patient& patient, const std::string& name);

/// "NAME=VALUE", quoted for a shell.
std::string assigned(const std::string& name, const std::string& value);
/// The same of a variable that is set, with the conf file that sets it: "NCCL_NET=IB in
/// /etc/nccl.conf:3".
std::string set_text(const Patient& patient, const std::string& name);

}  // namespace toporun::env::doctor
