#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/command/launch.hpp"

namespace toporun::tests {

/// What toporun may do to a command line: nothing but put words in, and take one switch for a
/// module out. Returns what else was done; "" = nothing.
inline std::string touched(const std::vector<std::string>& typed, const launcher::Command& command,
                           const std::vector<std::string>& launched) {
    // Every typed word comes again, in the same order, but for the switch.
    std::size_t dropped = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < typed.size(); ++i) {
        const auto found =
            std::find(launched.begin() + static_cast<std::ptrdiff_t>(at), launched.end(), typed[i]);
        const bool may_go =
            std::any_of(command.edits.begin(), command.edits.end(),
                        [&](const launcher::Edit& edit) { return edit.drop && edit.at == i; });
        if (may_go) {
            ++dropped;
            continue;
        }
        if (found == launched.end()) return "a word is lost: " + typed[i];
        at = static_cast<std::size_t>(found - launched.begin()) + 1;
    }
    if (dropped > 1) return "more than one word is dropped";
    if (command.rewrite != launcher::Rewrite::inserted && !command.assignments_at &&
        launched != typed)
        return "the command line changed without an insertion";
    if (command.assignments_at && command.rewrite != launcher::Rewrite::inserted) {
        // Assignments of env, and the rest as it was.
        const std::size_t rest = typed.size() - std::min(*command.assignments_at, typed.size());
        if (rest == 0 || launched.size() < rest ||
            !std::equal(typed.rbegin(), typed.rbegin() + static_cast<std::ptrdiff_t>(rest),
                        launched.rbegin()))
            return "words stand behind the command of env";
        for (std::size_t i = *command.assignments_at; i + rest < launched.size(); ++i)
            if (launched[i].find('=') == std::string::npos) return "a word that env would run";
    }
    // The words of each program stay together, to its last one.
    for (std::size_t n = 0; n < command.program_at.size(); ++n) {
        const std::size_t first = command.program_at[n];
        const bool last = n + 1 == command.program_at.size();
        std::size_t end = typed.size();
        if (!last)
            end = static_cast<std::size_t>(
                std::find(typed.begin() + static_cast<std::ptrdiff_t>(first), typed.end(), ":") -
                typed.begin());
        if (first > end) return "a program behind its end";
        const std::vector<std::string> words(typed.begin() + static_cast<std::ptrdiff_t>(first),
                                             typed.begin() + static_cast<std::ptrdiff_t>(end));
        if (std::search(launched.begin(), launched.end(), words.begin(), words.end()) ==
            launched.end())
            return "the words of a program are not together: " + words.front();
        if (last && (launched.size() < words.size() ||
                     !std::equal(words.rbegin(), words.rend(), launched.rbegin())))
            return "the program's words are not the last ones: " + words.front();
    }
    return {};
}

}  // namespace toporun::tests
