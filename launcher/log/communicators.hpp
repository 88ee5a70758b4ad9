#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/log/collectives.hpp"
#include "launcher/log/members.hpp"

namespace toporun::launcher {

/// The communicators of a run from their members' Init lines and the members' calls.
class CommunicatorTable {
  public:
    /// `groups`: the id of each LogMember::group.
    CommunicatorTable(const std::vector<LogMember>& members, const std::vector<std::string>& groups,
                      const CollectiveCounts& calls);

    /// In order of first appearance.
    std::vector<LogCommunicator> rows() const;

  private:
    struct Row {
        LogCommunicator row;
        std::vector<const CollectiveCounts::Member*> callers;
    };

    Row& row_of(const std::string& id);

    std::vector<Row> rows_;
    std::map<std::string, std::size_t> at_;
};

}  // namespace toporun::launcher
