// Where the nodes of a job meet. Sources: torch/distributed/run.py, launcher/api.py and
// elastic/rendezvous/utils.py (parse_rendezvous_endpoint), 1.13 to 2.9.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"
#include "launcher/preflight/endpoint.hpp"
#include "launcher/preflight/node_launcher.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

constexpr const char* kFirstHost =
    "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n1)";

/// The same words run on several nodes.
bool on_each_node(const LaunchLine& line) {
    return line.nodes.value_or(1) > 1;
}

/// The address is one for every node, or for one that is not the first: the others of a line
/// without srun may be told another one.
bool others_are_told_the_same(const LaunchLine& line) {
    const auto rank = line.node_rank ? to_integer(trim(line.node_rank->value)) : std::nullopt;
    return on_each_node(line) || rank.value_or(0) > 0;
}

/// A number for the node where the same words run on every node.
void fixed_node_rank(const LaunchLine& line, std::vector<Finding>& findings) {
    if (!line.node_rank || !on_each_node(line)) return;
    if (!static_backend(line)) return;  // c10d ignores it
    if (line.torchrun == nullptr && most_nodes(line.nnodes) == 1) return;
    const auto rank = to_integer(trim(line.node_rank->value));
    if (!rank) return;
    std::string evidence = fmt::format("{}, {}", line.node_rank->words, line.nodes_words);
    if (line.srun == nullptr) {  // a shell of this task may have filled in the right one
        if (!line.node || rank == *line.node || (line.task && rank == *line.task)) return;
        evidence += fmt::format(", SLURM_NODEID={}", *line.node);
    }
    const NodeLauncher& launcher = *line.launcher;
    const bool has_c10d = launcher.kind == "torchrun" || launcher.kind == "accelerate";
    std::string fix = start_on_each_node(line, line.nodes);
    if (line.torchrun != nullptr)
        fix = fmt::format("{} bash -c 'torchrun --nnodes={} --node-rank=$SLURM_NODEID ...'",
                          one_task_a_node(line.nodes), line.nodes.value_or(1));
    findings.push_back(
        {"node-rank-fixed", Severity::broken,
         fmt::format("{} is the same node rank on every node of the step", line.node_rank->words),
         evidence,
         "each node takes itself for the same one: 'Address already in use', or all wait for each "
         "other",
         fix, "",
         fmt::format("one srun for all nodes, in single quotes: the batch script itself has "
                     "SLURM_NODEID=0 and SLURM_PROCID=0; with SLURM_HOSTFILE take $SLURM_PROCID{}",
                     !has_c10d                  ? ""
                     : line.torchrun != nullptr ? "; or --rdzv-backend=c10d, which needs no node "
                                                  "rank"
                                                : "; or --rdzv_backend=c10d, which needs no node "
                                                  "rank")});
}

/// Static rendezvous without a node rank on a line that every node runs: each takes 0, or what its
/// node rank is said to be is no node of the job.
void node_rank_left_out(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.launcher == nullptr || line.standalone || !static_backend(line)) return;
    const NodeLauncher& launcher = *line.launcher;
    const auto nodes = most_nodes(line.nnodes);
    if (line.node_rank) {
        const auto rank = to_integer(trim(line.node_rank->value));
        if (!rank || !nodes || *rank < *nodes) return;
        findings.push_back(
            {"node-rank-too-high", Severity::broken,
             fmt::format("{}: {} are numbered from 0 to {}", line.node_rank->words,
                         *nodes == 1 ? std::string("the nodes of a job of 1")
                                     : fmt::format("{} nodes", *nodes),
                         *nodes - 1),
             fmt::format("{}, {}", line.node_rank->words,
                         line.nnodes ? line.nnodes->words : fmt::format("no {}", launcher.nodes)),
             "the start waits for the others and times out, or ends with an error",
             line.node || line.srun != nullptr ? fmt::format("{}=$SLURM_NODEID", launcher.node_rank)
             : line.torchrun != nullptr        ? fmt::format("--nnodes={}", *rank + 1)
                                               : fmt::format("{}=0", launcher.node_rank),
             "",
             fmt::format("each node its own number, from 0 to {}; or as many nodes as there are",
                         *nodes - 1)});
        return;
    }
    // accelerate may have it from a config file that is not seen here.
    if (launcher.kind == "accelerate") return;
    const bool told = line.endpoint || line.master_address || line.torchrun == nullptr;
    if (line.srun == nullptr || !on_each_node(line) || nodes.value_or(1) < 2 || !told) return;
    findings.push_back(
        {"node-rank-missing", Severity::broken,
         fmt::format("no {}: each of the {} nodes takes itself for node 0, or stops",
                     launcher.node_rank, *line.nodes),
         fmt::format("{}, {}{}", line.nnodes->words, line.nodes_words,
                     line.torchrun != nullptr ? ", no --rdzv-backend" : ""),
         "'Address already in use', or all wait for each other",
         start_on_each_node(line, line.nodes), "",
         fmt::format("with {}{}", kFirstHost,
                     line.torchrun != nullptr
                         ? "; c10d needs no node rank; or srun ... toporun torchrun ..., which "
                           "fills it in on each node"
                         : "")});
}

