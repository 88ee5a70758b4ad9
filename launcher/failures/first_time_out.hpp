#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "launcher/failures/judge.hpp"

namespace toporun::launcher::failures {

/// What the time-outs of one process group say.
struct GroupTimeOut {
    Event event;
    /// When the first work on which a rank waits began, in seconds of a day that is not told.
    std::optional<double> began_s;
};

/// `01:45:40.183` at the end of a time as it was printed, in seconds of the day.
std::optional<double> clock_of(std::string_view time);

/// Seconds from `b` to `a`, both of a day that is not told and less than half a day apart.
double clock_difference(double a, double b);

/// Position of the one to blame among several groups' time-outs, where one waits for the other:
/// who lags first, then the group whose work began first, then who tells most, then by place.
/// Clocks of nodes differ by up to two seconds: who began so soon after the first, and whose time
/// is not known, may have been the first. The order of the list is of no effect. Must not be empty.
std::size_t first_time_out(const std::vector<GroupTimeOut>& all);

}  // namespace toporun::launcher::failures
