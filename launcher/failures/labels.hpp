#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failures/prefix.hpp"

namespace toporun::launcher::failures {

/// Labels before each line of a log that no reader of prefix.hpp knows: `stderr: `, `worker-1  | `,
/// `Feb 14 05:03:41 cn12 python[12]: `, `[1,mpirank:3,algo-1]<stderr>:`. They are learned from a
/// traceback: what stands before its first line stands before its second too.
class Labels {
  public:
    /// Where the label of `line` ends, 0 when it begins with none.
    std::size_t end_of_label(std::string_view line) const;
    bool empty() const { return shapes_.empty() && pending_.empty(); }
    void clear();

    /// `line` ends with the first line of a traceback, behind `label`.
    void suspect(std::string_view label);
    /// The line after it: "" when nothing was suspected, "label" when it has the label, "none" when
    /// it goes on without one (a progress bar stood before the traceback).
    enum class Answer { nothing, labelled, bare };
    Answer confirm(std::string_view line);

    /// Rank, host and stream that the label tells.
    static void tell(std::string_view label, Origin& origin);

  private:
    std::vector<std::string> shapes_;  ///< with 0 for a run of digits
    std::string pending_;
};

}  // namespace toporun::launcher::failures
