// Sources: torch/distributed/rendezvous.py (env://: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT);
// TensorFlow, "Multi-worker training with Keras" (TF_CONFIG).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "env/filled_in.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/step.hpp"
#include "launcher/fill/fill_in.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

struct Value {
    const char* name;
    std::string text;
};

/// What names the rank's place. The shim knows it per rank.
std::array<Value, 4> places(const Gaps& gaps) {
    if (gaps.by_shim)
        return {{{"RANK", "{rank}"},
                 {"WORLD_SIZE", "{world_size}"},
                 {"LOCAL_RANK", "{local_rank}"},
                 {"LOCAL_WORLD_SIZE", "{local_size}"}}};
    return {{{"RANK", std::to_string(gaps.task)},
             {"WORLD_SIZE", std::to_string(*gaps.tasks)},
             {"LOCAL_RANK", std::to_string(gaps.local_task)},
             {"LOCAL_WORLD_SIZE", std::to_string(gaps.tasks_here)}}};
}

/// Somebody has set another place: of an outer launcher, or the same for every rank.
bool another_place(const Gaps& gaps, const Environment& environment) {
    for (const Value& value : places(gaps)) {
        const auto set = environment.find(value.name);
        if (set != environment.end() && set->second != value.text) return true;
    }
    return false;
}

std::size_t visible_gpus(const Environment& environment, const detect::Machine& machine) {
    const auto list = environment.find("CUDA_VISIBLE_DEVICES");
    if (list == environment.end()) return machine.gpus.size();
    return list->second.empty() ? 0 : split(list->second, ',').size();
}

/// One task a node that sees several GPUs may start the ranks of its node itself.
bool starts_ranks_itself(const Gaps& gaps, const Environment& environment,
                         const detect::Machine& machine) {
    const bool one = gaps.by_shim ? gaps.one_task : gaps.tasks_here == 1;
    return one && visible_gpus(environment, machine) > 1;
}

/// Each task sees fewer GPUs than its node has tasks (--gpus-per-task): device LOCAL_RANK is not
/// there, and what reads no LOCAL_RANK takes device 0. Without the variables it runs as it does
/// without toporun, with some of them alone it would not.
bool lacks_device(const Gaps& gaps, const Environment& environment,
                  const detect::Machine& machine) {
    if (gaps.by_shim) return gaps.own_gpus;
    const std::size_t gpus = visible_gpus(environment, machine);
    return gpus > 0 && gpus < static_cast<std::size_t>(gaps.tasks_here);
}

/// A worker of each rank in rank order, "host:port"; empty where the order is not certain. Ports
/// are those behind the rendezvous's.
std::vector<std::string> workers(const Gaps& gaps, int port, const Environment& environment) {
    std::vector<std::string> list;
    const auto add = [&](const std::string& host, int tasks) {
        for (int i = 0; i < tasks; ++i) list.push_back(fmt::format("{}:{}", host, port + 1 + i));
    };
    if (gaps.other_hosts) return list;  // which rank starts where is the launcher's
    if (gaps.nodes == 1) {
        if (gaps.tasks) add("localhost", *gaps.tasks);
        return list;
    }
    const bool names = std::all_of(gaps.hosts.begin(), gaps.hosts.end(), [](const auto& host) {
        return printable(host) == host;  // JSON takes no other bytes
    });
    if (!names) return list;
    const std::string order = variable(environment, "SLURM_DISTRIBUTION");
    const bool one_each = gaps.tasks == gaps.nodes;
    if (!gaps.host_file.empty() || !(order.empty() || order.starts_with("block") || one_each))
        return list;
    for (int node = 0; node < gaps.nodes; ++node) {
        const auto tasks = tasks_on_node(variable(environment, "SLURM_STEP_TASKS_PER_NODE"), node);
        if (!tasks) return {};
        add(gaps.hosts[static_cast<std::size_t>(node)], *tasks);
    }
    const auto rank = static_cast<std::size_t>(gaps.task);
    const bool agrees =
        list.size() == static_cast<std::size_t>(*gaps.tasks) &&
        list[rank] == fmt::format("{}:{}", gaps.hosts[static_cast<std::size_t>(gaps.node)],
                                  port + 1 + gaps.local_task);
    return agrees ? list : std::vector<std::string>();
}

/// The index is a placeholder where the shim fills it in: no JSON by itself.
std::string tf_config(const std::vector<std::string>& list, const std::string& index) {
    const nlohmann::json cluster = {{"worker", list}};
    return fmt::format(R"({{"cluster":{},"task":{{"type":"worker","index":{}}}}})", cluster.dump(),
                       index);
}

void add_tf_config(const Gaps& gaps, const Rendezvous& rendezvous, const Environment& environment,
                   const FillOptions& options, FilledIn& filled) {
    const std::vector<std::string> list = workers(gaps, rendezvous.port, environment);
    if (list.empty()) {
        filled.findings.push_back(
            {"tf-config-unknown", Severity::slow,
             "--export-tf-config: which worker runs on which host is not certain", gaps.evidence,
             "TF_CONFIG is not set, each worker trains alone",
             "srun --distribution=block --ntasks-per-node=N ...", "",
             "mpirun needs its number of ranks on the command line (-np)"});
        return;
    }
    filled.settings.push_back(filled_setting(
        "TF_CONFIG", tf_config(list, gaps.by_shim ? "{rank}" : std::to_string(gaps.task)),
        "asked for (--export-tf-config): a worker for each rank, in rank order", gaps.evidence,
        "MultiWorkerMirroredStrategy trains with one worker", gaps.by_shim, environment, options));
}

}  // namespace

FilledIn fill_in_ranks(const Gaps& gaps, const Rendezvous& rendezvous,
                       const Environment& environment, const detect::Machine& machine,
                       const FillOptions& options) {
    FilledIn filled;
    if (options.tf_config) add_tf_config(gaps, rendezvous, environment, options, filled);
    if (is_left(options, gaps, environment) || another_place(gaps, environment) ||
        starts_ranks_itself(gaps, environment, machine) || lacks_device(gaps, environment, machine))
        return filled;
    // What is set here does not travel: the shim of each host sets what is not set there.
    Environment there = environment;
    if (gaps.other_hosts)
        for (const std::string_view name : env::kRankVariables) there.erase(std::string(name));
    const std::string without = "torch.distributed asks for it and stops (env://)";
    const std::string reason = "the rank's place in the job, as the launcher tells it";
    const auto add = [&](const std::string& name, const std::string& value,
                         const std::string& why) {
        filled.settings.push_back(
            filled_setting(name, value, why, gaps.evidence, without, gaps.by_shim, there, options));
    };
    for (const Value& value : places(gaps)) add(value.name, value.text, reason);
    add("MASTER_ADDR", rendezvous.address, rendezvous.reason);
    add("MASTER_PORT", std::to_string(rendezvous.port),
        gaps.other_hosts && !gaps.first_node ? "the same for all hosts"
        : variable(environment, "SLURM_JOB_ID").empty()
            ? "nobody listens on it"
            : "follows from the job's and the step's number");
    return filled;
}

}  // namespace toporun::launcher
