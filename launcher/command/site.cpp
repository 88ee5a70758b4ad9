#include "launcher/command/site.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

struct Known {
    std::string_view name;  ///< of the command, or of the Python module
    std::string_view kind;
    Role role = Role::launcher;
    /// Words behind the name without which it is no such command, joined by blanks.
    std::string_view subcommand = {};
    bool reaches_hosts = false;  ///< it starts ranks on other hosts by itself
};

/// By the command's name. Open MPI and Hydra are "mpi". The first row that fits counts.
constexpr std::array kCommands = {
    Known{"torchrun", "torchrun"},
    Known{"tune", "tune", Role::launcher, "run"},  // torchtune: torchrun's own options
    Known{"mpirun", "mpi"},
    Known{"mpiexec", "mpi"},
    Known{"orterun", "mpi"},
    Known{"oshrun", "mpi"},
    Known{"prterun", "mpi"},
    Known{"mpirun.openmpi", "mpi"},
    Known{"mpiexec.openmpi", "mpi"},
    Known{"mpirun.mpich", "mpi"},
    Known{"mpiexec.mpich", "mpi"},
    Known{"mpirun.hydra", "mpi"},
    Known{"mpiexec.hydra", "mpi"},
    Known{"srun", "srun", Role::launcher, "", true},
    Known{"accelerate", "accelerate", Role::launcher, "launch"},
    Known{"accelerate-launch", "accelerate"},
    Known{"deepspeed", "deepspeed", Role::launcher, "", true},
    Known{"deepspeed.pt", "deepspeed", Role::launcher, "", true},
    Known{"ds", "deepspeed", Role::launcher, "", true},
    Known{"horovodrun", "horovodrun"},
    Known{"colossalai", "colossalai", Role::launcher, "run", true},
    Known{"composer", "composer"},
    Known{"flux", "flux", Role::launcher, "run", true},
    Known{"lightning", "fabric", Role::launcher, "run model"},
    Known{"fabric", "fabric", Role::launcher, "run model"},
    Known{"fabric", "fabric", Role::launcher, "run"},
    Known{"jsrun", "jsrun", Role::launcher, "", true},
    Known{"llamafactory-cli", "llamafactory", Role::launcher, "train"},
    Known{"lmf", "llamafactory", Role::launcher, "train"},
    Known{"swift", "swift", Role::launcher, "sft"},
    Known{"swift", "swift", Role::launcher, "pt"},
    Known{"swift", "swift", Role::launcher, "rlhf"},
    Known{"swift", "swift", Role::launcher, "infer"},
    Known{"megatron", "swift", Role::launcher, "sft"},  // ms-swift's second command
    Known{"megatron", "swift", Role::launcher, "pt"},
    Known{"megatron", "swift", Role::launcher, "rlhf"},
    Known{"megatron", "swift", Role::launcher, "export"},
    Known{"xtuner", "xtuner", Role::launcher, "train"},
    Known{"axolotl", "axolotl", Role::launcher, "train"},
    Known{"trl", "trl", Role::launcher, "sft"},
    Known{"trl", "trl", Role::launcher, "dpo"},
    Known{"trl", "trl", Role::launcher, "grpo"},
    Known{"trl", "trl", Role::launcher, "kto"},
    Known{"trl", "trl", Role::launcher, "reward"},
    Known{"trl", "trl", Role::launcher, "rloo"},
    Known{"vllm", "vllm", Role::server, "serve"},
    Known{"sglang", "sglang", Role::server, "serve"},
    Known{"lmdeploy", "lmdeploy", Role::server, "serve"},
    Known{"trtllm-serve", "trtllm", Role::server},
    Known{"tritonserver", "tritonserver", Role::server},
    Known{"text-generation-launcher", "tgi", Role::server},
    Known{"ray", "ray", Role::server, "start"},
    Known{"ray", "ray", Role::away, "job"},
    Known{"ray", "ray", Role::away, "submit"},
    Known{"ft_launcher", "ft_launcher", Role::away},
    Known{"mpirun_rsh", "mpirun_rsh", Role::away},
    Known{"mpirun.lsf", "mpirun.lsf", Role::away},
    Known{"mpiexec_mpt", "mpiexec_mpt", Role::away},
    Known{"mpirun_mpt", "mpirun_mpt", Role::away},
    Known{"charmrun", "charmrun", Role::away},
    Known{"ccc_mprun", "ccc_mprun", Role::away},
    Known{"blaunch", "blaunch", Role::away},
    Known{"prun", "prun", Role::away},
    Known{"aprun", "aprun", Role::away},
    Known{"ibrun", "ibrun", Role::away},
    Known{"lrun", "lrun", Role::away},
    Known{"torchx", "torchx", Role::away},
    Known{"pdsh", "pdsh", Role::away},
    Known{"parallel-ssh", "parallel-ssh", Role::away},
    Known{"pssh", "pssh", Role::away},
    Known{"clush", "clush", Role::away},
    Known{"kubectl", "kubectl", Role::away},
    Known{"flux", "flux", Role::away, "submit"},
    Known{"flux", "flux", Role::away, "batch"},
    Known{"flux", "flux", Role::away, "alloc"},
    Known{"sbatch", "sbatch", Role::away},
    Known{"salloc", "salloc", Role::away},
    Known{"bsub", "bsub", Role::away},
    Known{"qsub", "qsub", Role::away},
    Known{"qrsh", "qrsh", Role::away},
    Known{"msub", "msub", Role::away},
    Known{"oarsub", "oarsub", Role::away},
    Known{"pjsub", "pjsub", Role::away},
    Known{"condor_submit", "condor_submit", Role::away},
};

