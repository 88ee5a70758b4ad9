#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// The communicators of a run from their members' Init lines and the members' calls.
class CommunicatorTable {
  public:
    CommunicatorTable(const std::vector<LogModel::Member>& members, const CollectiveCounts& calls);

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
