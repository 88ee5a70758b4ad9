// Sources: torch/distributed/run.py, 1.13 to 2.9; accelerate/utils/launch.py
// (prepare_multi_gpu_env); deepspeed/launcher/runner.py; composer/cli/launcher.py;
// lightning/fabric/cli.py (_torchrun_launch).
#include "launcher/preflight/node_launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launcher/command/families.hpp"

namespace toporun::launcher {
namespace {

constexpr std::array kNodeLaunchers = {
    NodeLauncher{"torchrun", "torchrun", "--nnodes", "--nproc-per-node", "--node-rank",
                 "--master-addr", "29500", "127.0.0.1"},
    NodeLauncher{"accelerate", "accelerate launch", "--num_machines", "--num_processes",
                 "--machine_rank", "--main_process_ip", "29500", ""},
    NodeLauncher{"deepspeed", "deepspeed", "", "--num_gpus", "--node_rank", "--master_addr",
                 "29500", "127.0.0.1"},
    NodeLauncher{"composer", "composer", "--world_size", "--nproc", "--node_rank", "--master_addr",
                 "", ""},
    NodeLauncher{"fabric", "fabric run", "--num-nodes", "--devices", "--node-rank",
                 "--main-address", "29400", "127.0.0.1"},
};

using Names = std::initializer_list<const char*>;

/// Of an option of the launcher, else of a variable.
std::optional<Said> told(const LaunchLine& line, Names options, Names variables = {}) {
    return said(line.launcher_options, line.environment, options, variables);
}

Said all_gpus(const NodeLauncher& launcher) {
    return {"gpu", fmt::format("no {}", launcher.ranks)};
}

/// `total` shared out over `parts`, where both are known; a text that is no number else.
std::string quotient(const std::optional<Said>& total, const std::optional<Said>& parts) {
    const auto all = total ? total->count() : std::nullopt;
    const auto shares = parts ? parts->count() : std::nullopt;
    return all && shares && *all % *shares == 0 ? fmt::to_string(*all / *shares) : "unknown";
}

void read_torchrun(LaunchLine& line) {
    line.nnodes = told(line, {"nnodes"}, {"PET_NNODES"});
    line.nproc = told(line, {"nproc-per-node"}, {"PET_NPROC_PER_NODE"});
    line.node_rank = told(line, {"node-rank"}, {"PET_NODE_RANK"});
    line.backend = told(line, {"rdzv-backend"}, {"PET_RDZV_BACKEND"});
    line.endpoint = told(line, {"rdzv-endpoint"}, {"PET_RDZV_ENDPOINT"});
    line.master_address = told(line, {"master-addr"}, {"PET_MASTER_ADDR"});
    line.master_port = told(line, {"master-port"}, {"PET_MASTER_PORT"});
    const auto standalone = told(line, {"standalone"}, {"PET_STANDALONE"});
    line.standalone =
        standalone && (standalone->option || to_integer(trim(standalone->value)).value_or(0) != 0);
}

/// Its rendezvous is that of torchrun, by other names.
void read_accelerate(LaunchLine& line) {
    line.nnodes = told(line, {"num-machines"});
    line.node_rank = told(line, {"machine-rank"});
    line.backend = told(line, {"rdzv-backend"});
    line.master_address = told(line, {"main-process-ip"});
    line.master_port = told(line, {"main-process-port"});
    if (const auto total = told(line, {"num-processes"})) {
        line.nproc = Said{line.nnodes ? quotient(total, line.nnodes) : total->value, total->words};
        if (line.nnodes) line.nproc->words += ", " + line.nnodes->words;
    } else {
        line.nproc = all_gpus(*line.launcher);
    }
    const bool c10d = line.backend && trim(line.backend->value) == "c10d";
    if (!c10d || !line.master_address) return;
    const std::string port = line.master_port ? line.master_port->value : "29500";
    line.endpoint = Said{line.master_address->value + ":" + port, line.master_address->words};
    if (line.master_port) line.endpoint->words += " " + line.master_port->words;
}

/// Without a host file it starts the ranks of its own node alone, whatever address it is told.
void read_deepspeed(LaunchLine& line) {
    const bool own_node = told(line, {"no-ssh"}).has_value();
    const auto hosts = told(line, {"hostfile", "H"});
    if (hosts && !own_node) line.starts_whole_job = "deepspeed with " + hosts->words;
    line.nproc = told(line, {"num-gpus", "num-accelerators"});
    const auto filter = told(line, {"include", "i", "exclude", "e"});
    if (!line.nproc)
        line.nproc = filter ? Said{"unknown", filter->words} : all_gpus(*line.launcher);
    if (!hosts) return;
    line.nnodes = told(line, {"num-nodes"});
    if (!line.nnodes) line.nnodes = Said{"unknown", hosts->words};
    line.node_rank = told(line, {"node-rank"});
    line.master_address = told(line, {"master-addr"});
    line.master_port = told(line, {"master-port"});
}

/// The node of the first global rank, where every node has as many; `nproc` is told.
std::optional<Said> composer_node(const LaunchLine& line) {
    auto node = told(line, {"base-rank"}, {"BASE_RANK"});
    if (!node) return std::nullopt;
    const auto first = to_integer(trim(node->value));
    const auto ranks = line.nproc ? line.nproc->count() : std::nullopt;
    const bool whole = first && ranks && *first % *ranks == 0;
    node->value = whole ? fmt::to_string(*first / *ranks) : "unknown";
    return node;
}

void read_composer(LaunchLine& line) {
    line.nproc = told(line, {"n", "nproc"}, {"LOCAL_WORLD_SIZE"});
    const auto total = told(line, {"world-size"}, {"WORLD_SIZE"});
    if (total) {
        line.nnodes = Said{quotient(total, line.nproc), total->words};
        if (line.nproc) line.nnodes->words += ", " + line.nproc->words;
    }
    if (!line.nproc) line.nproc = all_gpus(*line.launcher);
    line.node_rank = told(line, {"node-rank"}, {"NODE_RANK"});
    if (!line.node_rank) line.node_rank = composer_node(line);
    line.master_address = told(line, {"master-addr"}, {"MASTER_ADDR"});
    line.master_port = told(line, {"master-port"}, {"MASTER_PORT"});
}

void read_fabric(LaunchLine& line) {
    line.nnodes = told(line, {"num-nodes"});
    line.nproc = told(line, {"devices"});
    if (line.nproc && line.nproc->value.find(',') != std::string::npos)  // a list
        line.nproc->value = fmt::to_string(split(line.nproc->value, ',').size());
    else if (line.nproc && line.nproc->value == "-1")
        line.nproc->value = "gpu";
    line.node_rank = told(line, {"node-rank"});
    line.master_address = told(line, {"main-address"});
    line.master_port = told(line, {"main-port"});
}

}  // namespace

const NodeLauncher* node_launcher(std::string_view kind) {
    const auto found =
        std::find_if(kNodeLaunchers.begin(), kNodeLaunchers.end(),
                     [&](const NodeLauncher& launcher) { return launcher.kind == kind; });
    return found == kNodeLaunchers.end() ? nullptr : &*found;
}

void read_node_launcher(LaunchLine& line) {
    const std::string_view kind = line.launcher->kind;
    if (kind == "torchrun") read_torchrun(line);
    if (kind == "accelerate") read_accelerate(line);
    if (kind == "deepspeed") read_deepspeed(line);
    if (kind == "composer") read_composer(line);
    if (kind == "fabric") read_fabric(line);
}

std::string start_on_each_node(const LaunchLine& line, std::optional<int> nodes, bool toporun) {
    const NodeLauncher& launcher = *line.launcher;
    const std::string srun = one_task_a_node(nodes);
    const std::string count = nodes ? fmt::to_string(*nodes) : std::string("$SLURM_JOB_NUM_NODES");
    if (launcher.kind == "torchrun" && toporun)
        return fmt::format("{} toporun torchrun --nnodes={} ...", srun, count);
    if (launcher.kind == "torchrun")
        return fmt::format(
            "{} torchrun --nnodes={} --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID "
            "--rdzv-endpoint=$MASTER_ADDR:29500 ...",
            srun, count);
    std::string told = fmt::format("{}={}", launcher.nodes, count);
    if (launcher.kind == "deepspeed") told = "--hostfile=HOSTS --no_ssh";
    if (launcher.kind == "composer") {
        const auto ranks = line.nproc ? line.nproc->count() : std::nullopt;
        told = fmt::format("{}={}", launcher.nodes,
                           nodes && ranks ? fmt::to_string(*nodes * *ranks) : "RANKS");
        if (ranks) told += fmt::format(" {}={}", launcher.ranks, *ranks);
    }
    return fmt::format("{} bash -c '{}{} {} {}=$SLURM_NODEID {}=$MASTER_ADDR ...'", srun,
                       toporun ? "toporun " : "", launcher.command, told, launcher.node_rank,
                       launcher.address);
}

}  // namespace toporun::launcher
