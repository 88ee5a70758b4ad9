#pragma once

#include <cstdint>
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

/// What a machine must look like for the profile. Empty members are not compared.
struct Match {
    std::vector<std::string> gpu_names;  ///< part of the GPU's name, any of them
    std::optional<int> gpu_count;
    std::optional<int> gpu_count_min;
    std::string links;        ///< "nvswitch", "nvlink", "none"
    std::string peer_access;  ///< "ok", "refused"
    std::string vendor;       ///< part of DMI sys_vendor
    std::string product;      ///< start of DMI product_name
};

struct Profile {
    std::string name;
    std::string title;
    std::string file;
    Match match;
    std::vector<Value> values;
};

/// A row of profiler-versions.toml: where the profiler plugin must not be loaded, or may.
struct ProfilerRule {
    std::string library;                           ///< "nccl", "rccl"
    std::string since;                             ///< inclusive; "" = any
    std::string until;                             ///< inclusive; "" = any
    std::optional<std::uint64_t> shm_below_bytes;  ///< only where /dev/shm is smaller
    bool all_events_only = false;  ///< concerns a mask of all events, which toporun never uses
    bool load = false;             ///< true: known good
    std::string reason;
    std::string source;
    std::string where;
};

struct ProfilerVersions {
    std::vector<ProfilerRule> rules;  ///< the first that applies decides
};

/// Reads a profile. Throws Error with file:line:column, unknown keys refused with a suggestion.
Profile read_profile(std::string_view text, std::string_view file);
ProfilerVersions read_profiler_versions(std::string_view text, std::string_view file);

/// The profiles compiled into the program, and its profiler-versions.toml.
std::vector<Profile> builtin_profiles();
ProfilerVersions builtin_profiler_versions();

/// Negative, zero or positive as version `a` is below, equal to or above `b`: "2.9" < "2.28.9".
int compare_versions(std::string_view a, std::string_view b);

/// Whether `version` is in the inclusive range; "" = no bound. `until` is compared in as many parts
/// as it has: "2.30.7" is within "2.30".
bool version_in_range(std::string_view version, std::string_view since, std::string_view until);

}  // namespace toporun::profiles
