#pragma once

#include <span>
#include <string_view>

namespace toporun::env::doctor {

/// How a value is compared. `caseless`: equal but for upper and lower case, as NCCL reads most
/// words. `word`: likewise with an entry of a list with commas.
enum class Match { any, equal, caseless, word, nonzero, not_negative, zero };

/// A variable that should not be set, or not so.
struct SettingRow {
    std::string_view name;  ///< `*` at the end: every name that starts so
    Match match = Match::any;
    std::string_view value = {};  ///< of equal, caseless and word
    int nccl_since = 0;           ///< version code; 0 = any, also unknown
    int nccl_until = 0;
    bool several_nodes = false;  ///< concerns jobs that may have several nodes
    bool efa = false;            ///< concerns hosts with EFA adapters
    bool rack = false;           ///< concerns trays of an NVLink rack (GB200, GB300)
    bool nvidia = false;         ///< concerns NVIDIA's library, not RCCL
    std::string_view what;       ///< after "NAME: "
    std::string_view effect;
    std::string_view remark = {};  ///< on unsetting it
};

std::span<const SettingRow> obsolete_settings();
std::span<const SettingRow> dangerous_settings();
std::span<const SettingRow> debugging_settings();

/// Variables that NCCL reads with strtol, those of decisions with findings of their own left out.
std::span<const std::string_view> number_settings();

}  // namespace toporun::env::doctor
