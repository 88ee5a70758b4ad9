// What job scripts get wrong beside the counts. Sources: srun(1) and sbatch(1) of Slurm 22.05 to
// 25.05; NVIDIA/pyxis README (environment); torch/distributed/run.py, 2.9 (--signals-to-handle);
// torch/distributed/elastic/multiprocessing/api.py (30 s between SIGTERM and SIGKILL).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <span>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"
#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

constexpr int kTorchrunGrace_s = 30;

/// A count that starts with a digit, or one of torchrun's words for it.
bool is_count(std::string_view text) {
    text = trim(text);
    return (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0) ||
           text == kUnknownValue || text == "gpu" || text == "cpu" || text == "auto" ||
           text == "xpu";
}

/// A number, or letters and digits as the names of devices have.
bool is_word(std::string_view text) {
    text = trim(text);
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-';
    });
}

/// `srun -n $SLURM_NTASKS ./train` without that variable is `srun -n ./train`.
void empty_count(const LaunchLine& line, std::vector<Finding>& findings) {
    constexpr std::array kSrun = {
        "n", "ntasks", "N", "nodes", "ntasks-per-node", "tasks-per-node", "c", "cpus-per-task"};
    constexpr std::array kTorchrun = {"nnodes"};  // other words are devices of a backend
    const auto look = [&](const std::vector<Given>* options, std::span<const char* const> names) {
        if (options == nullptr) return;
        for (const char* name : names) {
            const auto value = said(options, line.environment, {name}, {});
            if (!value || is_count(value->value)) continue;
            findings.push_back(
                {"count-not-a-number", Severity::broken,
                 fmt::format("{}: a variable in it was empty, most likely", value->words),
                 value->words,
                 "the launcher stops with an error of its own, or takes the next word",
                 "echo \"${SLURM_NTASKS?}\" \"${SLURM_NNODES?}\"", "",
                 "SLURM_NTASKS is missing in job scripts that give --ntasks-per-node alone"});
        }
    };
    look(line.srun, kSrun);
    look(line.torchrun, kTorchrun);
    for (const auto& value : {line.nproc, line.node_rank}) {
        if (line.torchrun == nullptr || !value || is_word(value->value)) continue;
        findings.push_back(
            {"count-not-a-number", Severity::broken,
             fmt::format(
                 "{}: torchrun takes a number{}", value->words,
                 line.nproc && value->words == line.nproc->words ? " or a device's name" : ""),
             value->words, "torchrun stops with an error of its own",
             "echo \"${SLURM_GPUS_ON_NODE?}\" \"${SLURM_NODEID?}\"", "",
             "SLURM_GPUS_PER_NODE may hold the model too (h100:8)"});
    }
}

/// RANK=0 of the job script for every task.
void fixed_rank(const LaunchLine& line, std::vector<Finding>& findings) {
    const bool python = is_python(base_name(line.command.program));
    if (line.launcher != nullptr || !python) return;
    if (line.srun == nullptr && !line.in_step) return;
    if (line.tasks.value_or(1) < 2) return;
    const std::string rank = variable(line.environment, "RANK");
    const auto number = to_integer(trim(rank));
    if (!number || (line.srun == nullptr && (!line.task || *number == *line.task))) return;
    findings.push_back(
        {"rank-fixed", Severity::broken,
         fmt::format("RANK={} is the same for each of the {} tasks", printable(rank), *line.tasks),
         line.srun == nullptr ? fmt::format("SLURM_PROCID={}", *line.task)
                              : std::string("set before srun"),
         "each task takes itself for the same rank, the start hangs", "unset RANK LOCAL_RANK", "",
         "toporun behind srun sets them for each task; $SLURM_PROCID in the job script itself is "
         "always 0"});
}

