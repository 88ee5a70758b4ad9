#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "launcher/command/job_place.hpp"

namespace toporun::launcher {

/// Where the toporuns of one node and run put their reports together: a 0700 directory on the node,
/// found by its name and refused unless it is this user's. Each leaves files of its own there, and
/// nobody waits: who has the turn writes the node's file for all.
class TaskMeeting {
  public:
    /// `run_directory`: runs that write elsewhere meet elsewhere.
    TaskMeeting(const JobPlace& place, const std::string& run_directory,
                const std::string& letters);

    enum class Claim {
        made,        ///< this command is the one of its task in the run
        taken,       ///< an earlier or another command of the task is
        impossible,  ///< the directory cannot be used
    };
    /// Takes this task's place in the run.
    Claim claim();
    /// Gives it back, for a command that did not start.
    void withdraw();

    /// Leaves this task's report. `ended`: its last word. False: the directory cannot be used.
    bool put(const std::string& report, bool ended);

    struct Reports {
        std::vector<std::string> names;  ///< files, by task
        std::vector<std::string> texts;  ///< what they hold
        int ended = 0;                   ///< tasks that have left their last word
    };
    /// What all tasks have left, of each its newest.
    Reports reports() const;
    /// Reports::names of now.
    std::vector<std::string> names() const;

    /// The right to write for all, held until the descriptor is closed or its process ends. Empty
    /// when another task has it for longer than `patience`: it looks at what was left here again.
    Descriptor turn(std::chrono::milliseconds patience) const;

    /// For who has written the last word of all.
    void remove();

    const std::string& path() const { return path_; }

  private:
    bool enter();

    JobPlace place_;
    std::string path_;
};

}  // namespace toporun::launcher
