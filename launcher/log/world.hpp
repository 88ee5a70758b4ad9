#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// The world communicator of a run (the one with the most ranks) and how ranks of the others map to
/// its ranks. Looks at the model's members, which must outlive it.
class World {
  public:
    explicit World(const std::vector<LogModel::Member>& members);

    std::optional<int> size() const { return size_; }
    std::vector<LogRank> ranks() const;
    /// The rank of a process, when it has exactly one.
    std::optional<int> rank_of(const std::string& host, std::int64_t pid) const;
    /// The pair in global ranks; nothing when its communicator cannot be told.
    std::optional<std::pair<int, int>> global_pair(const LogModel::Pair& pair) const;

  private:
    using Member = LogModel::Member;
    using Process = std::pair<std::string, std::int64_t>;

    void add_world_member(const Member& member);
    bool is_world_pair(const LogModel::Pair& pair) const;
    std::optional<int> to_global(const Member& member) const;
    const Member* find(const std::string& group, int rank) const;

    std::optional<int> size_;
    std::map<int, const Member*> world_;            ///< by rank
    std::map<Process, std::set<int>> world_ranks_;  ///< of each process
    std::map<Process, std::vector<const Member*>> memberships_;
    std::map<std::pair<std::string, int>, const Member*> by_group_;
};

}  // namespace toporun::launcher