/// Every node of the step would be a job of its own.
void alone_per_node(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.launcher == nullptr || !line.starts_whole_job.empty() || !on_each_node(line)) return;
    if (!line.standalone && most_nodes(line.nnodes) != 1) return;
    const std::string words = line.standalone ? std::string("--standalone")
                              : line.nnodes   ? line.nnodes->words
                              : line.launcher->nodes.empty()
                                  ? std::string("no --hostfile")
                                  : fmt::format("no {}", line.launcher->nodes);
    findings.push_back(
        {"launcher-alone-per-node", Severity::slow,
         fmt::format("each of the {} nodes runs a job of its own: {} is told of one node",
                     *line.nodes, line.launcher->command),
         fmt::format("{}, {}", words, line.nodes_words),
         "the nodes train the same model side by side and never exchange gradients",
         start_on_each_node(line, line.nodes), "",
         fmt::format("with {}; right as it is where separate jobs are meant", kFirstHost)});
}

/// A launcher waits for nodes that this step does not start. A step of one task may be one of
/// several.
void too_few_agents(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.launcher == nullptr || line.standalone || !line.nnodes) return;
    if (!line.starts_whole_job.empty()) return;
    const auto least = positive_count(line.nnodes->value.substr(0, line.nnodes->value.find(':')));
    if (!least || line.tasks.value_or(1) < 2 || *least <= *line.tasks) return;
    findings.push_back(
        {"nnodes-exceed-tasks", Severity::broken,
         fmt::format("{} waits for {} nodes, the step starts it {} times", line.launcher->command,
                     *least, *line.tasks),
         fmt::format("{}, {} tasks ({})", line.nnodes->words, *line.tasks, line.nodes_words),
         "the rendezvous never completes and times out",
         line.launcher->kind == "composer"
             ? std::string("--world_size=RANKS")
             : fmt::format("{}={}", line.launcher->nodes, *line.tasks),
         "", "or more nodes for the step"});
}

/// In a batch script without srun: it runs on the first node only.
void without_srun(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.launcher == nullptr || line.srun != nullptr || line.in_step || !line.job) return;
    if (!line.starts_whole_job.empty()) return;
    const auto allocated =
        said(nullptr, line.environment, {}, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    if (!allocated || allocated->count().value_or(1) < 2) return;
    const auto nodes = line.standalone ? std::optional(1) : most_nodes(line.nnodes);
    if (!nodes) return;
    const bool waits = *nodes > 1;
    findings.push_back(
        {"launcher-without-srun", waits ? Severity::slow : Severity::note,
         waits ? fmt::format("{} starts on this node only and waits for {}", line.launcher->command,
                             line.nnodes->words)
               : fmt::format("{} uses one of the {} nodes of the allocation",
                             line.launcher->command, *allocated->count()),
         allocated->words + ", no SLURM_STEP_ID",
         waits ? "the rendezvous times out unless something else starts the other nodes"
               : "the other nodes stay idle",
         start_on_each_node(line, allocated->count(), true), "",
         line.torchrun != nullptr ? std::string() : fmt::format("with {}", kFirstHost)});
}

/// `option`: the word for torchrun; "" for programs that read MASTER_ADDR.
std::string address_fix(const LaunchLine& line, const std::string& option) {
    if (line.job) return kFirstHost;
    std::string words = option.empty() ? "export MASTER_ADDR=HOST" : option;
    constexpr std::string_view kVariable = "$MASTER_ADDR";  // it is not set there
    if (const std::size_t at = words.find(kVariable); at != std::string::npos)
        words.replace(at, kVariable.size(), "HOST");
    return words;
}