/// By the module behind `python -m`.
constexpr std::array kModules = {
    Known{"torch.distributed.run", "torchrun"},
    Known{"torch.distributed.launch", "torchrun"},
    Known{"accelerate.commands.launch", "accelerate"},
    Known{"accelerate.commands.accelerate_cli", "accelerate", Role::launcher, "launch"},
    Known{"deepspeed.launcher.runner", "deepspeed", Role::launcher, "", true},
    Known{"deepspeed", "deepspeed", Role::launcher, "", true},
    Known{"deepspeed.launcher.launch", "deepspeed-node", Role::away},
    Known{"horovod.runner.launch", "horovodrun"},
    Known{"composer.cli.launcher", "composer"},
    Known{"composer.cli", "composer"},
    Known{"lightning.fabric.cli", "fabric", Role::launcher, "run"},
    Known{"llamafactory.cli", "llamafactory", Role::launcher, "train"},
    Known{"sglang.launch_server", "sglang", Role::server},
    Known{"vllm.entrypoints.openai.api_server", "vllm", Role::server},
    Known{"vllm.entrypoints.api_server", "vllm", Role::server},
    Known{"vllm.entrypoints.cli.main", "vllm", Role::server, "serve"},
    Known{"lmdeploy", "lmdeploy", Role::server, "serve"},
};

/// Programs in Python that run another module in their own process (`coverage run -m MODULE`), by
/// their own command lines: coverage 4 to 7, memray 1, VizTracer 0 and 1.
struct ModuleRunner {
    std::string_view name;
    std::string_view subcommand;
    std::string_view values;  ///< options that take the next word, joined by blanks
};

constexpr std::array kModuleRunners = {
    ModuleRunner{"coverage", "run",
                 "--source --omit --include --rcfile --concurrency --context --data-file --debug"},
    ModuleRunner{"memray", "run", "-o --output -p --live-port"},
    ModuleRunner{"viztracer", "",
                 "-o --output_file --output_dir --tracer_entries --max_stack_depth --min_duration "
                 "--include_files --exclude_files --log_var --log_func_entry --log_number"},
};

/// The word behind `name` and its subcommand; 0 when the subcommand is not there.
std::size_t behind_subcommand(std::span<const std::string> argv, std::size_t at,
                              std::string_view subcommand) {
    while (!subcommand.empty()) {
        const std::string_view word = subcommand.substr(0, subcommand.find(' '));
        if (at >= argv.size() || argv[at] != word) return 0;
        subcommand.remove_prefix(std::min(word.size() + 1, subcommand.size()));
        ++at;
    }
    return at;
}

/// The module behind `-m` in a Python command line, and the word behind it; `word` 0 when there is
/// none.
struct PythonModule {
    std::string module;
    std::size_t word = 0;
    std::size_t script = 0;  ///< the script in place of a module; 0 = none
};

PythonModule python_module(std::span<const std::string> argv, std::size_t python) {
    constexpr std::string_view kWithValue = "WX";
    for (std::size_t i = python + 1; i < argv.size(); ++i) {
        const std::string& word = argv[i];
        if (word.empty() || word == "--" || word == "-") return {};
        if (word[0] != '-') return {"", 0, i};
        if (word == "--check-hash-based-pycs") ++i;
        if (word.starts_with("--")) continue;
        for (std::size_t at = 1; at < word.size(); ++at) {
            const bool last = at + 1 == word.size();
            if (word[at] == 'c') return {};
            if (word[at] == 'm')
                return last ? PythonModule{i + 1 < argv.size() ? argv[i + 1] : "", i + 2}
                            : PythonModule{word.substr(at + 1), i + 1};
            if (kWithValue.find(word[at]) != std::string_view::npos) {
                if (last) ++i;
                break;
            }
        }
    }
    return {};
}

