#include "env/match_nics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace toporun::env {
namespace {

using detect::Machine;
using detect::Nic;
using profiles::NicSet;
using Words = std::vector<std::string>;

bool has(const Words& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

Fit both(Fit a, Fit b) {
    if (a == Fit::differs || b == Fit::differs) return Fit::differs;
    return a == Fit::unknown || b == Fit::unknown ? Fit::unknown : Fit::fits;
}

Fit fit_of_word(const Words& wanted, const std::string& found) {
    if (wanted.empty()) return Fit::fits;
    if (found.empty()) return Fit::unknown;
    return has(wanted, found) ? Fit::fits : Fit::differs;
}

Fit fit_of_name(const Words& wanted, const Nic& nic) {
    if (wanted.empty()) return Fit::fits;
    const auto named = [](const std::string& name, std::string_view pattern) {
        if (!pattern.ends_with('*')) return name == pattern;
        return name.starts_with(pattern.substr(0, pattern.size() - 1));
    };
    const bool fits = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& pattern) {
        return named(nic.name, pattern) || (nic.rdma_device && named(*nic.rdma_device, pattern));
    });
    return fits ? Fit::fits : Fit::differs;
}

/// Rates that tools print differ by rounding: 400 and 399.9.
Fit fit_of_speed(const std::optional<double>& wanted, const std::optional<double>& found) {
    if (!wanted) return Fit::fits;
    if (!found) return Fit::unknown;
    return std::abs(*found - *wanted) < 0.05 * *wanted ? Fit::fits : Fit::differs;
}

Fit fit_of_nic(const Nic& nic, const NicSet& set) {
    Fit fit = fit_of_word(set.kinds, std::string(detect::nic_kind_name(nic.kind)));
    if (set.rdma && *set.rdma != nic.rdma_device.has_value()) return Fit::differs;
    fit = both(fit, fit_of_word(set.ids, nic.pci_id));
    fit = both(fit, fit_of_word(set.drivers, nic.driver));
    fit = both(fit, fit_of_name(set.names, nic));
    return both(fit, fit_of_speed(set.speed_gbits, nic.speed_gbits));
}

struct Counts {
    int sure = 0;
    int possible = 0;  ///< of which a feature is not known
};

Counts counts_of(const Machine& machine, const NicSet& set) {
    Counts counts;
    for (const Nic& nic : machine.nics) {
        const Fit fit = fit_of_nic(nic, set);
        counts.sure += fit == Fit::fits ? 1 : 0;
        counts.possible += fit == Fit::unknown ? 1 : 0;
    }
    return counts;
}

/// "roce adapters of 400 Gb/s with driver mlx5_core".
std::string kind_text(const NicSet& set) {
    std::string text = join(set.kinds, " or ");
    if (!text.empty()) text += ' ';
    if (set.rdma) text += *set.rdma ? "RDMA " : "non-RDMA ";
    text += "adapters";
    if (set.speed_gbits) text += fmt::format(" of {:g} Gb/s", *set.speed_gbits);
    if (!set.drivers.empty()) text += " with driver " + join(set.drivers, " or ");
    if (!set.ids.empty()) text += " " + join(set.ids, " or ");
    if (!set.names.empty()) text += " named " + join(set.names, " or ");
    return text;
}

}  // namespace

int count_nics(const Machine& machine, const NicSet& set) {
    return counts_of(machine, set).sure;
}

std::string nic_set_text(const NicSet& set) {
    std::string number;
    if (set.count) {
        number = *set.count == 0 ? "no" : std::to_string(*set.count);
    } else {
        if (set.count_min) number = fmt::format("at least {}", *set.count_min);
        if (set.count_max)
            number += fmt::format("{}at most {}", number.empty() ? "" : ", ", *set.count_max);
    }
    return number + " " + kind_text(set);
}

Fit fit_of_nics(const Machine& machine, const NicSet& set) {
    if (!machine.nics_known) return Fit::unknown;
    const Counts counts = counts_of(machine, set);
    const int least = set.count.value_or(set.count_min.value_or(0));
    const int most = set.count ? *set.count : set.count_max.value_or(counts.sure);
    if (counts.sure > most || counts.sure + counts.possible < least) return Fit::differs;
    const bool certain =
        counts.sure >= least && (counts.possible == 0 || (!set.count && !set.count_max));
    return certain ? Fit::fits : Fit::unknown;
}

std::string found_nics_text(const Machine& machine, const NicSet& set) {
    if (!machine.nics_known) return "";
    const Counts counts = counts_of(machine, set);
    std::string text = fmt::format("{} {}", counts.sure, kind_text(set));
    if (counts.possible > 0)
        text += fmt::format(", {} more of which not all is known", counts.possible);
    return text;
}

}  // namespace toporun::env