/// torchrun has no handler for it and ends, its workers stay.
void signal_for_torchrun(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.torchrun == nullptr) return;
    const auto signal = said(line.srun, line.environment, {"signal"}, {"SBATCH_SIGNAL"});
    if (!signal) return;
    std::string name = signal->value.substr(0, signal->value.find('@'));
    if (name.find("B:") != std::string::npos) return;  // the job script's alone
    if (const std::size_t colon = name.rfind(':'); colon != std::string::npos)
        name.erase(0, colon + 1);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (name.starts_with("SIG")) name.erase(0, 3);
    if (const auto number = to_integer(name)) {  // torch takes names only
        const bool known = *number > 0 && *number <= SIGRTMAX;
        const char* text = known ? sigabbrev_np(static_cast<int>(*number)) : nullptr;
        name = text == nullptr ? "" : text;
    }
    constexpr std::array<std::string_view, 4> kHandled = {"TERM", "INT", "HUP", "QUIT"};
    if (name.empty() || std::find(kHandled.begin(), kHandled.end(), name) != kHandled.end()) return;
    const auto handled =
        said(line.torchrun, line.environment, {"signals-to-handle"}, {"PET_SIGNALS_TO_HANDLE"});
    if (handled && handled->value.find(name) != std::string::npos) return;
    findings.push_back(
        {"signal-ends-torchrun", Severity::slow,
         fmt::format("{}: torchrun ends by SIG{}, its workers are left over", signal->words,
                     printable(name)),
         signal->words, "no checkpoint is written, the GPUs stay occupied until the step ends",
         fmt::format("torchrun --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIG{}",
                     printable(name)),
         "", "torch 2.9 and later; before, --signal=B: and a trap in the job script"});
}

void short_kill_wait(const LaunchLine& line, const LineFacts& facts,
                     std::vector<Finding>& findings) {
    if (line.torchrun == nullptr || !line.in_step || !facts.kill_wait_s) return;
    if (*facts.kill_wait_s >= kTorchrunGrace_s) return;
    findings.push_back(
        {"kill-wait-short", Severity::note,
         fmt::format("at the time limit Slurm kills {} s after SIGTERM, torchrun gives its workers "
                     "{} s",
                     *facts.kill_wait_s, kTorchrunGrace_s),
         fmt::format("slurm.conf: KillWait={}", *facts.kill_wait_s),
         "a checkpoint that a worker writes on SIGTERM may be cut", "sbatch --signal=TERM@120", "",
         "the steps get SIGTERM two minutes before the limit"});
}

/// A variable of the image wins over one of the job.
void image_variables(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.srun == nullptr || !said(line.srun, line.environment, {"container-image"}, {})) return;
    const auto list = said(line.srun, line.environment, {"container-env"}, {});
    std::vector<std::string> kept = list ? split(list->value, ',') : std::vector<std::string>();
    std::vector<std::string> lost;
    for (const auto& [name, value] : line.environment) {
        const bool counts = name.starts_with("NCCL_") || name == "OMP_NUM_THREADS";
        if (counts && std::find(kept.begin(), kept.end(), name) == kept.end()) lost.push_back(name);
    }
    if (lost.empty()) return;
    std::erase(kept, "");
    kept.insert(kept.end(), lost.begin(), lost.end());
    findings.push_back(
        {"image-variables-win", Severity::note,
         fmt::format("{} of the job {} lost where the image sets {} too",
                     printable(join(lost, ", ")), lost.size() == 1 ? "is" : "are",
                     lost.size() == 1 ? "it" : "them"),
         fmt::format("--container-image, {}", list ? list->words : "no --container-env"),
         "the image's value holds, without a word",
         fmt::format("srun --container-env={}", printable(join(kept, ","))), "",
         "NVIDIA's PyTorch images set some; or toporun inside the container"});
}

}  // namespace

std::optional<int> kill_wait(std::string_view slurm_conf) {
    constexpr std::string_view kKey = "killwait=";
    for (const std::string& line : split(slurm_conf, '\n')) {
        std::string lower(trim(line));
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        if (!lower.starts_with(kKey)) continue;
        const std::string value =
            lower.substr(kKey.size(), lower.find_first_of(" \t#", kKey.size()) - kKey.size());
        const auto seconds = to_integer(value);
        if (seconds && *seconds >= 0 && *seconds < 1 << 20) return static_cast<int>(*seconds);
    }
    return std::nullopt;
}

void script_findings(const LaunchLine& line, const LineFacts& facts,
                     std::vector<Finding>& findings) {
    empty_count(line, findings);
    fixed_rank(line, findings);
    signal_for_torchrun(line, findings);
    short_kill_wait(line, facts, findings);
    image_variables(line, findings);
}

}  // namespace toporun::launcher
