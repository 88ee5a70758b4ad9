#pragma once

#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "launcher/command/job_place.hpp"

namespace toporun::launcher {

/// Where the toporuns of one node and step put their reports together: a 0700 directory on the
/// node, found by its name and refused unless it is this user's. Gone when the last one has ended.
class TaskMeeting {
  public:
    TaskMeeting(const JobPlace& place, const std::string& letters);

    /// Puts this task's report there and returns those of all that have ended, this one first when
    /// it is alone. Holds the others off until the object is gone, for a second at most; whoever
    /// cannot be met is left out.
    std::vector<std::string> join(const std::string& report);

    /// The reports of all tasks are there: the directory is removed.
    bool complete() const { return complete_; }
    /// The directory could not be used: this task's report stands alone.
    bool alone() const { return alone_; }

    /// This task has left a report there.
    static bool has_ended(const JobPlace& place, const std::string& letters);

  private:
    bool enter();

    JobPlace place_;
    std::string path_;
    Descriptor directory_;
    bool complete_ = false;
    bool alone_ = true;
};

}  // namespace toporun::launcher
