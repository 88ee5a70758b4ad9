#include "env/launcher_binding.hpp"

#include <fmt/format.h>

namespace toporun::env {
namespace {

/// Open MPI 4.1 binds the ranks of a job of two or fewer to a core each, of a larger one to a NUMA
/// node each (open-mpi/ompi issues 9773 and 7042; counted over all nodes: orte/mca/rmaps); 5.x
/// binds to cores whatever their number.
bool binds_to_cores(const Job& job) {
    return job.open_mpi >= 5 ||
           (job.ranks_per_node && *job.ranks_per_node * job.nodes.value_or(1) <= 2);
}

std::string binding_default_text(const Job& job) {
    if (job.open_mpi < 5 && !job.ranks_per_node)
        return "Open MPI binds two ranks or fewer to one core each, more to one NUMA node each";
    return fmt::format("Open MPI binds each rank to one {} by default",
                       binds_to_cores(job) ? "core" : "NUMA node");
}

Finding bound_by_default(const Inputs& inputs) {
    const Job& job = inputs.job;
    const bool core = binds_to_cores(job) || !job.ranks_per_node;
    const int nodes = std::max<int>(1, static_cast<int>(inputs.machine.cpu.numa_nodes.size()));
    const int each = job.ranks_per_node ? (*job.ranks_per_node + nodes - 1) / nodes : 0;
    return {"openmpi-default-binding",
            core ? Severity::slow : Severity::note,
            binding_default_text(job),
            "no --bind-to, and no parameter for it",
            !job.ranks_per_node && job.open_mpi < 5
                ? "of two ranks or fewer each shares one core with NCCL's threads and its loader "
                  "workers; more are bound in their order, not by GPU"
            : core ? "the rank, NCCL's threads and the loader workers share one core"
                   : "in the order of the ranks, not by GPU",
            "mpirun --bind-to none",
            "",
            each > 0 ? fmt::format("or --map-by ppr:{}:numa --bind-to numa", each)
                     : "or --bind-to numa"};
}

}  // namespace

Decision decide_launcher_binding(const Inputs& inputs, bool places_ranks) {
    const Job& job = inputs.job;
    if (job.open_mpi == 0) return {};
    const std::string name = job.open_mpi >= 5 ? "PRTE_MCA_hwloc_default_binding_policy"
                                               : "OMPI_MCA_hwloc_base_binding_policy";
    const std::string without = binding_default_text(job);
    Decision decision;
    if (job.binding_given || inputs.options.bind == Bind::none) {
        decision.settings.push_back(
            settle(inputs,
                   left_alone(name,
                              job.binding_given ? "the command line or a parameter says how to bind"
                                                : "switched off (--bind=none)",
                              "", without)));
    } else if (!places_ranks && inputs.machine.gpus.empty()) {
        decision.settings.push_back(
            settle(inputs, left_alone(name,
                                      "without GPUs Open MPI's own binding serves, and toporun "
                                      "places no rank here",
                                      "", without)));
    } else {
        decision.settings.push_back(
            settle(inputs, detected(name, "none",
                                    "what Open MPI binds cannot be divided by GPU: toporun places "
                                    "the ranks, or they keep all CPUs",
                                    "no --bind-to, and no parameter for it", without)));
    }
    const Setting& setting = decision.settings.front();
    if (!job.binding_given && !setting.exported && !setting.value && !inputs.machine.gpus.empty())
        decision.findings.push_back(bound_by_default(inputs));
    return decision;
}

}  // namespace toporun::env
