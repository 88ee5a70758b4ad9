#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/doctor/check.hpp"
#include "env/doctor/gpu_kinds.hpp"
#include "env/hca.hpp"

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

/// By position in Machine::gpus and Machine::nics.
const detect::Gpu& gpu_at(const Patient& patient, int position);
const detect::Nic& nic_at(const Patient& patient, int position);

/// Positions of visible GPUs for which `holds`.
template <class Predicate>
std::vector<int> visible_gpus(const Patient& patient, Predicate holds) {
    std::vector<int> found;
    for (const int position : patient.inputs.visible)
        if (holds(gpu_at(patient, position))) found.push_back(position);
    return found;
}

bool has_nvidia_gpu(const Patient& patient);

/// The visible GPUs are those of a tray of an NVLink rack (GB200 NVL72). Where all pairs are joined
/// directly, without switches, it is a board of four alone (GB200 NVL4).
bool in_rack(const Patient& patient);

/// "GPU 3", "GPUs 0, 1 and 5", "GPUs 0, 1, 2 and 5 more"; by NVML's number.
std::string gpus_text(const detect::Machine& machine, const std::vector<int>& positions);

/// "0-1 2-5", "0-1 ... 0-8 ..." of more than eight; by NVML's numbers.
std::string pairs_text(const detect::Machine& machine,
                       const std::vector<std::pair<int, int>>& pairs);

/// "a, b and c".
std::string and_list(const std::vector<std::string>& words);

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
