#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/plan.hpp"

/// What every decision reads, gathered once by decide().
namespace toporun::env {

inline constexpr const char* kP2pLevel = "NCCL_P2P_LEVEL";
inline constexpr const char* kP2pDisable = "NCCL_P2P_DISABLE";
inline constexpr const char* kSocketIfname = "NCCL_SOCKET_IFNAME";
inline constexpr const char* kCudaVisibleDevices = "CUDA_VISIBLE_DEVICES";

struct Inputs {
    const Job& job;
    const detect::Machine& machine;
    const UserEnvironment& user;
    const Options& options;
    const profiles::Knowledge& knowledge;
    const profiles::Profile* profile = nullptr;  ///< the strongest of `matched`, or none
    std::optional<int> nccl;                     ///< version code 22809, empty when unknown
    bool rccl = false;                           ///< AMD's library: NVIDIA's tables do not apply
    /// GPUs that the job may use, positions in Machine::gpus in the order of CUDA_VISIBLE_DEVICES.
    std::vector<int> visible;
    std::string visible_note;  ///< why not all, "" when all
    /// The profiles that hold for the machine, strongest first: matching_profiles().
    std::vector<const profiles::Profile*> matched = {};
};

/// What one of the decisions adds to the plan.
struct Decision {
    std::vector<Setting> settings;
    std::vector<Finding> findings;
};

/// Fills Inputs::matched and profile.
void find_profiles(Inputs& inputs);

/// Fills Inputs::visible and visible_note from CUDA_VISIBLE_DEVICES (HIP_ and ROCR_ on AMD):
/// indices and UUIDs, up to the first word that the driver would not accept.
void find_visible_gpus(Inputs& inputs);

/// AMD's library or, where none was found, AMD's GPUs alone.
bool is_rccl(const detect::Machine& machine);

/// Why nothing can be said of the ranks' places: "workers may start on other hosts or in
/// containers", or what the command is to blame for.
std::string not_here_text(const Job& job);

/// "the number of ranks on this host is not known", with the command's word for it.
std::string ranks_unknown_text(const Job& job);

/// GPUs of one job on this host: the first ranks of `visible` when their number is known and there
/// are several ranks, else all. One rank may drive them all.
std::vector<int> gpus_in_job(const Inputs& inputs);

using detect::rdma_usable;

/// "NCCL 2.28.9", "RCCL 2.27.7" or "NCCL of unknown version".
std::string library_text(const Inputs& inputs);

/// Whether the user, a scheduler or a conf file has set the variable.
bool user_has(const Inputs& inputs, const std::string& name);

/// The value that stands without toporun: environment, for NCCL's variables also conf files.
std::optional<std::string> user_value(const Inputs& inputs, const std::string& name);

/// A decision that sets nothing.
Setting left_alone(std::string name, std::string reason, std::string evidence,
                   std::string nccl_default);

/// A decision for a value that toporun found by itself.
Setting detected(std::string name, std::string value, std::string reason, std::string evidence,
                 std::string nccl_default);

/// The decision as it stands after the user's own value, --leave and the question whether workers
/// run on this host: sets `exported`.
Setting settle(const Inputs& inputs, Setting wanted);

/// NCCL's (strtol's) reading of an integer variable: leading blanks, 0x and 0 prefixes, text after
/// the number ignored, 0 when there is no number.
long long nccl_integer(const std::string& text);

}  // namespace toporun::env
