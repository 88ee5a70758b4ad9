#include "env/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.hpp"
#include "env/port_roles.hpp"

namespace toporun::env {
namespace {

using detect::Core;
using detect::CpuSet;

// A share of its own below this starves a GPU rank that loads data: its main thread, autograd's,
// NCCL's progress thread and the loader workers, of which most programs start two or more
// (reference values: Megatron-LM 2, PyTorch's examples 4).
constexpr int kCoresOfGpuRank = 4;

std::string plural(int count, std::string_view word) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

const detect::Gpu& gpu_of(const Inputs& inputs, const RankPlacement& rank) {
    return inputs.machine.gpus[static_cast<std::size_t>(*rank.gpu)];
}

/// Several ranks share a GPU on purpose, by MPS or NCCL's own switch.
bool shares_gpus(const Inputs& inputs) {
    return inputs.user.variable("CUDA_MPS_PIPE_DIRECTORY") ||
           nccl_integer(user_value(inputs, "NCCL_MULTI_RANK_GPU_ENABLE").value_or("0")) != 0;
}

/// Why it is not known which GPU a rank uses; "" when it is.
std::string gpus_unknown(const Job& job) {
    if (job.gpu_bind.empty()) return job.rank_gpus_unknown;
    return fmt::format("each task sees GPUs of its own ({}): which is not known before it starts",
                       job.gpu_bind);
}

/// Ranks with their GPUs. As many ranks as GPUs or fewer: rank r drives the r-th visible one, as
/// every framework has it; ranks that share GPUs go round (local rank modulo devices).
std::vector<RankPlacement> ranks_of(const Inputs& inputs, int count) {
    std::vector<RankPlacement> ranks;
    const std::size_t gpus = inputs.visible.size();
    const bool fit = static_cast<std::size_t>(count) <= gpus;
    const bool with_gpus = gpus > 0 && !inputs.job.cpu_job && gpus_unknown(inputs.job).empty() &&
                           (fit || shares_gpus(inputs));
    const std::vector<std::vector<std::string>> devices = nearest_devices(inputs);
    for (int i = 0; i < count; ++i) {
        RankPlacement rank;
        rank.local_rank = i;
        if (with_gpus) {
            rank.gpu = inputs.visible[static_cast<std::size_t>(i) % gpus];
            const detect::Gpu& gpu = gpu_of(inputs, rank);
            rank.numa_node = gpu.numa_node ? gpu.numa_node : numa_node_of(inputs.machine, gpu.cpus);
            rank.nics = devices[static_cast<std::size_t>(*rank.gpu)];
        }
        ranks.push_back(std::move(rank));
    }
    return ranks;
}

std::vector<Place> places_of(const Inputs& inputs, const std::vector<RankPlacement>& ranks) {
    std::vector<Place> places;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const CpuSet near =
            ranks[rank].gpu ? cpus_near_gpu(inputs.machine, gpu_of(inputs, ranks[rank])) : CpuSet();
        auto place = std::find_if(places.begin(), places.end(),
                                  [&](const Place& known) { return known.near == near; });
        if (place == places.end()) place = places.insert(places.end(), Place{near, {}});
        place->ranks.push_back(rank);
    }
    return places;
}

/// The allowed cores shared out: among the places, and within each among its ranks.
class Division {
  public:
    Division(const Inputs& inputs, PlacementDecision& decision)
        : inputs_(inputs),
          decision_(decision),
          cores_(allowed_cores(inputs.machine)),
          all_told_(tells_all_cores(inputs.machine)) {
        for (Place& place : places_of(inputs, decision.ranks)) add(std::move(place));
        shares_ = share_among_places(cores_, places_);
    }

    /// Decides and fills in the ranks; returns why there is nothing to bind, "" when there is.
    std::string share_out() {
        if (cores_.empty()) return "the CPUs that this job may use are not known";
        decision_.cores_each = cores_each();
        if (places_.empty()) return "no rank may use a CPU near its GPU";
        const bool core = takes_shares();
        decision_.bind = core ? Bind::core : Bind::numa;
        for (std::size_t i = 0; i < places_.size(); ++i) fill(i, core);
        const bool any = std::any_of(decision_.ranks.begin(), decision_.ranks.end(),
                                     [](const RankPlacement& rank) { return !rank.cpus.empty(); });
        if (any) return "";
        decision_.bind = Bind::none;
        return nothing_to_bind();
    }

    const std::string& why() const { return why_; }

