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

    /// Puts this task's report there and returns those of all tasks that have left one, or this
    /// one where the others cannot be met. `ended`: the task's last word. Holds the others off
    /// until the object is gone; they wait for a second at most.
    std::vector<std::string> join(const std::string& report, bool ended);

    /// All tasks have ended: the directory is removed.
    bool complete() const { return complete_; }
    /// The directory could not be used: this task's report stands alone.
    bool alone() const { return alone_; }

    /// This task has left its last word there.
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
