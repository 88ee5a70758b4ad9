#include "launcher/command/contexts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {

std::vector<Context> read_contexts(const std::vector<std::string>& argv, std::size_t first,
                                   const OptionTable& table) {
    std::vector<Context> contexts;
    while (first <= argv.size()) {
        const auto colon =
            std::find(argv.begin() + static_cast<std::ptrdiff_t>(first), argv.end(), ":");
        const auto end = static_cast<std::size_t>(colon - argv.begin());
        contexts.push_back({scan_options(argv, first, end, table), end});
        if (end == argv.size()) break;
        first = end + 1;
    }
    return contexts;
}

std::string contexts_problem(const std::vector<Context>& contexts) {
    for (const Context& context : contexts) {
        if (!context.scan.problem.empty()) return context.scan.problem;
        if (last_given(context.scan, Meaning::no_launch) != nullptr)
            return "the launcher only prints its help or its version";
        if (const Given* given = last_given(context.scan, Meaning::opaque))
            return fmt::format(
                "the launcher's option '{}' leaves no place for toporun before the ranks",
                given->name);
        if (context.scan.program >= context.end) return "no program was given";
    }
    return {};
}

Command add_programs(Command command, const std::vector<Context>& contexts, const Host& host) {
    std::vector<Environment> sets;
    for (const Context& context : contexts) {
        Environment& set = sets.emplace_back();
        for (const Given& given : context.scan.given)
            if (given.meaning == Meaning::given_variable)
                add_assignments(
                    set, given.second.empty() ? given.value : given.value + "=" + given.second,
                    '\0');
        for (const auto& [name, value] : set) command.given.set[name] = value;
        if (context.scan.program >= context.end || !context.scan.problem.empty()) continue;
        command.program_at.push_back(context.scan.program);
        const std::vector<std::string> words(
            command.argv.begin(), command.argv.begin() + static_cast<std::ptrdiff_t>(context.end));
        if (command.program.empty())
            command.program = innermost_program(words, context.scan.program, host);
    }
    // Each context's GPUs are its own: the last one's are not those of all ranks.
    for (const Environment& set : sets) {
        for (const auto& [name, value] : set) {
            const bool same =
                std::all_of(sets.begin(), sets.end(),
                            [&, &name = name, &value = value](const Environment& one) {
                                const auto found = one.find(name);
                                return found != one.end() && found->second == value;
                            });
            if (same || !name.ends_with("VISIBLE_DEVICES")) continue;
            command.given.set.erase(name);
            command.job.rank_gpus_unknown =
                fmt::format("each part of the command line has a {} of its own", name);
        }
    }
    return command;
}

std::vector<ProgramWord> program_words(const std::vector<Context>& contexts) {
    std::vector<ProgramWord> words;
    for (const Context& context : contexts) {
        const Given* directory = last_given(context.scan, Meaning::directory);
        words.push_back(
            {context.scan.program, context.end, directory == nullptr ? "" : directory->value});
    }
    return words;
}

}  // namespace toporun::launcher
