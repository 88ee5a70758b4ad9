// Where the nodes of a job meet. Sources: torch/distributed/run.py, launcher/api.py and
// elastic/rendezvous/utils.py (parse_rendezvous_endpoint), 1.13 to 2.9.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/preflight/endpoint.hpp"

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

/// A number for the node where the same words run on every node.
void fixed_node_rank(const LaunchLine& line, std::vector<Finding>& findings) {
    if (!line.node_rank || !on_each_node(line)) return;
    if (line.torchrun != nullptr && !static_backend(line)) return;  // c10d ignores it
    const auto rank = to_integer(trim(line.node_rank->value));
    if (!rank) return;
    std::string evidence = fmt::format("{}, {}", line.node_rank->words, line.nodes_words);
    if (line.srun == nullptr) {  // a shell of this task may have filled in the right one
        if (!line.node || rank == *line.node || (line.task && rank == *line.task)) return;
        evidence += fmt::format(", SLURM_NODEID={}", *line.node);
    }
    const bool accelerate = line.accelerate != nullptr;
    const std::string launcher = accelerate ? "accelerate launch" : "torchrun";
    const std::string option = accelerate ? "--machine_rank" : "--node-rank";
    const std::string nodes = accelerate ? "--num_machines" : "--nnodes";
    findings.push_back(
        {"node-rank-fixed", Severity::broken,
         fmt::format("{} is the same node rank on every node of the step", line.node_rank->words),
         evidence,
         "each node takes itself for the same one: 'Address already in use', or all wait for each "
         "other",
         fmt::format("srun --ntasks-per-node=1 bash -c '{} {}={} {}=$SLURM_NODEID ...'", launcher,
                     nodes, line.nodes.value_or(1), option),
         "",
         fmt::format("one srun for all nodes, in single quotes: the batch script itself has "
                     "SLURM_NODEID=0 and SLURM_PROCID=0; with SLURM_HOSTFILE take $SLURM_PROCID{}",
                     accelerate ? "" : "; or --rdzv-backend=c10d, which needs no node rank")});
}

/// Every node of the step would be a job of its own.
void alone_per_node(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.torchrun == nullptr || !on_each_node(line)) return;
    if (!line.standalone && most_nodes(line.nnodes) != 1) return;
    const std::string words = line.standalone ? std::string("--standalone")
                              : line.nnodes   ? line.nnodes->words
                                              : std::string("no --nnodes");
    findings.push_back(
        {"torchrun-alone-per-node", Severity::slow,
         fmt::format("each of the {} nodes runs a job of its own: torchrun is told of one node",
                     *line.nodes),
         fmt::format("{}, {}", words, line.nodes_words),
         "the nodes train the same model side by side and never exchange gradients",
         fmt::format("srun --ntasks-per-node=1 torchrun --nnodes={} --rdzv-backend=c10d "
                     "--rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$MASTER_ADDR:29500 ...",
                     *line.nodes),
         "", fmt::format("with {}; right as it is where separate jobs are meant", kFirstHost)});
}

/// torchrun waits for agents that this step does not start. A step of one task may be one of
/// several.
void too_few_agents(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.torchrun == nullptr || line.standalone || !line.nnodes) return;
    const auto least = positive_count(line.nnodes->value.substr(0, line.nnodes->value.find(':')));
    if (!least || line.tasks.value_or(1) < 2 || *least <= *line.tasks) return;
    findings.push_back(
        {"nnodes-exceed-tasks", Severity::broken,
         fmt::format("torchrun waits for {} nodes, the step starts it {} times", *least,
                     *line.tasks),
         fmt::format("{}, {} tasks ({})", line.nnodes->words, *line.tasks, line.nodes_words),
         "the rendezvous never completes and times out", fmt::format("--nnodes={}", *line.tasks),
         "", "or more nodes for the step"});
}

/// In a batch script without srun: it runs on the first node only.
void without_srun(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.torchrun == nullptr || line.srun != nullptr || line.in_step || !line.job) return;
    const auto allocated =
        said(nullptr, line.environment, {}, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    if (!allocated || allocated->count().value_or(1) < 2) return;
    const auto nodes = line.standalone ? std::optional(1) : most_nodes(line.nnodes);
    if (!nodes) return;
    const bool waits = *nodes > 1;
    findings.push_back(
        {"torchrun-without-srun", waits ? Severity::slow : Severity::note,
         waits
             ? fmt::format("torchrun starts on this node only and waits for {}", line.nnodes->words)
             : fmt::format("torchrun uses one of the {} nodes of the allocation",
                           *allocated->count()),
         allocated->words + ", no SLURM_STEP_ID",
         waits ? "the rendezvous times out unless something else starts the other nodes"
               : "the other nodes stay idle",
         fmt::format("srun --ntasks-per-node=1 toporun torchrun --nnodes={} ...",
                     *allocated->count()),
         ""});
}

