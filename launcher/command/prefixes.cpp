#include "launcher/command/prefixes.hpp"

#include <algorithm>
#include <array>

#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

/// A command that starts another command: what has to be skipped to find that one.
struct Prefix {
    std::string_view name;
    Place place = Place::here;
    std::string_view values = {};       ///< options that take the next word, joined by blanks
    std::size_t positionals = 0;        ///< words before the command (a mask, an image)
    std::string_view subcommands = {};  ///< the word after the name must be one of them
    bool assignments = false;           ///< NAME=VALUE words too
    bool only_after_dashes = false;     ///< many options: only `--` or a launcher's name is trusted
    std::string_view not_with = {};     ///< options with which it acts on a process that runs
    bool binds = false;                 ///< chooses CPUs
    std::string_view binds_with = {};   ///< ... only with one of these options
    bool long_values = false;           ///< every long option without `=` takes the next word
    std::string_view module_switches = {};  ///< the command is a Python module with one of these
};

constexpr std::string_view kContainerValues =
    "-B --bind -H --home -W --workdir --env --env-file --pwd --cwd --overlay --network --security "
    "--app -S --scratch";
constexpr std::string_view kDockerValues =
    "-v --volume -e --env --env-file --gpus --ipc --shm-size --ulimit --network --net --name -w "
    "--workdir -u --user --entrypoint --cpuset-cpus --cpus --mount --device -p --publish -h "
    "--hostname --pid --memory -m --cap-add --security-opt --runtime -l --label";

