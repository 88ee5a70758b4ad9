#include "launcher/cli/subcommands.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/machine_toml.hpp"
#include "env/explain.hpp"
#include "env/host_order.hpp"
#include "env/settings_text.hpp"
#include "env/summary.hpp"
#include "launcher/cli/host_order.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/cli/knowledge.hpp"
#include "launcher/command/options.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/report/findings.hpp"
#include "launcher/report/json.hpp"
#include "launcher/report/machine_graph.hpp"
#include "launcher/report/machine_view.hpp"
#include "launcher/report/write_file.hpp"

namespace toporun::launcher {
namespace {

std::optional<int> slurm_number(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return positive_count(found->second);
}

/// The machine with the NCCL that a Python of this shell would load.
detect::Machine shell_machine(const Arguments& arguments, const Environment& environment) {
    return read_machine(arguments, environment, shell_python(environment), true);
}

/// Writes into what is no regular file (a device, a pipe), through the user's own links, and whole
/// or not at all elsewhere.
void save(const std::string& path, const std::string& text) {
    struct stat info {};
    const bool there = ::stat(path.c_str(), &info) == 0;
    if (!there || S_ISREG(info.st_mode)) {
        std::error_code error;
        const std::filesystem::path target = std::filesystem::canonical(path, error);
        try {
            return write_file(error ? path : target.string(), text);
        } catch (const Error& fault) {
            throw Error(fault.what(), fault.where(), "name a file that you may write");
        }
    }
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    std::string_view rest = text;
    while (file && !rest.empty()) {
        const ssize_t written = ::write(file.get(), rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
    if (!rest.empty())
        throw Error(fmt::format("cannot write '{}': {}", printable(path), std::strerror(errno)));
}

}  // namespace

namespace {

/// Whether the locale's characters are UTF-8: the first of these variables that is set counts.
bool utf8_locale(const Environment& environment) {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const auto found = environment.find(name);
        if (found == environment.end() || found->second.empty()) continue;
        std::string charset = found->second;
        std::transform(charset.begin(), charset.end(), charset.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        return charset.find("utf-8") != std::string::npos ||
               charset.find("utf8") != std::string::npos;
    }
    return false;
}

std::string machine_graph(const detect::Machine& machine, const std::string& format) {
    const bool text = format == "text" || (format == "auto" && ::isatty(1) == 1);
    if (!text) return machine_dot(machine);
    return machine_drawing(machine, utf8_locale(environment_map()) ? Strokes::box : Strokes::ascii);
}

/// What shows the notes of the captures that were judged; "" for this machine.
std::string notes_command(const Arguments& arguments) {
    std::string command = "toporun detect";
    for (const std::string& file : arguments.machine_files)
        command += " --machine " + shell_word(file);
    for (const std::string& file : arguments.captures) command += " --from " + shell_word(file);
    return command == "toporun detect" ? "" : command;
}

std::string settings_text(const env::Plan& plan, const std::string& format) {
    if (format == "json") return settings_json(plan);
    if (format == "toml") return env::settings_toml(plan);
    if (format == "slurm") return env::settings_slurm(plan);
    return env::settings_sh(plan, ::isatty(1) == 1);
}

/// On stderr, gravest first: what stands on stdout is read by a shell.
void say_findings(const env::Plan& plan, const Console& console) {
    for (const env::Severity severity :
         {env::Severity::broken, env::Severity::slow, env::Severity::note})
        for (const env::Finding& finding : plan.findings)
            if (finding.severity == severity)
                severity == env::Severity::note
                    ? console.say("note: " + printable(finding.what))
                    : console.warn(finding.what, env::fix_text(finding));
}

}  // namespace

void warn(const std::vector<ProfileProblem>& problems, const Console& console) {
    for (const ProfileProblem& problem : problems)
        console.warn(problem_text(problem), problem.hint);
}

std::string printable_lines(const std::string& text) {
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        out += printable(std::string_view(text).substr(begin, end - begin)) + '\n';
        begin = end + 1;
    }
    return out;
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw Error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

env::Job shell_job(const Arguments& arguments, const Environment& environment) {
    env::Job job;
    job.launcher = "shell";
    job.nodes =
        arguments.nodes ? arguments.nodes : slurm_number(environment, "SLURM_JOB_NUM_NODES");
    job.ranks_per_node = arguments.ranks_per_node;
    // One task a node is most often a launcher that starts a rank for each GPU.
    const std::optional<int> tasks = slurm_number(environment, "SLURM_NTASKS_PER_NODE");
    if (!job.ranks_per_node && tasks.value_or(0) > 1) job.ranks_per_node = tasks;
    job.same_host = true;
    return job;
}

int detect_command(const Arguments& arguments, const Console& console) {
    const detect::Machine machine = shell_machine(arguments, environment_map());
    if (!arguments.save.empty()) {
        save(arguments.save, detect::machine_to_toml(machine));
        console.say(fmt::format("saved to {}; toporun detect --machine {} shows it", arguments.save,
                                shell_word(arguments.save)));
        if (!arguments.json && arguments.graph.empty()) return 0;
    }
    print(arguments.json             ? machine_json(machine)
          : !arguments.graph.empty() ? machine_graph(machine, arguments.graph)
                                     : machine_view(machine));
    return 0;
}

namespace {

int print_hosts(const env::Plan& plan) {
    if (plan.host_order.empty())
        throw Error("nothing is known of the order of hosts", {},
                    "--host-order FILE: a topology.conf, SLURM_TOPOLOGY_ADDR of each node, or one "
                    "host a line");
    print(env::host_file_text(plan.host_order, plan.ranks_per_node.value_or(1)));
    return 0;
}

}  // namespace

int env_command(const Arguments& arguments, const Console& console) {
    const std::string format = !arguments.format.empty() ? arguments.format
                               : arguments.json          ? "json"
                                                         : "sh";
    if (format != "sh" && format != "json" && format != "toml" && format != "slurm" &&
        format != "hosts")
        throw Error(fmt::format("--format={} is not known", printable(format)), {},
                    "write sh, json, toml, slurm or hosts");
    const Environment environment = environment_map();
    const detect::Machine machine = shell_machine(arguments, environment);
    env::Options options = arguments.options;
    options.for_shell = true;
    env::Job job = shell_job(arguments, environment);
    read_host_order(arguments, environment, job, options);
    const Loaded loaded = load_knowledge(arguments, environment, machine);
    warn(loaded.problems, console);
    const env::Plan plan =
        decide(job, machine, read_user_environment(environment), options, loaded.knowledge);
    if (format == "hosts") {
        if (options.host_places)
            for (const std::string& note : options.host_places->notes) console.warn(note, {});
        return print_hosts(plan);
    }
    print(settings_text(plan, format));
    if (arguments.explain)
        for (const std::string& line : env::explain_lines(plan)) console.say(line);
    else if (format != "json")
        say_findings(plan, console);
    if (format == "slurm")
        for (const std::string& command : env::settings_before_slurm(plan))
            console.warn("--export cannot hold a value with a comma, a blank or a quote",
                         "before srun: " + command);
    return 0;
}

int doctor_command(const Arguments& arguments, const Console& console) {
    if (arguments.list) {
        print(arguments.json ? check_list_json() : check_list_text());
        return 0;
    }
    const Environment environment = environment_map();
    const detect::Machine machine = shell_machine(arguments, environment);
    env::Options options = arguments.options;
    options.for_shell = true;
    const Loaded loaded = load_knowledge(arguments, environment, machine);
    warn(loaded.problems, console);
    const env::Diagnosis diagnosis =
        judge(shell_job(arguments, environment), machine, read_user_environment(environment),
              options, loaded.knowledge)
            .diagnosis;
    print(arguments.json ? findings_json(diagnosis)
                         : findings_text(diagnosis, Console(1).colour(), notes_command(arguments)));
    return env::broken_findings(diagnosis).empty() ? 0 : 1;
}

}  // namespace toporun::launcher
