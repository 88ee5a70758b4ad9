#include "launcher/report/estimate.hpp"

#include <fmt/format.h>

#include "launcher/report/tests_view.hpp"

namespace toporun::launcher {

void estimate_in_flight(const CallTimes& times, RunFacts& facts) {
    const auto bandwidth = ring_model_gbytes_per_s(facts.log);
    if (!bandwidth || facts.measured.in_flight) return;
    const auto estimate = times.estimate(*bandwidth);
    if (!estimate) return;
    profiler::Measured& measured = facts.measured;
    measured.label = profiler::Label::estimated;
    measured.in_flight = estimate->share;
    measured.in_flight_smallest = estimate->low;
    measured.in_flight_largest = estimate->high;
    measured.window_seconds = estimate->window_seconds;
    measured.operations = estimate->calls;
    constexpr double kPercent = 100;
    measured.notes.push_back(fmt::format(
        "in-flight share estimated from the transfers alone, {:.1f} to {:.1f} %: {} calls of {} "
        "process{}, by their sizes and NCCL's model of the ring ({:g} GB/s), over {:.1f} s of time "
        "stamps; waiting for late ranks comes on top",
        kPercent * estimate->low, kPercent * estimate->high, estimate->calls, estimate->processes,
        estimate->processes == 1 ? "" : "es", *bandwidth, estimate->window_seconds));
}

}  // namespace toporun::launcher
