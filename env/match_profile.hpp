#pragma once

#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "profiles/profile.hpp"

/// Which profiles describe a machine, and why the others do not.
namespace toporun::env {

enum class Fit { fits, differs, unknown };

/// "fits", "differs", "unknown".
std::string_view fit_text(Fit fit);

/// One condition of a profile, held against the machine.
struct Feature {
    std::string name;    ///< key of [match]: "gpu_count", "nics"
    std::string wanted;  ///< "8", "one of A100, A800"
    std::string found;   ///< on this machine, "" when nothing is known
    Fit fit = Fit::unknown;
};

/// Every condition that the match has, in the order of docs/profiles.md.
std::vector<Feature> match_features(const detect::Machine& machine, const profiles::Match& match);

/// Whether the machine has every feature.
bool matches(const detect::Machine& machine, const profiles::Match& match);

/// "product p5.48xlarge, 8 GPUs": what made the profile fit, in a line.
std::string match_text(const std::vector<Feature>& features);

/// The profiles that hold for the machine, strongest layer first; of each layer the most specific
/// one (profiles::specificity), of equal ones the first. A profile is passed over where a stronger
/// layer has one of its name.
std::vector<const profiles::Profile*> matching_profiles(
    const detect::Machine& machine, const std::vector<profiles::Profile>& known);

/// What joins the GPUs, as a value of `links` in [match]: the narrowest that fits. "" when the
/// paths are not known or there is no pair.
std::string links_word(const detect::Machine& machine);

/// Adapters of the machine that have every feature of the set.
int count_nics(const detect::Machine& machine, const profiles::NicSet& set);

/// "8 roce adapters of 400 Gb/s", "at least 4 adapters with driver gve", "no RDMA adapter".
std::string nic_set_text(const profiles::NicSet& set);

}  // namespace toporun::env
