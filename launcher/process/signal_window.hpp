#pragma once

#include <array>
#include <chrono>

namespace toporun::launcher {

/// Decides which signals from processes are passed on to the command. Pure: times come in.
///
/// A signal waits for a window. If the witness, a process in the same group and job step, saw the
/// same signal meanwhile, somebody signalled the whole group and the command has it already.
/// Repeats within the window count once.
class SignalWindow {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `timeout` and slurmstepd signal a process and its group within microseconds; a busy machine
    /// may take milliseconds to run the witness.
    static constexpr std::chrono::milliseconds kLength{50};

    /// The signal arrived here. True: call decide() after kLength. False: it is a repeat.
    bool arrived(int signal, Time now);

    /// The witness saw the signal.
    void witnessed(int signal, Time now);

    /// The window is over: true when the signal is to be passed on.
    bool decide(int signal);

  private:
    struct State {
        bool waiting = false;
        bool seen = false;
        bool seen_before = false;  ///< a sight that has not been used up
        Time seen_at{};
    };
    State* state(int signal);
    std::array<State, 65> states_{};  // Linux signals are 1 to 64
};

}  // namespace toporun::launcher