std::string address_remark(const LaunchLine& line, const std::string& option) {
    if (!line.job) return "HOST: the name of the first node, as the others reach it";
    return option.empty() ? "in the job script, before the launch"
                          : fmt::format("in the job script; then {}", option);
}

void no_host(const LaunchLine& line, const std::string& words, const std::string& option,
             std::vector<Finding>& findings) {
    findings.push_back({"rendezvous-no-host", Severity::broken,
                        fmt::format("{} has no host: a variable in it was empty", words), words,
                        "the start ends with an error, or every rank waits",
                        address_fix(line, option), "", address_remark(line, option)});
}

/// How many nodes must meet.
enum class Meet { one, one_or_more, several };

constexpr const char* kNeverConnect = "the other nodes never connect, the start times out";
constexpr const char* kAlone = "the start does not wait for other nodes, and none can join";

Meet meet_of(const LaunchLine& line) {
    if (most_nodes(line.nnodes).value_or(1) < 2) return Meet::one;
    return least_nodes(line.nnodes).value_or(1) < 2 ? Meet::one_or_more : Meet::several;
}

/// Another node could not come to where this one is told to meet.
Severity severity_of(const LaunchLine& line, Meet meet, bool others_same) {
    return meet == Meet::several && (others_same || others_are_told_the_same(line))
               ? Severity::broken
               : Severity::note;
}

void loopback(const LaunchLine& line, const Endpoint& endpoint, Meet meet,
              const std::string& option, std::vector<Finding>& findings) {
    const bool variable = option.empty();  // every rank gets the same
    const Severity severity = severity_of(line, meet, variable);
    findings.push_back(
        {"rendezvous-loopback", severity,
         severity == Severity::broken
             ? fmt::format("{}: every node of the job would meet itself", endpoint.words)
             : fmt::format("{}: no other node can be told the same", endpoint.words),
         endpoint.words,
         meet == Meet::one_or_more      ? kAlone
         : severity == Severity::broken ? kNeverConnect
                                        : "right on the first node alone, where the others are "
                                          "told its name; torch 1.x hands it to their workers too",
         address_fix(line, option), "", address_remark(line, option)});
}

void judge_endpoint(const LaunchLine& line, const Endpoint& endpoint, Meet meet,
                    const std::string& option, std::vector<Finding>& findings) {
    if (endpoint.host.empty()) return no_host(line, endpoint.words, option, findings);
    if (endpoint.host.find_first_of(" \t") != std::string::npos)
        findings.push_back(
            {"rendezvous-not-one-host", Severity::broken,
             fmt::format("{}: more than one word where one host is expected", endpoint.words),
             endpoint.words, "the start ends with an error", address_fix(line, option), "",
             address_remark(line, option) + "; hostname --ip-address prints every address"});
    if (meet == Meet::one) return;
    if (is_loopback_name(endpoint.host)) loopback(line, endpoint, meet, option, findings);
    const auto port = to_integer(endpoint.port);
    if (port && *port == 0)
        findings.push_back(
            {"rendezvous-port-zero", severity_of(line, meet, true),
             fmt::format("{}: with port 0 the first node takes any, the others do not know it",
                         endpoint.words),
             endpoint.words, meet == Meet::several ? kNeverConnect : kAlone,
             line.job ? "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))"
                      : "export MASTER_PORT=29500",
             "", "a port that is free on the first node and the same on all"});
}

/// The launcher is told of several nodes, and not where they meet.
void no_endpoint(const LaunchLine& line, Meet meet, const std::string& option,
                 std::vector<Finding>& findings) {
    if (meet == Meet::one || line.launcher->kind == "deepspeed") return;  // it asks the first host
    const NodeLauncher& launcher = *line.launcher;
    const std::string taken = launcher.default_address.empty() ? "it takes none by itself"
                              : static_backend(line)           ? "it takes 127.0.0.1"
                                                               : "it takes localhost";
    const std::string lacking = line.torchrun == nullptr ? fmt::format("no {}", launcher.address)
                                : static_backend(line)   ? "no --master-addr, no --rdzv-endpoint"
                                                         : "no --rdzv-endpoint";
    const Severity severity = severity_of(line, meet, false);
    findings.push_back(
        {"rendezvous-missing", severity,
         fmt::format("{} is told of {} nodes and not where they meet: {}", launcher.command,
                     printable(line.nnodes->value), taken),
         fmt::format("{}, {}", line.nnodes->words,
                     line.endpoint ? line.endpoint->words + " is empty" : lacking),
         meet == Meet::one_or_more      ? kAlone
         : severity == Severity::broken ? kNeverConnect
                                        : "right on the first node alone, where the others are "
                                          "told its name",
         address_fix(line, option), "",
         address_remark(line, option) +
             (line.torchrun != nullptr ? "; torchrun does not read MASTER_ADDR by itself" : "")});
}

