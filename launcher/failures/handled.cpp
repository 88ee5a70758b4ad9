#include <algorithm>

#include "launcher/failures/judge.hpp"

/// What was dealt with: a program that prints on after an event did not fail by it.
namespace toporun::launcher::failures {
namespace {

bool same_run(const Event& a, const Event& b) {
    return a.place.file == b.place.file && a.attempt == b.attempt;
}

/// Said of the end of the run, or of the program, after the event.
bool ended_well_after(const Event& event, const Evidence& evidence) {
    return std::any_of(
        evidence.successes.begin(), evidence.successes.end(), [&](const Success& success) {
            return success.attempt == event.attempt && (success.launcher || !event.uncaught) &&
                   (success.launcher || success.place.file == event.place.file) &&
                   success.place.order > event.place.order;
        });
}

/// Lines of lost connections after the end: others left earlier, which is in order.
bool ended_well_before(const Event& event, const Evidence& evidence) {
    return std::any_of(
        evidence.successes.begin(), evidence.successes.end(), [&](const Success& success) {
            return success.attempt == event.attempt && success.place.file == event.place.file &&
                   success.place.order < event.place.order;
        });
}

/// The run went on after the event. An exception that looks as if it had ended its program is
/// believed unless something else ended the run later: what a program has printed into a buffer
/// appears behind its traceback.
bool went_on(const Event& event, const std::vector<Event>& events) {
    if (event.went_on == 0) return false;
    if (!event.of_main) return true;
    return std::any_of(events.begin(), events.end(), [&](const Event& other) {
        return same_run(other, event) && other.place.order > event.went_on &&
               (other.role == Role::outside || other.role == Role::external ||
                (other.role == Role::cause && !other.of_main));
    });
}

}  // namespace

void clear_handled(std::vector<Event>& events, const Evidence& evidence) {
    const std::vector<Event> before = events;
    for (Event& event : events) {
        const bool handled =
            may_be_handled(event) && (went_on(event, before) || ended_well_after(event, evidence));
        const bool parting = (event.role == Role::consequence || event.role == Role::lag ||
                              event.role == Role::ambiguous) &&
                             ended_well_before(event, evidence);
        if (handled || parting) event.role = Role::noise;
    }
}

}  // namespace toporun::launcher::failures
