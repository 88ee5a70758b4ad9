#include "launcher/command/step.hpp"

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"

namespace toporun::launcher {
namespace {

std::optional<int> place(const Environment& environment, const char* name) {
    const auto number = to_integer(variable(environment, name));
    return number && *number >= 0 && *number < 1 << 20 ? std::optional(static_cast<int>(*number))
                                                       : std::nullopt;
}

/// One part of the run-length form.
struct Run {
    int tasks = 0;  ///< of each of its nodes
    int nodes = 1;
};

std::optional<Run> read_run(std::string_view part) {
    const std::size_t open = part.find("(x");
    if (open != std::string_view::npos && !part.ends_with(')')) return std::nullopt;
    const auto tasks = positive_count(part.substr(0, open));
    const auto nodes = open == std::string_view::npos
                           ? std::optional(1)
                           : positive_count(part.substr(open + 2, part.size() - open - 3));
    if (!tasks || !nodes) return std::nullopt;
    return Run{*tasks, *nodes};
}

}  // namespace

std::optional<int> tasks_on_node(std::string_view text, int node) {
    for (const std::string& part : split(text, ',')) {
        const auto run = read_run(part);
        if (!run) return std::nullopt;
        if (node < run->nodes) return run->tasks;
        node -= run->nodes;
    }
    return std::nullopt;
}

std::optional<int> tasks_on_all_nodes(std::string_view text) {
    long long sum = 0;
    for (const std::string& part : split(text, ',')) {
        const auto run = read_run(part);
        if (!run) return std::nullopt;
        sum += static_cast<long long>(run->tasks) * run->nodes;
        if (sum > 1'000'000) return std::nullopt;
    }
    return static_cast<int>(sum);
}

std::optional<Step> step_of(const Environment& environment) {
    if (variable(environment, "SLURM_STEP_ID").empty()) return std::nullopt;
    Step step;
    step.nodes = positive_count(variable(environment, "SLURM_STEP_NUM_NODES"));
    step.tasks = positive_count(variable(environment, "SLURM_STEP_NUM_TASKS"));
    step.node = place(environment, "SLURM_NODEID");
    step.task = place(environment, "SLURM_PROCID");
    step.local_task = place(environment, "SLURM_LOCALID");
    if (step.node)
        step.tasks_here =
            tasks_on_node(variable(environment, "SLURM_STEP_TASKS_PER_NODE"), *step.node);
    return step;
}

std::optional<Step> task_of_step(const Environment& environment) {
    if (!variable(environment, "SLURM_PTY_PORT").empty()) return std::nullopt;
    const auto step = step_of(environment);
    if (!step || !step->node || !step->task || !step->local_task) return std::nullopt;
    const auto below = [](const std::optional<int>& number, const std::optional<int>& count) {
        return !count || *number < *count;
    };
    const int nodes = step->nodes.value_or(1);
    const int here = step->tasks_here.value_or(1);
    const bool fits = *step->node < nodes && *step->local_task < here &&
                      below(step->task, step->tasks) &&
                      (!step->tasks || (here <= *step->tasks && nodes <= *step->tasks));
    return fits ? step : std::nullopt;
}

}  // namespace toporun::launcher
