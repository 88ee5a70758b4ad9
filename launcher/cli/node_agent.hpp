#pragma once

#include <string>
#include <vector>

/// toporun on a host that a launcher reached by itself. The first toporun-shim of the job there
/// starts it:
///
///     toporun --node-agent DIRECTORY RANKS WORD...
///
/// DIRECTORY is private to job, user and host, RANKS the number of ranks of this host (-1 unknown).
/// A WORD is KEY=VALUE: `run_directory`, `run` and `hosts` (the run's name and how many hosts
/// report together, the launcher's among them), `launcher`, `nodes`, `open_mpi`, `user_binds`,
/// `binding_given`, `cpu_job`, `loader_workers`, `program` (whose NCCL is looked for),
/// `master_addr` and `master_port` (where rank 0 listens) or `places` (the Slurm step tells),
/// `gpu_bind`, `rank_gpus` (env::Job), `launcher_node` (the launcher's host is a node of the step)
/// and `option`, an option of toporun.
namespace toporun::launcher {

inline constexpr const char* kNodeAgentWord = "--node-agent";

/// Decides for this node, writes shim.plan into DIRECTORY and leaves an observer. The exit status:
/// 0, or 1 where there is no plan.
int node_agent(const std::vector<std::string>& words);

}  // namespace toporun::launcher
