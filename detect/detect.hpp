#pragma once

#include <chrono>
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
    bool deep = false;    ///< search whole libraries for NCCL's version
    std::chrono::milliseconds nvml_limit{10000};  ///< the NVML helper is killed after this time
};

/// Everything that can be learnt of the machine. Never throws for a machine: a missing fact is
/// empty and a line of Machine::notes says why. To be called before the process has threads: it may
/// fork one helper, which is waited for no longer than Sources::nvml_limit.
Machine detect_machine(const Sources& sources);

}  // namespace toporun::detect
