#pragma once

#include <string>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "launcher/command/command.hpp"
#include "launcher/fill/fill_in.hpp"

/// Steps of Slurm as their tasks see them.
namespace toporun::tests {

using launcher::Environment;

/// Variables of task `task` of a step of `each` tasks on every one of `nodes` nodes, n1 to nN.
inline Environment step_task(int nodes, int each, int task, Environment more = {}) {
    const int node = task / each;
    more.insert(
        {{"SLURM_JOB_ID", "4711"},
         {"SLURM_STEP_ID", "2"},
         {"SLURM_JOB_NUM_NODES", std::to_string(nodes)},
         {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
         {"SLURM_STEP_NUM_TASKS", std::to_string(nodes * each)},
         {"SLURM_STEP_TASKS_PER_NODE", std::to_string(each) + "(x" + std::to_string(nodes) + ")"},
         {"SLURM_STEP_NODELIST", "n[1-" + std::to_string(nodes) + "]"},
         {"SLURMD_NODENAME", "n" + std::to_string(node + 1)},
         {"SLURM_PROCID", std::to_string(task)},
         {"SLURM_NODEID", std::to_string(node)},
         {"SLURM_LOCALID", std::to_string(task % each)}});
    return more;
}

/// eth0 10.0.0.<host> with the default route, ib0 10.1.0.<host>, docker0.
inline detect::Machine node_with_interfaces(int host) {
    detect::Machine machine;
    const auto add = [&](const char* name, detect::NicKind kind, const std::string& address) {
        detect::Nic nic;
        nic.name = name;
        nic.kind = kind;
        nic.state = "up";
        nic.addresses = {address};
        nic.os_index = static_cast<int>(machine.nics.size());
        machine.nics.push_back(nic);
    };
    add("lo", detect::NicKind::loopback, "127.0.0.1/8");
    add("docker0", detect::NicKind::bridge, "172.17.0.1/16");
    add("eth0", detect::NicKind::ethernet, "10.0.0." + std::to_string(host) + "/24");
    add("ib0", detect::NicKind::ipoib, "10.1.0." + std::to_string(host) + "/16");
    machine.nics[2].default_route = true;
    return machine;
}

inline launcher::Gaps gaps_of(const std::string& line, const Environment& environment) {
    const FakeHost host;
    const launcher::Command command = launcher::recognise(split(line, ' '), environment, host);
    return find_gaps(command, launcher::variables_of_ranks(command, environment));
}

/// What is exported, and per rank, as "NAME=VALUE NAME=VALUE".
inline std::string exported_text(const launcher::FilledIn& filled) {
    std::vector<std::string> words;
    for (const env::Setting& setting : filled.settings)
        if (setting.exported) words.push_back(setting.name + "=" + *setting.value);
    return join(words, " ");
}

inline bool has_finding(const launcher::FilledIn& filled, const std::string& id) {
    for (const env::Finding& finding : filled.findings)
        if (finding.id == id) return true;
    return false;
}

}  // namespace toporun::tests
