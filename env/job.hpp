#pragma once

#include <optional>
#include <string>
#include <vector>

namespace toporun::env {

/// The shape of a job as far as the command line and the allocation tell it.
struct Job {
    std::string launcher = "plain";     ///< torchrun, openmpi, hydra, srun, plain
    std::optional<int> nodes;           ///< empty = unknown
    std::optional<int> ranks_per_node;  ///< empty = unknown
    /// The command's word for the ranks of this host when it is no number (gpu, auto, cpu); ""
    /// else.
    std::string ranks_word;
    std::string rendezvous;  ///< address or host of the rendezvous; "" = none known
    /// Every worker is certain to start on this host and in this mount namespace.
    bool same_host = false;
    /// The launcher starts ranks on other hosts too. The first shim on each makes that node's plan,
    /// this plan counts for the ranks here: then same_host is true all the same.
    bool other_hosts = false;
    /// The rank shim runs before each worker: binding and per-rank variables are possible.
    bool shim = false;
    /// Why there is no shim, or why workers may start elsewhere, one line; "" = nobody said.
    std::string why_not_here;
    /// The user bound the ranks on the launcher's command line: toporun does not bind.
    bool user_binds = false;
    /// The hosts in the order that the launcher or the allocation gives; empty = not known.
    std::vector<std::string> hosts;
    /// The launcher's words that show each rank other GPUs ("--gpu-bind=single:1"); "" = none.
    std::string gpu_bind;
    /// Why toporun writes no list of GPUs: the launcher or a shell text in front of the ranks has
    /// its own; "" = nothing speaks against it.
    std::string gpu_list_by;
    /// Why it is not known which GPU a rank uses, "" = rank r takes the r-th visible one.
    std::string rank_gpus_unknown;
    /// The command itself is one of the ranks that srun has started on this host, each behind a
    /// toporun of its own; ranks_per_node counts them.
    bool task_of_step = false;
    bool gpu_job_unknown = false;  ///< a plain program: nothing says that it uses GPUs
    /// Loader workers that the command line asks for in each rank, and its words for that
    /// ("--num-workers 2"); empty = it does not say.
    std::optional<int> loader_workers;
    std::string loader_words;
    /// toporun itself writes the number of loader workers into the command.
    bool loader_filled_in = false;
    /// The framework that the command line shows without such words, what to add ({workers} stands
    /// for the number), and what it takes by itself; "" = none is known.
    std::string loader_framework;
    std::string loader_add;
    int loader_default = 0;
    /// torchrun's --nproc-per-node was left out, which means one rank.
    bool ranks_left_out = false;
    bool cpu_job = false;  ///< an option of the program says that it runs on CPUs
    int open_mpi = 0;      ///< the major version of Open MPI's launcher; 0 = another launcher
    /// An option or a parameter says how the launcher binds, `--bind-to none` included.
    bool binding_given = false;
};

}  // namespace toporun::env
