#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/log/members.hpp"
#include "launcher/log/model.hpp"
#include "launcher/log/processes.hpp"

namespace toporun::launcher {

/// The world communicator of a run (the one with the most ranks) and how ranks of the others map to
/// its ranks. Looks at the model's members, which must outlive it.
class World {
  public:
    World(const std::vector<LogMember>& members, const Processes& processes);

    /// Nothing where all communicators that were seen are parts of one that was not.
    std::optional<int> size() const { return size_; }
    /// Then how many ranks took part at least, else 0.
    int least() const { return least_; }
    std::vector<LogRank> ranks() const;
    /// The rank of a process, when it has exactly one.
    std::optional<int> rank_of(std::size_t process) const;
    /// The pair in global ranks; nothing when its communicator cannot be told.
    std::optional<std::pair<int, int>> global_pair(const LogPair& pair) const;

  private:
    using Member = LogMember;

    void add_world_member(const Member& member);
    bool is_world_pair(const LogPair& pair) const;
    std::optional<int> to_global(const Member& member) const;
    const Member* find(std::size_t group, int rank) const;

    const Processes& processes_;
    std::optional<int> size_;
    int least_ = 0;
    std::map<int, const Member*> world_;                ///< by rank
    std::map<std::size_t, std::set<int>> world_ranks_;  ///< of each process
    std::map<std::size_t, std::vector<const Member*>> memberships_;
    std::map<std::pair<std::size_t, int>, const Member*> by_group_;
};

}  // namespace toporun::launcher
