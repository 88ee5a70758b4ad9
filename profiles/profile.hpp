#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What is known of a kind of machine, as data. Values carry reason, source and version range.
namespace toporun::profiles {

/// One value of a profile: a variable, or a decision "left to NCCL" when `value` is empty.
struct Value {
    std::string name;                  ///< variable
    std::optional<std::string> value;  ///< empty: leave = true
    std::string reason;
    std::string source;
    std::string since;  ///< NCCL version, inclusive; "" = any
    std::string until;  ///< NCCL version, inclusive; "" = any
    std::string where;  ///< file:line:column
};

/// Network adapters of one kind and how many of them there are. An adapter counts when it has every
/// feature that is given; empty members are not compared.
struct NicSet {
    std::vector<std::string> ids;       ///< "15b3:1021", any of them
    std::vector<std::string> drivers;   ///< kernel modules, any of them
    std::vector<std::string> kinds;     ///< of toporun.machine/1, any of them
    std::vector<std::string> names;     ///< RDMA device or interface; `*` at the end: its start
    std::optional<bool> rdma;           ///< has an RDMA device
    std::optional<double> speed_gbits;  ///< Gb/s of each
    std::optional<int> count;
    std::optional<int> count_min;
    std::optional<int> count_max;
    std::string where;  ///< file:line:column
};

/// What a machine must look like for the profile. Empty members are not compared. A condition on a
/// fact that is not known does not hold, but for `instance_types`.
struct Match {
    std::string vendor;                 ///< part of DMI sys_vendor
    std::vector<std::string> products;  ///< start of DMI product_name, any of them
    std::string asset_tag;              ///< DMI chassis_asset_tag, whole
    std::string board;                  ///< part of DMI board_vendor and board_name
    /// Start of the cloud's own name of the size, any of them. Compared only where it is known.
    std::vector<std::string> instance_types;
    std::vector<std::string> gpu_names;      ///< whole words of the GPU's name, any of them
    std::vector<std::string> not_gpu_names;  ///< no GPU's name has one of these
    std::vector<std::string> gpu_ids;        ///< "10de:2330", of GPUs whose name is not known
    std::optional<int> gpu_count;
    std::optional<int> gpu_count_min;
    std::optional<int> gpu_count_max;
    /// "nvswitch" (every pair, through switches), "all" (every pair), "nvlink" (some pair, no
    /// switches), "none".
    std::string links;
    std::string peer_access;   ///< "ok", "refused", "not-ok"
    std::string architecture;  ///< "x86_64", "aarch64"
    std::string kernel;        ///< part of the kernel's release
    std::optional<bool> virtual_machine;
    std::string container;             ///< kind: "docker", "kubernetes", ...
    std::string scheduler;             ///< "slurm", ...
    std::vector<std::string> plugins;  ///< makers of NCCL plugins, any of them
    std::vector<std::string> files;    ///< part of a vendor's, conf or topology file, any of them
    std::vector<NicSet> nics;          ///< all of them
};

/// What a healthy machine of the kind has. Not part of the match: what is missing is a finding.
struct Expect {
    std::optional<int> gpu_count;
    std::vector<NicSet> nics;
};

/// Where a profile comes from, weakest first.
enum class Layer { built_in, site, user, command_line };

struct Profile {
    std::string name;
    std::string title;
    std::string file;
    Layer layer = Layer::built_in;
    Match match;
    Expect expect;
    std::vector<Value> values;
};

/// How closely a match describes a machine: of two profiles that fit, the higher one is meant. By
/// kinds of evidence, the first that only one of the two has decides: product; vendor, asset tag or
/// board; adapters; the kernel; the exact number of GPUs; their names; everything else.
int specificity(const Match& match);

/// A row of profiler-versions.toml: where the profiler plugin must not be loaded, or may.
struct ProfilerRule {
    std::string library;                           ///< "nccl", "rccl"
    std::string since;                             ///< inclusive; "" = any
    std::string until;                             ///< inclusive; "" = any
    std::optional<std::uint64_t> shm_below_bytes;  ///< only where /dev/shm is smaller
    bool load = false;                             ///< true: known good
    std::string reason;
    std::string source;
    std::string where;
};

struct ProfilerVersions {
    std::vector<ProfilerRule> rules;  ///< the first that applies decides
};

/// Throws Error when `name` is no name of a profile.
void check_profile_name(std::string_view name);

/// Reads a profile. Throws Error with file:line:column, unknown keys refused with a suggestion.
Profile read_profile(std::string_view text, std::string_view file);
ProfilerVersions read_profiler_versions(std::string_view text, std::string_view file);

/// The profiles compiled into the program. `wanted` is asked with name, title, match and
/// expectations of each: only of those it wants are the values read too, the others are left out.
std::vector<Profile> builtin_profiles();
std::vector<Profile> builtin_profiles(const std::function<bool(const Profile&)>& wanted);
/// The text of a file that is compiled in, by Profile::file; "" when there is none.
std::string_view builtin_text(std::string_view file);
ProfilerVersions builtin_profiler_versions();

/// Negative, zero or positive as version `a` is below, equal to or above `b`: "2.9" < "2.28.9".
int compare_versions(std::string_view a, std::string_view b);

/// Whether `version` is in the inclusive range; "" = no bound. `until` is compared in as many parts
/// as it has: "2.30.7" is within "2.30".
bool version_in_range(std::string_view version, std::string_view since, std::string_view until);

}  // namespace toporun::profiles
