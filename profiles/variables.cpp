#include "profiles/variables.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace toporun::profiles {
namespace {

struct Refusal {
    std::string_view pattern;  ///< `*` stands for any text, at most once
    std::string_view why;
};

constexpr std::string_view kBreaks =
    "NCCL 2.24 and later fail where the choice does not apply, and LL128 can corrupt data";
constexpr std::string_view kRendezvous = "it replaces the rendezvous of the framework";
constexpr std::string_view kOtherMachine = "it changes the machine that NCCL believes in";
constexpr std::string_view kIntegrity = "it weakens data integrity or a check";
constexpr std::string_view kVendor = "the site or its vendor owns it";
constexpr std::string_view kFabric = "it belongs to the administration of the fabric";
constexpr std::string_view kInternal = "it is an internal of NCCL whose default changes by release";
constexpr std::string_view kBehaviour = "it changes what the programming interface does";
constexpr std::string_view kSlow = "it slows every call down";
constexpr std::string_view kEverywhere = "it is experimental or must be equal everywhere";
constexpr std::string_view kOwn = "toporun decides it itself, whatever a profile says";
constexpr std::string_view kP2pOff =
    "toporun decides itself whether P2P is off; a profile's NCCL_P2P_LEVEL is heard";
constexpr std::string_view kNarrows =
    "with it `import torch` narrows every worker to one core (pytorch issue 99625)";

// Never set automatically: the behaviour of NCCL 2.8 to 2.30 (src/misc/param.cc and the users of
// each variable), see docs/variables.md.
constexpr Refusal kRefused[] = {
    {"NCCL_ALGO", kBreaks},
    {"NCCL_PROTO", kBreaks},
    {"NCCL_COMM_ID", kRendezvous},
    {"NCCL_TOPO_FILE", kOtherMachine},
    {"NCCL_GRAPH_FILE", kOtherMachine},
    {"NCCL_HOSTID", kOtherMachine},
    {"NCCL_GDR_FLUSH_DISABLE", kIntegrity},
    {"NCCL_NET_FORCE_FLUSH", kIntegrity},
    {"NCCL_IB_PCI_RELAXED_ORDERING", kIntegrity},
    {"NCCL_LL128_C2C", kIntegrity},
    {"NCCL_LAUNCH_RACE_FATAL", kIntegrity},
    {"NCCL_NET", kVendor},
    {"NCCL_NET_PLUGIN", kVendor},
    {"NCCL_COLLNET_ENABLE", kVendor},
    {"NCCL_ENV_PLUGIN", kVendor},
    {"NCCL_CONF_FILE", kVendor},
    {"NCCL_GIN_PLUGIN", kVendor},
    {"NCCL_RMA_PLUGIN", kVendor},
    {"NCCL_IB_PKEY", kFabric},
    {"NCCL_IB_ROCE_VERSION_NUM", kFabric},
    {"NCCL_IB_ADDR_*", kFabric},
    {"NCCL_IB_ROUTABLE_FLID_GID_INDEX", kFabric},
    {"NCCL_LAUNCH_MODE", kInternal},
    {"NCCL_WORK_FIFO_*", kInternal},
    {"NCCL_THREAD_THRESHOLDS", kInternal},
    {"NCCL_CGA_CLUSTER_SIZE", kInternal},
    {"NCCL_SET_STACK_SIZE", kInternal},
    {"NCCL_RUNTIME_CONNECT", kInternal},
    {"NCCL_SYM_*", kInternal},
    {"NCCL_WIN_*", kInternal},
    {"NCCL_CTA_POLICY", kInternal},
    {"NCCL_GRAPH_MIXING_SUPPORT", kInternal},
    {"NCCL_GRAPH_STREAM_ORDERING", kInternal},
    {"NCCL_P2P_*_CHUNKSIZE", kInternal},
    {"NCCL_NVLS_*SIZE", kInternal},
    {"NCCL_COMM_BLOCKING", kBehaviour},
    {"NCCL_*_SHARE_RESOURCES", kBehaviour},
    {"NCCL_MULTI_RANK_GPU_ENABLE", kBehaviour},
    {"NCCL_CHECK_POINTERS", kSlow},
    {"NCCL_CHECK_MODE", kSlow},
    {"NCCL_IB_RESILIENCY_*", kEverywhere},
    {"NCCL_SOCKET_MAGIC", kEverywhere},
    {"NCCL_OOB_NET_ENABLE", kEverywhere},
    {"NCCL_NO_CACHE", kEverywhere},
    {"NCCL_DEBUG", kOwn},
    {"NCCL_DEBUG_*", kOwn},
    {"NCCL_PROFILER_PLUGIN", kOwn},
    {"OMP_NUM_THREADS", kOwn},
    {"NCCL_P2P_DISABLE", kP2pOff},
    {"OMP_PROC_BIND", kNarrows},
    {"OMP_PLACES", kNarrows},
};

constexpr std::string_view kPrefixes[] = {"NCCL_", "RCCL_", "TORCH_NCCL_", "OFI_NCCL_", "FI_",
                                          "UCX_",  "GLOO_", "OMP_",        "HSA_"};

bool matches(std::string_view name, std::string_view pattern) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return name == pattern;
    const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
    return name.size() >= head.size() + tail.size() && name.starts_with(head) &&
           name.ends_with(tail);
}

bool well_formed(std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
}

}  // namespace

std::optional<std::string> refused_variable(std::string_view name, Use use) {
    const bool known =
        std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
            return name.starts_with(prefix) && name.size() > prefix.size();
        });
    if (!known || !well_formed(name))
        return fmt::format("a profile may name variables that start with {} only",
                           fmt::join(kPrefixes, ", "));
    for (const Refusal& refusal : kRefused)
        if (matches(name, refusal.pattern) && (use == Use::set || refusal.why == kOwn))
            return refusal.why == kOwn || refusal.why == kP2pOff
                       ? fmt::format("it would never be used: {}", refusal.why)
                       : fmt::format("it is never set automatically: {}", refusal.why);
    return std::nullopt;
}

}  // namespace toporun::profiles
