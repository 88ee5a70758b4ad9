#include "launcher/process/signal_window.hpp"

namespace toporun::launcher {

SignalWindow::State* SignalWindow::state(int signal) {
    if (signal < 1 || signal >= static_cast<int>(states_.size())) return nullptr;
    return &states_.at(static_cast<std::size_t>(signal));
}

bool SignalWindow::arrived(int signal, Time now) {
    State* s = state(signal);
    if (s == nullptr || s->waiting) return false;
    s->waiting = true;
    s->seen = s->seen_before && now - s->seen_at < kLength;
    s->seen_before = false;
    return true;
}

void SignalWindow::witnessed(int signal, Time now) {
    State* s = state(signal);
    if (s == nullptr) return;
    if (s->waiting)
        s->seen = true;
    else
        s->seen_before = true;
    s->seen_at = now;
}

bool SignalWindow::decide(int signal) {
    State* s = state(signal);
    if (s == nullptr || !s->waiting) return false;
    s->waiting = false;
    return !s->seen;
}

}  // namespace toporun::launcher
