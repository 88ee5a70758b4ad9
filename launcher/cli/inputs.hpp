#pragma once

#include <map>
#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "env/doctor/doctor.hpp"
#include "env/plan.hpp"
#include "launcher/cli/arguments.hpp"

/// What the actions read before they decide.
namespace toporun::launcher {

class NodeShare;

using Environment = std::map<std::string, std::string>;

/// The process environment as a map, and its strings as they stand.
Environment environment_map();
std::vector<std::string> environment_strings();
/// environment_map() for what is decided of this process: SLURM_PTY_PORT only in the terminal that
/// srun --pty has made. What srun starts from within its shell has the variable too.
Environment own_environment();

/// The Python that a job started from this shell would most likely run: of VIRTUAL_ENV, of
/// CONDA_PREFIX, else python3 on PATH; "" for none. It is not started.
std::string shell_python(const Environment& environment);

/// The machine: from --machine FILE and --from FILE, else this one. `program` is the file whose
/// NCCL is looked for, "" unknown; `deep` takes the time for a whole search. The kernel is asked
/// for its route to `rendezvous`, else to MASTER_ADDR, where that is an address: a name would have
/// to be looked up first. --nccl-version replaces the version found. With `share` ranks of this
/// node look at it once for all. Throws Error when a named file cannot be read.
detect::Machine read_machine(const Arguments& arguments, const Environment& environment,
                             const std::string& program, bool deep,
                             const std::string& rendezvous = "", const NodeShare* share = nullptr);

/// The NVML that is asked: TOPORUN_NVML_LIBRARY, else the driver's.
std::string nvml_library(const Environment& environment);

/// The variables and configuration files that win over every choice.
env::UserEnvironment read_user_environment(const Environment& environment);

/// What was decided, and what is known of the machine besides.
struct Judged {
    env::Plan plan;
    env::Diagnosis diagnosis;  ///< with the findings of the plan
};

/// Decides for the job and examines the machine.
Judged judge(const env::Job& job, const detect::Machine& machine, const env::UserEnvironment& user,
             const env::Options& options, const profiles::Knowledge& knowledge);

/// The plan alone, with the faults among its findings that break the job or give it other GPUs than
/// the user meant.
env::Plan decide(const env::Job& job, const detect::Machine& machine,
                 const env::UserEnvironment& user, const env::Options& options,
                 const profiles::Knowledge& knowledge);

/// A whole text file, at most 64 MiB. "/dev/stdin" is read to its end; a pipe is waited for as long
/// as somebody has it open to write, and nothing else. Throws Error with the reason.
std::string read_text_file(const std::string& path);

}  // namespace toporun::launcher