constexpr std::array kPrefixes = {
    Prefix{.name = "env", .assignments = true},  // see read_env()
    Prefix{.name = "numactl",
           .values =
               "-C --physcpubind -N --cpunodebind -m --membind -i --interleave -p --preferred "
               "-w --weighted-interleave -P --preferred-many",
           .binds = true,
           .binds_with = "-C --physcpubind -N --cpunodebind"},  // the others are about memory
    Prefix{.name = "taskset", .positionals = 1, .not_with = "-p --pid", .binds = true},
    Prefix{.name = "hwloc-bind",
           .values = "--mempolicy",
           .positionals = 1,
           .not_with = "--pid",
           .binds = true},
    Prefix{.name = "nice", .values = "-n --adjustment"},
    Prefix{.name = "ionice", .values = "-c --class -n --classdata", .not_with = "-p --pid"},
    Prefix{.name = "chrt",
           .values = "-T --sched-runtime -P --sched-period -D --sched-deadline",
           .positionals = 1,
           .not_with = "-p --pid"},
    Prefix{.name = "choom", .values = "-n --adjust", .not_with = "-p --pid"},
    Prefix{
        .name = "flock", .values = "-w --wait --timeout -E --conflict-exit-code", .positionals = 1},
    Prefix{.name = "unbuffer"},
    Prefix{.name = "xvfb-run",
           .values = "-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s "
                     "--server-args -w --wait"},
    Prefix{.name = "prlimit", .not_with = "-p --pid"},
    Prefix{.name = "setpriv",
           .values = "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set "
                     "--securebits --pdeathsig"},
    Prefix{.name = "cgexec", .values = "-g"},
    Prefix{.name = "stdbuf", .values = "-i --input -o --output -e --error"},
    Prefix{.name = "nohup"},
    Prefix{.name = "catchsegv"},
    Prefix{.name = "timeout", .values = "-k --kill-after -s --signal", .positionals = 1},
    Prefix{.name = "setsid"},
    Prefix{.name = "time", .values = "-o --output -f --format"},
    Prefix{.name = "tini", .values = "-p -e"},
    Prefix{.name = "dumb-init", .values = "-r --rewrite"},
    Prefix{.name = "nsys",
           .values = "-o --output -t --trace -s --sample -c --capture-range -w --show-output -f "
                     "--force-overwrite -b --backtrace -d --duration -y --delay -e --env-var "
                     "-x --stop-on-exit --capture-range-end --gpu-metrics-devices "
                     "--gpu-metrics-device --cuda-graph-trace --kill --wait -n --inherit-env",
           .subcommands = "profile launch",
           .long_values = true},
    Prefix{.name = "conda",
           .place = Place::own_path,
           .values = "-n --name -p --prefix --cwd",
           .subcommands = "run"},
    Prefix{.name = "mamba",
           .place = Place::own_path,
           .values = "-n --name -p --prefix --cwd",
           .subcommands = "run"},
    Prefix{.name = "micromamba",
           .place = Place::own_path,
           .values = "-n --name -p --prefix --cwd -a --attach -e --env -r --root-prefix",
           .subcommands = "run"},
    Prefix{.name = "poetry",
           .place = Place::own_path,
           .values = "-C --directory -P --project",
           .subcommands = "run"},
    Prefix{.name = "pipenv", .place = Place::own_path, .subcommands = "run"},
    Prefix{.name = "pdm", .place = Place::own_path, .subcommands = "run"},
    Prefix{.name = "rye", .place = Place::own_path, .subcommands = "run"},
    Prefix{.name = "hatch",
           .place = Place::own_path,
           .values = "-e --env -p --project --data-dir --cache-dir --config",
           .subcommands = "run"},
    Prefix{.name = "pixi",
           .place = Place::own_path,
           .values = "-e --environment --manifest-path -m --auth-file --color "
                     "--concurrent-downloads --concurrent-solves --pinning-strategy",
           .subcommands = "run"},
    Prefix{.name = "uv",
           .place = Place::own_path,
           .values = "--with -w --with-requirements --with-editable --python -p --extra --no-extra "
                     "--group --no-group --only-group --env-file --package --project --directory "
                     "--index --default-index --index-url -i --extra-index-url --find-links -f "
                     "--cache-dir --config-file --refresh-package --reinstall-package "
                     "--upgrade-package -P --resolution --prerelease --link-mode --exclude-newer "
                     "--index-strategy --keyring-provider --allow-insecure-host --color "
                     "--config-setting -C",
           .subcommands = "run",
           .module_switches = "-m --module"},
    Prefix{.name = "strace", .only_after_dashes = true},
    Prefix{.name = "ltrace", .only_after_dashes = true},
    Prefix{.name = "perf", .only_after_dashes = true},
    Prefix{.name = "py-spy", .only_after_dashes = true},
    Prefix{.name = "valgrind", .only_after_dashes = true},
    Prefix{.name = "gdb", .only_after_dashes = true},
    Prefix{.name = "cuda-gdb", .only_after_dashes = true},
    Prefix{.name = "compute-sanitizer", .only_after_dashes = true},
    Prefix{.name = "ncu", .only_after_dashes = true},
    Prefix{.name = "vtune", .only_after_dashes = true},
    Prefix{.name = "rocprof", .only_after_dashes = true},
    Prefix{.name = "rocprofv2", .only_after_dashes = true},
    Prefix{.name = "rocprofv3", .only_after_dashes = true},
    Prefix{.name = "rocprof-sys-run", .only_after_dashes = true},
    Prefix{.name = "rocprof-sys-sample", .only_after_dashes = true},
    Prefix{.name = "omnitrace-run", .only_after_dashes = true},
    Prefix{.name = "omnitrace-sample", .only_after_dashes = true},
    Prefix{.name = "rocgdb", .only_after_dashes = true},
    Prefix{.name = "heaptrack", .only_after_dashes = true},
    Prefix{.name = "singularity",
           .place = Place::container,
           .values = kContainerValues,
           .positionals = 1,
           .subcommands = "exec run shell"},
    Prefix{.name = "apptainer",
           .place = Place::container,
           .values = kContainerValues,
           .positionals = 1,
           .subcommands = "exec run shell"},
    Prefix{.name = "docker",
           .place = Place::container,
           .values = kDockerValues,
           .positionals = 1,
           .subcommands = "run exec"},
    Prefix{.name = "podman",
           .place = Place::container,
           .values = kDockerValues,
           .positionals = 1,
           .subcommands = "run exec"},
    Prefix{.name = "enroot",
           .place = Place::container,
           .values = "-e --env -m --mount -c --conf",
           .positionals = 1,
           .subcommands = "start"},
    Prefix{
        .name = "shifter", .place = Place::container, .values = "--image -i --volume -V --module"},
    Prefix{.name = "ch-run",
           .place = Place::container,
           .values = "-b --bind -c --cd",
           .positionals = 1},
    Prefix{.name = "sudo",
           .place = Place::container,
           .values = "-u --user -g --group",
           .assignments = true},
    Prefix{.name = "doas", .place = Place::container, .values = "-u -C"},
    Prefix{.name = "gosu", .place = Place::container, .positionals = 1},
    Prefix{.name = "su-exec", .place = Place::container, .positionals = 1},
    Prefix{.name = "runuser", .place = Place::container, .values = "-u --user -g --group"},
    Prefix{.name = "chroot", .place = Place::container, .positionals = 1},
    Prefix{.name = "unshare", .place = Place::container, .values = "-S --setuid -G --setgid"},
    Prefix{.name = "bwrap", .place = Place::container, .only_after_dashes = true},
    Prefix{.name = "systemd-run",
           .place = Place::container,
           .values = "-p --property -u --unit --slice -E --setenv -M --machine"},
    Prefix{.name = "ssh", .place = Place::remote},
    Prefix{.name = "xargs", .place = Place::remote},
    Prefix{.name = "parallel", .place = Place::remote},
    Prefix{.name = "bash", .place = Place::shell},
    Prefix{.name = "sh", .place = Place::shell},
    Prefix{.name = "dash", .place = Place::shell},
    Prefix{.name = "zsh", .place = Place::shell},
    Prefix{.name = "ksh", .place = Place::shell},
};