/// `option`: the word for torchrun; "" for programs that read MASTER_ADDR.
std::string address_fix(const LaunchLine& line, const std::string& option) {
    if (line.job) return kFirstHost;
    return option.empty() ? "export MASTER_ADDR=HOST" : option;
}

std::string address_remark(const LaunchLine& line, const std::string& option) {
    if (!line.job) return "the first node, as the others reach it";
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

void judge_endpoint(const LaunchLine& line, const Endpoint& endpoint, bool several,
                    const std::string& option, std::vector<Finding>& findings) {
    if (endpoint.host.empty()) return no_host(line, endpoint.words, option, findings);
    if (!several) return;
    if (is_loopback_name(endpoint.host))
        findings.push_back(
            {"rendezvous-loopback", Severity::broken,
             fmt::format("{}: every node of the job would meet itself", endpoint.words),
             endpoint.words, "the other nodes never connect, the start times out",
             address_fix(line, option), "", address_remark(line, option)});
    const auto port = to_integer(endpoint.port);
    if (port && *port == 0)
        findings.push_back(
            {"rendezvous-port-zero", Severity::broken,
             fmt::format("{}: with port 0 the first node takes any, the others do not know it",
                         endpoint.words),
             endpoint.words, "the other nodes never connect, the start times out",
             line.job ? "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))"
                      : "export MASTER_PORT=29500",
             "", "a port that is free on the first node and the same on all"});
}

void torchrun_endpoint(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.standalone) return;
    const auto nodes = most_nodes(line.nnodes);
    const bool several = nodes.value_or(1) > 1;
    const bool given = line.endpoint && !trim(line.endpoint->value).empty();
    if (given)
        return judge_endpoint(line, parse_endpoint(line.endpoint->value, line.endpoint->words),
                              several, "--rdzv-endpoint=$MASTER_ADDR:29500", findings);
    if (static_backend(line) && line.master_address) {
        Endpoint endpoint{std::string(trim(line.master_address->value)), "",
                          line.master_address->words};
        judge_endpoint(line, endpoint, several, "--master-addr=$MASTER_ADDR", findings);
        if (line.master_port && several && !endpoint.host.empty() &&
            !is_loopback_name(endpoint.host))
            judge_endpoint(line, {endpoint.host, line.master_port->value, line.master_port->words},
                           several, "", findings);
        return;
    }
    if (!several) return;
    const std::string option =
        static_backend(line) ? "--master-addr=$MASTER_ADDR" : "--rdzv-endpoint=$MASTER_ADDR:29500";
    findings.push_back(
        {"rendezvous-missing", Severity::broken,
         fmt::format("torchrun is told of {} nodes and not where they meet: it takes {}", *nodes,
                     static_backend(line) ? "127.0.0.1" : "localhost"),
         fmt::format("{}, {}", line.nnodes->words,
                     line.endpoint          ? line.endpoint->words + " is empty"
                     : static_backend(line) ? std::string("no --master-addr, no --rdzv-endpoint")
                                            : std::string("no --rdzv-endpoint")),
         "the other nodes never connect, the start times out", address_fix(line, option), "",
         address_remark(line, option) + "; torchrun does not read MASTER_ADDR by itself"});
}

/// Programs that read MASTER_ADDR and MASTER_PORT themselves.
void master_variables(const LaunchLine& line, std::vector<Finding>& findings) {
    const std::string& launcher = line.command.job.launcher;
    const bool mpi = launcher == "openmpi" || launcher == "hydra";
    const auto nodes = mpi ? line.command.job.nodes : line.nodes;
    if (!mpi && line.srun == nullptr && !(launcher == "plain" && line.in_step)) return;
    if (nodes.value_or(1) < 2) return;
    const auto address = said(nullptr, line.environment, {}, {"MASTER_ADDR"});
    if (address)
        judge_endpoint(line, {std::string(trim(address->value)), "", address->words}, true, "",
                       findings);
    const auto port = said(nullptr, line.environment, {}, {"MASTER_PORT"});
    if (port) judge_endpoint(line, {"host", port->value, port->words}, true, "", findings);
}

}  // namespace

void rendezvous_findings(const LaunchLine& line, std::vector<Finding>& findings) {
    fixed_node_rank(line, findings);
    alone_per_node(line, findings);
    too_few_agents(line, findings);
    without_srun(line, findings);
    if (line.torchrun != nullptr)
        torchrun_endpoint(line, findings);
    else if (line.accelerate == nullptr)
        master_variables(line, findings);
}

}  // namespace toporun::launcher
