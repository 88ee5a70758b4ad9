#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/command/command.hpp"

namespace toporun::launcher {

/// A toporun among those that one launcher has started on this node, one in front of each rank.
struct RankOfNode {
    std::string variable;  ///< that tells a rank its number on the node: "SLURM_LOCALID"
    int local_rank = 0;
    int ranks = 0;  ///< of the launcher on this node; 0 = unknown
};

/// By the variables that launchers give their ranks. Nothing for the only rank of a node and where
/// what they tell does not fit together.
std::optional<RankOfNode> rank_of_node(const Environment& environment);

/// The same where an MPI launcher's process above this one has started it as that rank: variables
/// that somebody left in a shell do not count.
std::optional<RankOfNode> rank_of_mpi(const Environment& environment);

/// What the ranks of a node find out once for all: who comes first looks, the others read what it
/// has found. They meet in
///
///     /tmp/toporun-ranks-UID/PID-START-HOST
///
/// a directory that is this user's alone, named after the process that started the ranks (srun's
/// slurmstepd, mpirun, orted, hydra_pmi_proxy) and the moment when that started: no other step,
/// run or requeued job has the same. A rank uses it for its first command alone. The last one
/// removes it, and the next launcher of this user what ranks that never came have left.
class NodeShare {
  public:
    /// Of a rank that asks by itself.
    NodeShare() = default;
    /// Meets the others, where `environment` says that there are some and they can be met. Not
    /// copied.
    static NodeShare among_ranks(const Environment& environment);

    NodeShare(NodeShare&& other) noexcept;
    NodeShare& operator=(NodeShare&&) = delete;
    /// This rank needs nothing more.
    ~NodeShare();

    /// What `find` says, which one rank calls for all that ask with the same `key`; `what` is a
    /// word for a file name. By itself where nobody has found it in 12 s. A rank that dies in
    /// `find` leaves it to the next; what it throws is this rank's alone. An answer is good for a
    /// minute.
    std::string once(std::string_view what, std::string_view key,
                     const std::function<std::string()>& find) const;

  private:
    std::string directory_;  ///< "" = alone
    RankOfNode rank_;
};

}  // namespace toporun::launcher