  private:
    /// A place takes part unless the mask of the job leaves too little of it.
    void add(Place place) {
        if (place.near.empty() && !all_told_) return;  // what is told is near others
        const auto here = static_cast<int>(near(place).size());
        const auto ranks = static_cast<int>(place.ranks.size());
        const auto all = static_cast<int>(cores_.size());
        const bool elsewhere = all >= 2 * static_cast<int>(decision_.ranks.size());
        const bool cut = !place.near.empty() && inputs_.options.bind == Bind::automatic &&
                         !inputs_.machine.cpu.allowed.contains(place.near);
        const bool few = cut && here < 2 * ranks && elsewhere;
        if (here > 0 && !few) {
            places_.push_back(std::move(place));
            return;
        }
        if (cores_.empty() || !inputs_.job.ranks_per_node) return;
        const RankPlacement& rank = decision_.ranks[place.ranks.front()];
        std::string which = fmt::format("rank {} may", rank.local_rank);
        if (ranks > 1) which = fmt::format("rank {} and {} more may", rank.local_rank, ranks - 1);
        decision_.findings.push_back(
            {"gpu-cpus-not-allowed", Severity::slow,
             here == 0
                 ? fmt::format("{} not use any CPU near {} GPU", which, ranks > 1 ? "their" : "its")
                 : fmt::format("{} use only {} near {} GPU", which, plural(here, "core"),
                               ranks > 1 ? "their" : "its"),
             fmt::format("near: {}; allowed: {}", place.near.text(),
                         inputs_.machine.cpu.allowed.text()),
             "its host memory and its loaders are on another NUMA node",
             "widen the CPU set of the job (cpuset, --cpu-bind=none, taskset)", ""});
    }

    std::vector<Core> near(const Place& place) const {
        return place.near.empty() ? cores_ : within(cores_, place.near);
    }

    /// Cores of the smallest share of a rank that is placed.
    int least_share() const {
        std::size_t least = cores_.size() / decision_.ranks.size();
        for (std::size_t i = 0; i < places_.size(); ++i) {
            const std::size_t share = shares_[i].size() / places_[i].ranks.size();
            least = i == 0 ? share : std::min(least, share);
        }
        return std::max(1, static_cast<int>(least));
    }

    /// What each rank can count on: those that keep their mask have their part of the whole.
    int cores_each() const {
        std::size_t placed = 0;
        for (const Place& place : places_) placed += place.ranks.size();
        if (placed == decision_.ranks.size() && inputs_.options.bind != Bind::none)
            return least_share();
        const auto part = static_cast<int>(cores_.size() / decision_.ranks.size());
        if (inputs_.options.bind == Bind::none) return std::max(1, part);
        return std::max(1, std::min(least_share(), part));
    }

    /// What a rank wants for itself before it is worth to keep the others out.
    int wanted() const {
        const std::optional<int> workers = announced_workers(inputs_);
        const bool gpu = decision_.ranks.front().gpu.has_value();
        if (workers) return std::max(gpu ? 2 : 1, std::min(*workers, 1 << 20) + 1);
        return gpu ? kCoresOfGpuRank : 1;
    }

    /// A share for each rank rather than the place for all of its ranks. Sets why_.
    bool takes_shares() {
        for (std::size_t i = 0; i < places_.size(); ++i) {
            if (shares_[i].size() >= places_[i].ranks.size()) continue;
            why_ = fmt::format("{} on {}: sharing is left to the kernel",
                               plural(static_cast<int>(places_[i].ranks.size()), "rank"),
                               plural(static_cast<int>(near(places_[i]).size()), "core"));
            return false;
        }
        const int each = least_share();
        const std::optional<int> workers = announced_workers(inputs_);
        if (inputs_.options.bind == Bind::numa || inputs_.options.bind == Bind::core) {
            why_ = fmt::format("as asked (--bind={})",
                               inputs_.options.bind == Bind::core ? "core" : "numa");
            return inputs_.options.bind == Bind::core;
        }
        const bool enough = each >= wanted();
        const std::string needs =
            workers ? fmt::format("a rank and its {}", plural(*workers, "loader worker"))
                    : fmt::format("a rank whose loader workers are not known");
        why_ = enough
                   ? fmt::format("{} of its own are enough for {}", plural(each, "core"), needs)
                   : fmt::format("{} of its own would be few for {}", plural(each, "core"), needs);
        return enough;
    }

    /// Fills in the CPUs of the ranks of one place.
    void fill(std::size_t index, bool core) {
        const Place& place = places_[index];
        const auto shares = divide_cores(shares_[index], static_cast<int>(place.ranks.size()));
        const CpuSet all = pus_of(cores_);
        const CpuSet here = pus_of(near(place));
        for (std::size_t i = 0; i < place.ranks.size(); ++i) {
            RankPlacement& rank = decision_.ranks[place.ranks[i]];
            if (core)
                rank.cpus = pus_of(shares[i]);
            else if (here != all)
                rank.cpus = here;
            else if (!shares.empty())
                rank.cpus = nodes_around(pus_of(shares[i]));
            if (rank.cpus == all && !core) rank.cpus = {};
            const std::optional<int> node = numa_node_of(inputs_.machine, rank.cpus);
            if (!rank.numa_node) rank.numa_node = node;
            rank.memory_node = memory_node(node);
        }
    }

