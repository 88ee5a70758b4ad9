#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"
#include "detect/software/nccl_conf.hpp"
#include "env/host_places.hpp"
#include "env/job.hpp"
#include "profiles/knowledge.hpp"

/// Decisions: Job + Machine + Profiles + the user's environment -> Plan. Pure: no file, no clock,
/// no device; equal inputs give equal plans, so that any machine can be replayed from a capture.
namespace toporun::env {

enum class Origin { user, conf, launcher, profile, detected, measured, left_to_nccl };

/// A variable and why it has its value.
struct Setting {
    std::string name;
    std::optional<std::string> value;  ///< empty: left to NCCL (or to whoever reads the variable)
    Origin origin = Origin::left_to_nccl;
    std::string profile;       ///< of Origin::profile: its name
    std::string reason;        ///< the rule, one line
    std::string evidence;      ///< what was seen on this machine
    std::string nccl_default;  ///< what happens without the variable, on this version
    /// toporun hands the variable to the job. False for the user's own values and what is left
    /// alone.
    bool exported = false;
    bool per_rank = false;  ///< set by the rank shim, `{rank}` etc. filled in there
    /// Takes the place of a value that is set already. Only for what the user asked to be replaced.
    bool replaces = false;
};

/// "user", "conf", "launcher", "profile:NAME", "detected", "measured", "left-to-nccl".
std::string origin_text(const Setting& setting);

/// One GPU pair, a < b, positions in Machine::gpus. Transports: P2P, P2P-indirect, SHM, NET, NONE.
struct Pair {
    int a = 0;
    int b = 0;
    detect::PathType path = detect::PathType::SYS;
    std::string transport;          ///< with the plan
    std::string transport_default;  ///< with NCCL's own choice
};

struct RankPlacement {
    int local_rank = 0;
    std::optional<int> gpu;  ///< position in Machine::gpus
    detect::CpuSet cpus;     ///< empty: not bound
    std::optional<int> numa_node;
    /// The NUMA node whose memory a bound rank prefers: the one of its CPUs, never a GPU's own
    /// memory. Empty: the kernel's policy stays.
    std::optional<int> memory_node;
    std::vector<std::string> nics;  ///< nearest RDMA devices
};

struct Workers {
    std::optional<int> omp_num_threads;
    std::optional<int> loader_workers;  ///< per rank, an upper bound
};

enum class Severity { broken, slow, note };

/// "broken", "slow", "note".
std::string_view severity_text(Severity severity);

struct Finding {
    std::string id;  ///< stable, documented: "shm-too-small"
    Severity severity = Severity::note;
    std::string what;
    std::string evidence;
    std::string effect;
    std::string fix;  ///< a command to type, or advice where none helps
    std::string where;
    std::string remark =
        {};  ///< what to know of the fix: when it is not enough, what else there is
};

enum class Measure { automatic, off, always };

/// The CPUs of a rank. automatic: as `numa` or `core`, whichever fits the machine and the job.
enum class Bind {
    automatic,
    numa,  ///< every allowed PU of its GPU's NUMA node, shared with the other ranks there
    core,  ///< its share of those, without overlap
    none,
};

/// The fix with its remark on one line: "ibstat (check cable and switch port)".
inline std::string fix_text(const Finding& finding) {
    return finding.remark.empty() ? finding.fix : finding.fix + " (" + finding.remark + ")";
}

/// A profile that describes the machine.
struct UsedProfile {
    std::string name;
    std::string title;
    std::string file;
    std::string evidence;  ///< what of the machine it was known by
};

struct Plan {
    std::vector<Setting> settings;
    std::vector<Pair> pairs;
    std::vector<RankPlacement> ranks;
    std::optional<int> ranks_per_node;    ///< on this host; empty = unknown
    std::vector<std::string> interfaces;  ///< NCCL's own pick; the bootstrap takes the first
    Workers workers;
    std::vector<Finding> findings;
    std::string profile;                ///< the strongest matching profile's name; "" = none
    std::vector<UsedProfile> profiles;  ///< all that match, strongest first
    bool takes_log = false;             ///< NCCL's log goes to our files
    std::string log_reason;             ///< why not, when it does not
    /// The user's own NCCL_DEBUG_FILE, which holds an INFO log of this host; "" = none to follow.
    std::string followed_log;
    bool measures = false;           ///< the profiler plugin is loaded
    std::string measure_reason;      ///< why not, when it is not
    bool measure_on_demand = false;  ///< it is not, but --measure=always would load it
    bool binds = false;              ///< the shim binds each rank to RankPlacement::cpus
    Bind bind = Bind::none;          ///< how the CPUs were shared out: core, numa or none
    std::string bind_reason;         ///< why so, or why not
    /// The job's hosts, neighbours on one switch; empty: nothing is known of their places.
    std::vector<std::string> host_order;
};

/// What the user, the scheduler and the site have set. Conf values are in NCCL's order of
/// precedence.
struct UserEnvironment {
    std::map<std::string, std::string> variables;
    std::vector<detect::ConfValue> conf;

    /// The value NCCL will see: environment first, then the files. Nothing when unset everywhere.
    std::optional<std::string> nccl_value(const std::string& name) const;
    std::optional<std::string> variable(const std::string& name) const;
};

struct Options {
    Measure measure = Measure::automatic;
    Bind bind = Bind::automatic;
    bool log = true;
    bool take_log = false;   ///< override the user's own NCCL_DEBUG settings
    bool for_shell = false;  ///< settings for a shell's jobs: there is no run and no run directory
    std::vector<std::string> leave;  ///< variables that are left alone
    std::string log_directory;       ///< where NCCL's logs of this node go; "" = no such directory
    std::optional<HostPlaces> host_places;  ///< where the job's hosts are; empty = not known
    std::string host_places_file;           ///< what it was read from
    std::string plugin;  ///< absolute path of the profiler plugin; "" = not installed
};

/// "aws-p5 (AWS p5.48xlarge ...), known by products p5.48xlarge", safe for a terminal.
std::string profile_text(const UsedProfile& profile);

/// The whole decision. Never throws for a machine: what cannot be decided is left to NCCL and said.
Plan decide(const Job& job, const detect::Machine& machine, const profiles::Knowledge& knowledge,
            const UserEnvironment& user, const Options& options);

}  // namespace toporun::env