void launcher_endpoint(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.standalone || !line.starts_whole_job.empty()) return;
    const Meet meet = meet_of(line);
    const bool c10d_word = line.torchrun != nullptr;
    const std::string address = fmt::format("{}=$MASTER_ADDR", line.launcher->address);
    const bool given = line.endpoint && !trim(line.endpoint->value).empty();
    if (given)
        return judge_endpoint(line, parse_endpoint(line.endpoint->value, line.endpoint->words),
                              meet, c10d_word ? "--rdzv-endpoint=$MASTER_ADDR:29500" : address,
                              findings);
    if (static_backend(line) && line.master_address) {
        Endpoint endpoint{std::string(trim(line.master_address->value)), "",
                          line.master_address->words};
        judge_endpoint(line, endpoint, meet, address, findings);
        if (line.master_port && meet != Meet::one && !endpoint.host.empty() &&
            !is_loopback_name(endpoint.host))
            judge_endpoint(line, {endpoint.host, line.master_port->value, line.master_port->words},
                           meet, "", findings);
        return;
    }
    no_endpoint(line, meet,
                static_backend(line) || !c10d_word ? address : "--rdzv-endpoint=$MASTER_ADDR:29500",
                findings);
}

/// A rank's program is Python, or a shell that is given Python to start.
bool starts_python(const Command& command) {
    return std::any_of(command.program_at.begin(), command.program_at.end(), [&](std::size_t at) {
        const Peeled peeled = peel_prefixes(command.argv, at);
        if (peeled.shell)
            return std::any_of(command.argv.begin() + static_cast<std::ptrdiff_t>(*peeled.shell),
                               command.argv.end(), [](const std::string& word) {
                                   return word.find("python") != std::string::npos;
                               });
        return is_python(command.program) ||
               (peeled.inner < command.argv.size() && is_python(command.argv[peeled.inner]));
    });
}

/// The launcher's own words hand the variable on: `-x MASTER_ADDR`, `--export=ALL,MASTER_ADDR=a`.
bool hands_on(const Command& command, std::string_view name) {
    const std::size_t end =
        command.program_at.empty() ? command.argv.size() : command.program_at.front();
    return std::any_of(command.argv.begin(),
                       command.argv.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](const std::string& word) { return word.find(name) != word.npos; });
}

/// Whether the ranks read a variable of this name: Open MPI does not hand it on by itself.
bool ranks_read(const LaunchLine& line, std::string_view name) {
    if (hands_on(line.command, name)) return true;
    return line.command.job.launcher != "openmpi" && starts_python(line.command);
}

/// Programs that read MASTER_ADDR and MASTER_PORT themselves.
void master_variables(const LaunchLine& line, std::vector<Finding>& findings) {
    const std::string& launcher = line.command.job.launcher;
    const bool mpi = launcher == "openmpi" || launcher == "hydra";
    const auto nodes = mpi ? line.command.job.nodes : line.nodes;
    if (!mpi && line.srun == nullptr && !(launcher == "plain" && line.in_step)) return;
    if (nodes.value_or(1) < 2) return;
    const auto address = said(nullptr, line.environment, {}, {"MASTER_ADDR"});
    if (address && ranks_read(line, "MASTER_ADDR"))
        judge_endpoint(line, {std::string(trim(address->value)), "", address->words}, Meet::several,
                       "", findings);
    const auto port = said(nullptr, line.environment, {}, {"MASTER_PORT"});
    if (port && ranks_read(line, "MASTER_PORT"))
        judge_endpoint(line, {"host", port->value, port->words}, Meet::several, "", findings);
}

}  // namespace

void rendezvous_findings(const LaunchLine& line, std::vector<Finding>& findings) {
    fixed_node_rank(line, findings);
    node_rank_left_out(line, findings);
    alone_per_node(line, findings);
    too_few_agents(line, findings);
    without_srun(line, findings);
    if (line.launcher != nullptr)
        launcher_endpoint(line, findings);
    else
        master_variables(line, findings);
}

}  // namespace toporun::launcher
