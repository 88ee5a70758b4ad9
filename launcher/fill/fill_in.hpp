#pragma once

#include <string>
#include <vector>

#include "launcher/fill/rendezvous.hpp"

namespace toporun::launcher {

/// What is added for what was left out.
struct FilledIn {
    std::vector<env::Setting> settings;
    std::vector<env::Finding> findings;
    bool meets = false;  ///< the address where ranks meet is among them
};

struct FillOptions {
    std::vector<std::string> leave;  ///< env::Options::leave; `rendezvous` and `ranks` are groups
    bool tf_config = false;          ///< --export-tf-config
};

/// torchrun's variables (PET_*), or those that Python programs read of their place in the job.
/// Nothing that `environment` has set is changed. Pure.
FilledIn fill_in(const Gaps& gaps, const RendezvousFacts& facts, const Environment& environment,
                 const detect::Machine& machine, const env::Plan& plan, const FillOptions& options);

/// Likewise for Gap::ranks alone, where rank 0 listens on `rendezvous`.
FilledIn fill_in_ranks(const Gaps& gaps, const Rendezvous& rendezvous,
                       const Environment& environment, const detect::Machine& machine,
                       const FillOptions& options);

/// Likewise for the shims of a step's node, whose first task this process is: `own` is
/// gaps_of_step(), from which all nodes come to the same.
FilledIn fill_in_node(const Gaps& own, const RendezvousFacts& facts, const Environment& environment,
                      const detect::Machine& machine, const env::Plan& plan,
                      const FillOptions& options);

/// A setting that is exported, or set by the shim in each rank; what `environment` or --leave says
/// comes first.
env::Setting filled_setting(const std::string& name, const std::string& value,
                            const std::string& reason, const std::string& evidence,
                            const std::string& without, bool per_rank,
                            const Environment& environment, const FillOptions& options);

/// `leave` names it.
bool is_left(const FillOptions& options, std::string_view name);

/// `leave` names the group, or one of the variables that would be filled in and without which the
/// others start no job: they are one decision.
bool is_left(const FillOptions& options, const Gaps& gaps, const Environment& environment);

}  // namespace toporun::launcher