    /// The allowed PUs of every NUMA node that `cpus` touch: what a rank without a place shares.
    CpuSet nodes_around(const CpuSet& cpus) const {
        CpuSet around = cpus;
        for (const detect::NumaNode& node : inputs_.machine.cpu.numa_nodes)
            if (!(node.cpus & cpus).empty()) around = around | node.cpus;
        return around & pus_of(cores_);
    }

    /// There is a choice of memory, and this node has some.
    std::optional<int> memory_node(std::optional<int> node) const {
        const auto& nodes = inputs_.machine.cpu.numa_nodes;
        if (!node || nodes.size() < 2) return std::nullopt;
        for (const detect::NumaNode& one : nodes)
            if (one.os_index == *node && one.memory_bytes == 0) return std::nullopt;
        return node;
    }

    std::string nothing_to_bind() const {
        if (inputs_.options.bind == Bind::numa)
            return fmt::format("with --bind=numa the ranks share all {}",
                               plural(static_cast<int>(cores_.size()), "core"));
        return why_.find("left to the kernel") != std::string::npos
                   ? why_
                   : fmt::format("{}: the ranks share all {}", why_,
                                 plural(static_cast<int>(cores_.size()), "core"));
    }

    const Inputs& inputs_;
    PlacementDecision& decision_;
    std::vector<Core> cores_;
    bool all_told_ = true;
    std::vector<Place> places_;
    std::vector<std::vector<Core>> shares_;
    std::string why_;
};

/// The variable of the user that names CPUs for threads one by one; "" when none does.
std::string names_cpus(const Inputs& inputs) {
    constexpr std::array<std::pair<const char*, std::string_view>, 3> kVariables = {
        {{"GOMP_CPU_AFFINITY", ""}, {"OMP_PLACES", "{"}, {"KMP_AFFINITY", "proclist"}}};
    for (const auto& [name, sign] : kVariables) {
        const auto value = inputs.user.variable(name);
        if (value && !value->empty() && value->find(sign) != std::string::npos) return name;
    }
    return "";
}

std::string binding_obstacle(const Inputs& inputs) {
    if (inputs.options.bind == Bind::none) return "switched off (--bind=none)";
    if (inputs.job.user_binds) return "the command line binds the ranks already";
    if (const std::string name = names_cpus(inputs); !name.empty())
        return name + " names the CPUs already";
    if (!inputs.job.same_host && !inputs.job.why_not_here.empty()) return inputs.job.why_not_here;
    if (!inputs.job.ranks_per_node) return ranks_unknown_text(inputs.job);
    if (*inputs.job.ranks_per_node == 1) return "one rank: all its CPUs are its own";
    if (!inputs.job.shim)
        return inputs.job.why_not_here.empty() ? "toporun is not in front of the ranks"
                                               : inputs.job.why_not_here;
    if (!inputs.job.same_host) return not_here_text(inputs.job);
    return inputs.visible.empty() ? "" : gpus_unknown(inputs.job);
}

/// A task of a Slurm step that has CPUs of its own: its mask holds as many as were asked for a
/// task, or no more than its part of the step's CPUs on this node. Slurm counts PUs, or cores where
/// the site says so; then the mask is divided once more, which is never too much.
bool has_own_mask(const Inputs& inputs) {
    const auto number = [&](const char* name) {
        return to_integer(inputs.user.variable(name).value_or(""));
    };
    const int ranks = inputs.job.ranks_per_node.value_or(1);
    const long long mask = inputs.machine.cpu.allowed.count();
    if (!inputs.job.task_of_step || ranks < 2 || mask == 0) return false;
    if (const auto here = number("SLURM_CPUS_ON_NODE")) return mask * ranks <= *here;
    return number("SLURM_CPUS_PER_TASK") == mask;
}

}  // namespace

std::optional<int> announced_workers(const Inputs& inputs) {
    if (inputs.job.loader_workers) return inputs.job.loader_workers;
    const auto text = inputs.user.variable("TOPORUN_NUM_WORKERS");
    const auto number = text ? to_integer(*text) : std::nullopt;
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
    return static_cast<int>(*number);
}

PlacementDecision decide_placement(const Inputs& inputs) {
    PlacementDecision decision;
    const auto& known = inputs.job.ranks_per_node;
    const int ranks = known ? *known : static_cast<int>(inputs.visible.size());
    decision.reason = binding_obstacle(inputs);
    if (ranks < 1 || ranks > kMostRanks) {
        if (known) decision.reason = fmt::format("{} ranks on this host make no sense", ranks);
        return decision;
    }
    decision.ranks = ranks_of(inputs, ranks);
    decision.own_mask = has_own_mask(inputs);
    if (known == 1 || decision.own_mask) {
        decision.cores_each = static_cast<int>(allowed_cores(inputs.machine).size());
        return decision;
    }
    Division division(inputs, decision);
    const std::string failed = division.share_out();
    if (decision.reason.empty()) decision.reason = failed.empty() ? division.why() : failed;
    decision.binds = failed.empty() && binding_obstacle(inputs).empty();
    if (!decision.binds) decision.bind = Bind::none;
    return decision;
}

}  // namespace toporun::env