bool has_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const std::size_t end = words.find(' ');
        if (words.substr(0, end) == word) return true;
        if (end == std::string_view::npos) return false;
        words.remove_prefix(end + 1);
    }
    return false;
}

const Prefix* find_prefix(const std::string& word) {
    const std::string name = base_name(word);
    const auto found = std::find_if(kPrefixes.begin(), kPrefixes.end(),
                                    [&](const Prefix& prefix) { return prefix.name == name; });
    return found == kPrefixes.end() ? nullptr : &*found;
}

bool takes_next(const std::string& word, const Prefix& prefix) {
    return prefix.long_values && word.starts_with("--") && word != "--help" &&
           word.find('=') == std::string::npos;
}

/// One of the options by which the prefix chooses CPUs is among words[0...]: `-N 0`, `-N0`,
/// `--cpunodebind=0`.
bool chooses_cpus(std::span<const std::string> words, const Prefix& prefix) {
    if (!prefix.binds || prefix.binds_with.empty()) return prefix.binds;
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        const bool two_dashes = word.starts_with("--");
        return has_word(prefix.binds_with,
                        two_dashes ? word.substr(0, word.find('=')) : word.substr(0, 2));
    });
}

std::size_t skip_options(std::span<const std::string> argv, std::size_t at, const Prefix& prefix) {
    while (at < argv.size()) {
        const std::string& word = argv[at];
        if (word == "--") return at + 1;
        if (word.size() > 1 && word[0] == '-')
            at += has_word(prefix.values, word) || takes_next(word, prefix) ? 2 : 1;
        else if (prefix.assignments && is_assignment(word))
            ++at;
        else
            return at;
    }
    return argv.size();
}

/// `-p`, also among other letters (`-cp`).
bool acts_on_process(const std::string& word, const Prefix& prefix) {
    if (prefix.not_with.empty()) return false;
    if (word.starts_with("--")) return has_word(prefix.not_with, word.substr(0, word.find('=')));
    return word.size() > 1 && word[0] == '-' && has_word(prefix.not_with, "-p") &&
           word.find('p') != std::string::npos;
}

/// Behind `--`, else at a launcher's name, else not found.
std::size_t skip_to_command(std::span<const std::string> argv, std::size_t at) {
    for (std::size_t i = at; i < argv.size(); ++i) {
        if (argv[i] == "--" || argv[i] == "--args") return i + 1;
        if (is_launcher_name(argv[i])) return i;
    }
    return argv.size();
}

/// The word behind one prefix command at `at`; `at` itself when it is used in another way.
std::size_t behind_prefix(std::span<const std::string> argv, std::size_t at, const Prefix& prefix) {
    std::size_t next = at + 1;
    if (prefix.place == Place::shell || prefix.place == Place::remote) return argv.size();
    if (prefix.only_after_dashes) return skip_to_command(argv, next);
    if (!prefix.subcommands.empty()) {
        next = skip_options(argv, next, prefix);
        if (next >= argv.size() || !has_word(prefix.subcommands, argv[next])) return at;
        ++next;
    }
    const std::size_t options_end = skip_options(argv, next, prefix);
    for (std::size_t i = next; i < options_end; ++i)
        if (acts_on_process(argv[i], prefix)) return at;
    next = options_end + prefix.positionals;
    if (prefix.positionals > 0 && next < argv.size() && argv[next] == "--") ++next;
    // `flock FILE -c TEXT`: an option stands where the command would.
    if (prefix.positionals > 0 && prefix.place == Place::here && next < argv.size() &&
        argv[next].starts_with('-'))
        return at;
    return std::min(next, argv.size());
}

