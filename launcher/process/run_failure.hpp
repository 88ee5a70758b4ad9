#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/failures/verdict.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// What was seen of a run's end beside its files.
struct RunEnd {
    std::optional<std::uint64_t> oom_kills_before;  ///< of the control group, at the start
    std::optional<std::uint64_t> oom_kills_after;

    /// The last signal that asked the run to end.
    struct Signal {
        int number = 0;
        int count = 0;  ///< how often that came, one after another
        bool by_key = false;
        double before_end_s = 0;
        std::string sender = {};  ///< sender_text() of the last; "" = not known, or a key press
    };
    std::optional<Signal> signal = {};
};

/// The first cause of a run that failed, from NCCL's logs in `log_directory` ("" = none), how the
/// ranks ended and what their error handlers wrote (facts.ranks), the kernel's count of kills and
/// the command's own death. Nothing when it ended with 0, unless a signal
/// came and ranks were killed, and where only its output could tell: that goes to the user's
/// terminal and is not read.
std::optional<failures::Verdict> failure_of_run(const RunFacts& facts,
                                                const std::string& log_directory,
                                                const RunEnd& end);

/// The same for the ranks of a node whose launcher is elsewhere: it failed where one of them did.
std::optional<failures::Verdict> failure_of_node(RunFacts facts, const std::string& log_directory,
                                                 const RunEnd& end);

}  // namespace toporun::launcher
