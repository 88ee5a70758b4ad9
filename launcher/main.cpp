#include <fcntl.h>

#include <algorithm>
#include <exception>

#include "base/error.hpp"
#include "launcher/cli/arguments.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/cli/node_agent.hpp"
#include "launcher/cli/run.hpp"
#include "launcher/cli/subcommands.hpp"
#include "launcher/command/launch.hpp"
#include "launcher/command/loader_option.hpp"
#include "launcher/process/supervisor.hpp"
#include "launcher/version.hpp"

namespace {

using namespace toporun;
using namespace toporun::launcher;

constexpr int kUsage = 2;
constexpr int kFailedBeforeStart = 125;

/// Keeps descriptors 0 to 2 from being reused when the caller closed them; close-on-exec, so the
/// command gets them closed, as it would without toporun. What a subcommand prints to a closed
/// standard output must fail as on a full disk: that one cannot be written.
void occupy_standard_descriptors() {
    for (int fd = 0; fd < 3; ++fd)
        if (::fcntl(fd, F_GETFD) < 0)
            ::open("/dev/null", (fd == 1 ? O_RDONLY : O_RDWR) | O_CLOEXEC);
}

int print(const std::string& text) {
    try {
        launcher::print(text);
        return 0;
    } catch (const Error& fault) {
        Console().error(fault.what());
        return kUsage;
    }
}

int help(const Arguments& arguments) {
    if (arguments.positional.empty()) return print(help_text(Action::run));
    return print(help_text(subcommand(arguments.positional.front()).value_or(Action::run)));
}

/// The exit status, or ends like the command.
int act(const Arguments& arguments, const Environment& environment,
        const InheritedSignals& inherited) {
    const Console console(2, arguments.quiet);
    if (arguments.action != Action::run) {
        restore_signals(inherited);
        ignore_file_limit();
    }
    switch (arguments.action) {
        case Action::help:
            return help(arguments);
        case Action::version:
            return print(std::string("toporun ") + kVersion + "\n");
        case Action::detect:
            return detect_command(arguments, console);
        case Action::env:
            return env_command(arguments, console);
        case Action::doctor:
            return doctor_command(arguments, console);
        case Action::report:
            return report_command(arguments, console);
        case Action::profiles:
            return profiles_command(arguments, console);
        case Action::run:
            break;
    }
    if (arguments.dry_run) return dry_run(arguments, console);
    if (arguments.preflight_only) return preflight_only(arguments, console);
    const auto off = environment.find("TOPORUN");
    if (off != environment.end() && off->second == "off")
        return exec_command(fill_in_workers(arguments.command, kSafeWorkers), inherited, console);
    exit_like(run_command(arguments, inherited, console));
}

/// The command behind toporun's options runs as typed, after what another toporun has put in front
/// of it has failed. --strict is the user's wish for a refusal.
int step_aside(const std::vector<std::string>& words, const InheritedSignals& inherited,
               const std::string& fault) {
    const auto end = std::find(words.begin(), words.end(), "--");
    if (end == words.end() || end + 1 == words.end() ||
        std::find(words.begin(), end, "--strict") != end) {
        Console().error(fault);
        return kFailedBeforeStart;
    }
    Console().warn(fault + ": the command runs as typed");
    return exec_command(fill_in_workers({end + 1, words.end()}, kSafeWorkers), inherited,
                        Console());
}

}  // namespace

int main(int argc, char** argv) {
    occupy_standard_descriptors();
    const InheritedSignals inherited = take_signals();
    std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    if (!words.empty() && words.front() == kNodeAgentWord) return node_agent(words);
    const bool may_step_aside = !words.empty() && words.front() == kStepAsideWord;
    if (may_step_aside) words.erase(words.begin());
    if (may_step_aside && words.empty()) return 0;
    int failure = kFailedBeforeStart;
    try {
        if (selects_subcommand(words)) failure = kUsage;
        const Environment environment = environment_map();
        return act(parse_arguments(words, environment), environment, inherited);
    } catch (const Error& fault) {
        if (may_step_aside) return step_aside(words, inherited, fault.what());
        Console().error(fault.what(), fault.where(), fault.hint());
    } catch (const std::exception& fault) {
        if (may_step_aside) return step_aside(words, inherited, fault.what());
        Console().error(fault.what());
    }
    return failure;
}