/// The options and assignments of `env` at argv[at], from GNU coreutils. Returns the word behind
/// them.
std::size_t read_env(std::span<const std::string> argv, std::size_t at, Peeled& peeled) {
    constexpr std::string_view kWithValue = "uCS";
    const auto option = [&](char letter, const std::string& value) {
        if (letter == 'i') {
            peeled.cleared = true;
            peeled.set.clear();
        }
        if (letter == 'u') {
            peeled.removed.push_back(value);
            peeled.set.erase(value);
        }
        if (letter == 'C') peeled.own_path = "env -C";
        if (letter == 'S') peeled.opaque = true;  // the command is in its text
    };
    std::size_t i = at + 1;
    for (; i < argv.size(); ++i) {
        const std::string& word = argv[i];
        if (word == "--") {
            ++i;
            break;
        }
        if (word == "-") {  // the last option
            option('i', "");
            ++i;
            break;
        }
        if (word.starts_with("--")) {
            const std::size_t equals = word.find('=');
            const std::string name = word.substr(2, equals == word.npos ? equals : equals - 2);
            const char letter = name == "ignore-environment" ? 'i'
                                : name == "unset"            ? 'u'
                                : name == "chdir"            ? 'C'
                                : name == "split-string"     ? 'S'
                                                             : '0';
            std::string value = equals == word.npos ? "" : word.substr(equals + 1);
            if (equals == word.npos && kWithValue.find(letter) != kWithValue.npos &&
                i + 1 < argv.size())
                value = argv[++i];
            option(letter, value);
        } else if (word.size() > 1 && word[0] == '-') {
            for (std::size_t c = 1; c < word.size(); ++c) {
                if (kWithValue.find(word[c]) == kWithValue.npos) {
                    option(word[c], "");
                    continue;
                }
                std::string value = word.substr(c + 1);
                if (value.empty() && i + 1 < argv.size()) value = argv[++i];
                option(word[c], value);
                break;
            }
        } else {
            break;
        }
    }
    for (; i < argv.size() && argv[i].find('=') != std::string::npos; ++i)
        peeled.set[argv[i].substr(0, argv[i].find('='))] = argv[i].substr(argv[i].find('=') + 1);
    if (peeled.cleared || peeled.set.contains("PATH")) peeled.own_path = "env";
    if (peeled.cleared && !peeled.opaque && i < argv.size()) peeled.assignments_at = i;
    return peeled.opaque ? argv.size() : std::min(i, argv.size());
}

}  // namespace

std::optional<Place> prefix_place(const std::string& word) {
    const Prefix* prefix = find_prefix(word);
    if (prefix == nullptr) return std::nullopt;
    return prefix->place;
}

bool is_assignment(const std::string& word) {
    const std::size_t equals = word.find('=');
    return equals != std::string::npos && equals > 0 && word.find('/') > equals;
}

Peeled peel_prefixes(std::span<const std::string> argv, std::size_t first) {
    Peeled peeled;
    peeled.inner = first;
    while (peeled.inner < argv.size()) {
        const Prefix* prefix = find_prefix(argv[peeled.inner]);
        if (prefix == nullptr) break;
        const std::string name = base_name(argv[peeled.inner]);
        const std::size_t next = name == "env" ? read_env(argv, peeled.inner, peeled)
                                               : behind_prefix(argv, peeled.inner, *prefix);
        if (next == peeled.inner) break;
        peeled.prefixes.push_back(name);
        if (prefix->place == Place::shell && !peeled.opaque) peeled.shell = peeled.inner;
        if (prefix->place == Place::own_path) peeled.own_path = name;
        for (std::size_t i = peeled.inner + 1; i < next; ++i)
            peeled.module = peeled.module || has_word(prefix->module_switches, argv[i]);
        if (chooses_cpus(argv.subspan(peeled.inner, next - peeled.inner), *prefix))
            peeled.binds = name;
        peeled.opaque =
            peeled.opaque || (prefix->place != Place::here && prefix->place != Place::own_path);
        peeled.inner = next;
    }
    return peeled;
}

}  // namespace toporun::launcher
