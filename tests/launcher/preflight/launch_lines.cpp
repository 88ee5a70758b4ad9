#include "launch_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

namespace toporun::launcher::tests {
namespace {

/// The line as the fix makes it, and its variables: words for srun stand before its program, a
/// launch line with `...` takes what torchrun was given beside it, options of torchrun's stand
/// before its program. Nothing for other texts.
struct Fixed {
    std::vector<std::string> words;
    Environment environment;
};

std::optional<Fixed> apply_fix(const std::string& line, Environment environment,
                               const std::string& fix) {
    const Command command = recognise(split(line, ' '), environment, FakeHost());
    std::vector<std::string> typed = command.argv;
    std::vector<std::string> fixed = split(fix, ' ');
    for (std::string& word : fixed)
        if (const auto at = word.find("$MASTER_ADDR"); at != std::string::npos)
            word.replace(at, 12, "node-a");
    if (fixed.front() == "unset") {
        for (const std::string& name : fixed) environment.erase(name);
        return Fixed{typed, environment};
    }
    const auto insert = [&](std::size_t at, std::size_t from) {
        typed.insert(typed.begin() + static_cast<std::ptrdiff_t>(at),
                     fixed.begin() + static_cast<std::ptrdiff_t>(from), fixed.end());
        return Fixed{typed, environment};
    };
    if (fix.find("bash -c") != std::string::npos || fix.find("toporun") != std::string::npos)
        return std::nullopt;
    if (fixed.back() == "...") {
        fixed.pop_back();
        const auto torchrun = std::find(typed.begin(), typed.end(), "torchrun");
        if (torchrun == typed.end()) return std::nullopt;
        for (const std::string& word : std::vector<std::string>(torchrun + 1, typed.end())) {
            const std::string name = word.substr(0, word.find('='));
            const bool given = std::any_of(fixed.begin(), fixed.end(), [&](const std::string& own) {
                return own.substr(0, own.find('=')) == name;
            });
            if (!given && name != "--standalone") fixed.push_back(word);
        }
        return Fixed{fixed, environment};
    }
    if (fixed.front() == "srun" && typed.front() == "srun" && !command.program_at.empty())
        return insert(command.program_at.front(), 1);
    if (fixed.front().starts_with("--") && fixed.size() == 1 && !command.program_at.empty())
        return insert(command.program_at.front(), 0);
    return std::nullopt;
}

}  // namespace

const std::string kC10d = " --rdzv-backend=c10d --rdzv-endpoint=node-a:29500 t.py";

Environment batch(int nodes, Environment more) {
    more.insert({{"SLURM_JOB_ID", "7"},
                 {"SLURM_NNODES", std::to_string(nodes)},
                 {"SLURM_JOB_NUM_NODES", std::to_string(nodes)},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_NODEID", "0"}});
    return more;
}

Environment task(int nodes, int node, Environment more) {
    more.insert({{"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
                 {"SLURM_STEP_NUM_TASKS", std::to_string(nodes)},
                 {"SLURM_STEP_TASKS_PER_NODE", "1(x" + std::to_string(nodes) + ")"},
                 {"SLURM_PROCID", std::to_string(node)},
                 {"SLURM_NODEID", std::to_string(node)}});
    return batch(nodes, more);
}

detect::Machine node_machine(const char* allowed) {
    detect::Machine machine;
    machine.gpus.resize(2);
    for (const char* pu : {"0", "1", "2", "3"}) {
        detect::Core core;
        core.pus = detect::CpuSet::parse(pu);
        machine.cpu.cores.push_back(core);
    }
    machine.cpu.allowed = detect::CpuSet::parse(allowed);
    return machine;
}

std::vector<env::Finding> findings_of(const std::string& line, const Environment& environment,
                                      const detect::Machine& machine) {
    const Command command = recognise(split(line, ' '), environment, FakeHost());
    return preflight(command, variables_of_ranks(command, environment), machine);
}

int check(const std::vector<Row>& rows, const detect::Machine& machine) {
    int fixes_tried = 0;
    for (const Row& row : rows) {
        CAPTURE(row.line);
        const std::vector<env::Finding> findings = findings_of(row.line, row.environment, machine);
        const auto found =
            std::find_if(findings.begin(), findings.end(),
                         [&](const env::Finding& finding) { return finding.id == row.id; });
        if (row.id.empty()) {
            for (const env::Finding& finding : findings) FAIL_CHECK(finding.id, ": ", finding.what);
            continue;
        }
        REQUIRE(found != findings.end());
        CHECK(severity_text(found->severity) == severity_text(row.severity));
        CHECK(found->what.find(row.what) != std::string::npos);
        CHECK(found->evidence.find(row.evidence) != std::string::npos);
        CHECK_FALSE(found->effect.empty());
        CHECK_FALSE(found->fix.empty());
        const auto fixed = apply_fix(row.line, row.environment, found->fix);
        if (!fixed) continue;
        CAPTURE(join(fixed->words, " "));
        const Command again = recognise(fixed->words, fixed->environment, FakeHost());
        REQUIRE_FALSE(again.launchers.empty());
        for (const env::Finding& left :
             preflight(again, variables_of_ranks(again, fixed->environment), machine, LineFacts()))
            if (left.id == row.id || left.severity == Severity::broken)
                FAIL_CHECK("left: ", left.id, ": ", left.what);
        ++fixes_tried;
    }
    return fixes_tried;
}

}  // namespace toporun::launcher::tests
