#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::detect {

inline constexpr const char* kDefaultNvmlLibrary = "libnvidia-ml.so.1";

/// Where the facts come from. The caller reads the environment, detection never does.
struct Sources {
    /// Put before every /sys, /proc, /etc, /dev path; "" = this machine. With a root nothing of the
    /// real machine is read: what only a system call tells is taken from the tree or is unknown.
    std::string root;
    /// NVML's file. Another name than the default is tried even where nothing hints at a GPU.
    std::string nvml_library = kDefaultNvmlLibrary;
    std::vector<std::string> library_path;  ///< directories of LD_LIBRARY_PATH
    std::string preload;                    ///< LD_PRELOAD as it is
    std::string program;  ///< program or Python interpreter that will run, "" unknown
    std::string home;     ///< the user's home directory, for Python's user site
    /// Spend what a launch would not: whole libraries are searched for NCCL's version, whole GID
    /// tables and error counters read, the processes of the host looked through.
    bool deep = false;
    /// Addresses whose routes are asked for: IPv4 and IPv6 literals, with or without a scope
    /// ("fe80::1%eth0"). Anything else gets a note: names are never looked up.
    std::vector<std::string> destinations;
    /// Names of environment variables that are set ("SLURM_JOB_ID"), for the scheduler and the
    /// container engine. Values are not wanted.
    std::vector<std::string> variables;
    /// NCCL_IB_GID_INDEX, where it is set: that entry of each GID table is read in any case.
    std::optional<int> gid_index;
    std::string conf_file;      ///< NCCL_CONF_FILE, "" unset
    std::string topology_file;  ///< NCCL_TOPO_FILE, "" unset
    /// Directory for what is costly to find out again, usually ~/.cache/toporun; made when missing.
    /// "" = nothing is kept.
    std::string cache_directory;
    std::chrono::milliseconds nvml_limit{10000};  ///< the NVML helper is killed after this time
};

/// Everything that can be learnt of the machine. Never throws for a machine: a missing fact is
/// empty and a line of Machine::notes says why. To be called before the process has threads: it may
/// fork one helper, which is waited for no longer than Sources::nvml_limit.
Machine detect_machine(const Sources& sources);

/// What holds for this process alone, in a machine that another process of this host has detected
/// from the same sources: the CPUs that it may use and its limits.
void detect_own_part(const Sources& sources, Machine& machine);

/// What else one process of a host may see otherwise than another, as text: its namespaces, and
/// which device files of GPUs and adapters it may open. Equal texts: equal hardware.
std::string sight_of_process();

}  // namespace toporun::detect