Site site_of(std::span<const Known> table, const std::string& name,
             std::span<const std::string> argv, std::size_t behind) {
    for (const Known& known : table) {
        if (known.name != name) continue;
        const std::size_t first = behind_subcommand(argv, behind, known.subcommand);
        if (first > 0)
            return {known.role, std::string(known.kind), 0, first, false, "", known.reaches_hosts};
    }
    return {};
}

bool among(std::string_view words, std::string_view word) {
    return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") !=
           std::string::npos;
}

/// The launcher that a runner of modules at `word` starts; nothing for scripts.
Site site_in_runner(std::span<const std::string> argv, std::size_t word) {
    const std::string name = base_name(argv[word]);
    for (const ModuleRunner& runner : kModuleRunners) {
        if (runner.name != name) continue;
        std::size_t at = behind_subcommand(argv, word + 1, runner.subcommand);
        for (; at > 0 && at < argv.size() && argv[at].starts_with('-') && argv[at] != "--"; ++at) {
            if ((argv[at] == "-m" || argv[at] == "--module") && at + 1 < argv.size())
                return site_of(kModules, argv[at + 1], argv, at + 2);
            if (among(runner.values, argv[at])) ++at;
        }
    }
    return {};
}

/// The known module whose file this is (`/path/torch/distributed/run.py`); "" = none.
std::string module_of_file(const std::string& path) {
    for (const Known& known : kModules) {
        std::string file = "/" + std::string(known.name) + ".py";
        if (file.find('.') + 3 == file.size()) continue;  // no package: any file may have its name
        std::replace(file.begin(), file.end() - 3, '.', '/');
        if (path.ends_with(file)) return std::string(known.name);
    }
    return {};
}

Site site_at(std::span<const std::string> argv, std::size_t word) {
    if (!is_python(argv[word])) {
        const Site site = site_of(kCommands, base_name(argv[word]), argv, word + 1);
        return site.role == Role::none ? site_in_runner(argv, word) : site;
    }
    const PythonModule module = python_module(argv, word);
    Site site = site_of(kModules, module.module, argv, std::min(module.word, argv.size()));
    if (site.role == Role::none && !module.module.empty())  // `python -m coverage run -m ...`
        site = site_in_runner(argv, std::min(module.word, argv.size()) - 1);
    if (module.script > 0)  // `python /path/torchrun`, `python /path/torch/distributed/run.py`
        site = site_of(kCommands, base_name(argv[module.script]), argv, module.script + 1);
    if (site.role == Role::none && module.script > 0)
        site = site_of(kModules, module_of_file(argv[module.script]), argv, module.script + 1);
    site.module = true;
    return site;
}

}  // namespace

bool is_launcher_name(const std::string& word) {
    const std::string name = base_name(word);
    return std::any_of(kCommands.begin(), kCommands.end(), [&](const Known& known) {
        // swift and xtuner are also the program of one rank (`srun -n8 xtuner train`).
        return known.name == name && known.role != Role::server && known.kind != "swift" &&
               known.kind != "xtuner";
    });
}

Site find_site(std::span<const std::string> argv, std::size_t word, const Host& host) {
    Site site;
    if (word >= argv.size()) return site;
    site = site_at(argv, word);
    site.word = word;
    site.path = host.find_executable(argv[word]);
    return site;
}

Role role_of(std::span<const std::string> argv, std::size_t word) {
    const Peeled peeled = peel_prefixes(argv, word);
    if (peeled.opaque || peeled.inner >= argv.size()) return Role::none;
    return site_at(argv, peeled.inner).role;
}

Site find_site(std::span<const std::string> argv, const Peeled& peeled, const Host& host) {
    if (peeled.opaque) return {};
    Site site;
    if (peeled.module && peeled.inner < argv.size()) {
        site = site_of(kModules, argv[peeled.inner], argv, peeled.inner + 1);
        site.word = peeled.inner;
        site.module = true;
    } else {
        site = find_site(argv, peeled.inner, host);
    }
    site.own_path = peeled.own_path;
    if (!peeled.own_path.empty()) site.path.clear();
    return site;
}

}  // namespace toporun::launcher
