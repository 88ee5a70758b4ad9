#include "launcher/cli/inputs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/detect.hpp"
#include "detect/import/import.hpp"
#include "detect/import/sys_tree.hpp"
#include "detect/machine_toml.hpp"
#include "detect/software/nccl_conf.hpp"
#include "detect/software/surroundings.hpp"
#include "env/inputs.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/host.hpp"
#include "launcher/command/node_share.hpp"
#include "launcher/version.hpp"
#include "profiles/knowledge.hpp"

namespace toporun::launcher {
namespace {

/// Releases are 1.x and 2.x; 3.x may come.
constexpr int kOldestNccl = 10000, kNewestNccl = 39999;
constexpr std::size_t kLargestText = 64u << 20;
constexpr std::size_t kLargestCapture = 16u << 20;  ///< of text: a log of NCCL has some MiB

std::string value(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

}  // namespace

std::vector<std::string> environment_strings() {
    std::vector<std::string> strings;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        strings.emplace_back(*entry);
    return strings;
}

Environment environment_map() {
    Environment map;
    for (const std::string& entry : environment_strings()) {
        const std::size_t equals = entry.find('=');
        if (equals != std::string::npos && equals > 0)
            map.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return map;
}

Environment own_environment() {
    Environment map = environment_map();
    // A controlling terminal, whatever the standard streams are.
    const Descriptor terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!terminal) map.erase("SLURM_PTY_PORT");
    return map;
}

namespace {

/// How long a pipe by a name may be without a writer: it is started beside toporun, not after it.
constexpr int kWriterPatienceMs = 1000;
constexpr const char* kStandardInput = "/dev/stdin";

[[noreturn]] void cannot_read(const std::string& path, const std::string& why,
                              const std::string& hint = {}) {
    throw Error(fmt::format("cannot read '{}': {}", printable(path), why), {}, hint);
}

/// What to do about a file that could not be opened.
std::string hint_for_path(const std::string& path, int error) {
    if (error == EACCES) return "'namei -l' on it shows whose permission is missing";
    if (error != ENOENT) return {};
    if (!path.starts_with('/')) return "the name counts from the working directory";
    std::size_t end = path.size();
    while (end > 1) {
        const std::size_t slash = path.rfind('/', end - 1);
        const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
        if (::access(directory.c_str(), F_OK) == 0)
            return fmt::format("'{}' is not in '{}'",
                               printable(path.substr(slash + 1, end - slash - 1)),
                               printable(directory));
        end = slash;
    }
    return {};
}

/// Standard input as it stands, everything else without waiting for anybody.
Descriptor open_text(const std::string& path) {
    if (path == kStandardInput) return Descriptor(::fcntl(0, F_DUPFD_CLOEXEC, 3));
    return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

/// Waits for something to read; false when there was nothing in time.
bool await_text(int fd, int patience_ms) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, patience_ms) != 0;
}

}  // namespace

std::string read_text_file(const std::string& path) {
    struct stat info {};
    const Descriptor file = open_text(path);
    if (!file || ::fstat(file.get(), &info) != 0) {
        const int error = errno;
        cannot_read(path, std::strerror(error), hint_for_path(path, error));
    }
    if (S_ISDIR(info.st_mode)) cannot_read(path, "it is a directory");
    const bool input = path == kStandardInput;
    const bool named_pipe = !input && S_ISFIFO(info.st_mode);
    bool came = false;  // a writer of the pipe
    std::string text;
    char chunk[8192];
    for (bool last_look = false;;) {
        const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN && (input || named_pipe)) {
            came = true;  // and has it open: a process substitution, say
            await_text(file.get(), -1);
            continue;
        }
        if (got < 0)
            cannot_read(path, errno == EAGAIN ? "there is nothing to read" : std::strerror(errno));
        if (got == 0 && named_pipe && !came) {  // no writer as yet, or none any more
            if (last_look)
                cannot_read(path, "it is a pipe that nobody writes into",
                            "start what writes into it, or name a file");
            came = await_text(file.get(), kWriterPatienceMs);
            last_look = !came;
            continue;
        }
        if (got == 0) return text;
        came = true;
        text.append(chunk, static_cast<std::size_t>(got));
        if (text.size() > kLargestText)
            cannot_read(path, fmt::format("larger than {}", format_bytes(kLargestText)));
    }
}

namespace {

/// NCCL_IB_GID_INDEX as NCCL will see it, where it is set to an index.
std::optional<int> gid_index(const Environment& environment) {
    constexpr const char* kName = "NCCL_IB_GID_INDEX";
    const env::UserEnvironment user = read_user_environment(environment);
    std::optional<std::string> text = user.variable(kName);
    for (const detect::ConfValue& line : user.conf)
        if (!text && line.name == kName) text = line.value;
    const long long index = text ? env::nccl_integer(*text) : -1;
    return index < 0 || index > 255 ? std::nullopt : std::optional(static_cast<int>(index));
}

/// Everything that decides on what detection finds, but for the machine itself.
std::string look_key(const detect::Sources& sources) {
    std::string key = fmt::format("{}\n{}", kVersion, detect::sight_of_process());
    const auto add = [&](const auto& value) { key += fmt::format("{}\x1e", value); };
    for (const auto* list : {&sources.library_path, &sources.destinations}) {
        add(list->size());
        for (const std::string& word : *list) add(word);
    }
    // Slurm gives one task of a node variables that the others do not have.
    for (const std::string& name : sources.variables)
        if (detect::tells_surroundings(name)) add(name);
    for (const auto* word :
         {&sources.nvml_library, &sources.preload, &sources.program, &sources.home,
          &sources.conf_file, &sources.topology_file, &sources.cache_directory})
        add(*word);
    add(sources.gid_index.value_or(-1));
    return key;
}

/// One rank of the node looks for all that would find the same.
detect::Machine look_once(const detect::Sources& sources, const NodeShare& share) {
    std::optional<detect::Machine> own;
    const std::string text = share.once("machine", look_key(sources), [&] {
        own = detect::detect_machine(sources);
        return detect::machine_to_toml(*own);
    });
    if (own) return std::move(*own);
    try {
        detect::Machine machine = detect::machine_from_toml(text, "another rank's look");
        detect::detect_own_part(sources, machine);
        return machine;
    } catch (const Error&) {
        return detect::detect_machine(sources);
    }
}

detect::Machine this_machine(const Environment& environment, const std::string& program, bool deep,
                             const std::string& rendezvous, const NodeShare* share) {
    detect::Sources sources;
    sources.nvml_library = nvml_library(environment);
    for (const std::string& directory : split(value(environment, "LD_LIBRARY_PATH"), ':'))
        if (!directory.empty()) sources.library_path.push_back(directory);
    sources.preload = value(environment, "LD_PRELOAD");
    sources.program = program;
    sources.home = value(environment, "HOME");
    sources.deep = deep;
    sources.gid_index = gid_index(environment);
    sources.conf_file = value(environment, "NCCL_CONF_FILE");
    sources.topology_file = value(environment, "NCCL_TOPO_FILE");
    for (const auto& [name, unused] : environment) sources.variables.push_back(name);
    const std::string peer = rendezvous.empty() ? value(environment, "MASTER_ADDR") : rendezvous;
    if (env::parse_ip(peer)) sources.destinations.push_back(peer);
    const std::string cache = value(environment, "XDG_CACHE_HOME");
    if (cache.starts_with('/'))
        sources.cache_directory = cache + "/toporun";
    else if (sources.home.starts_with('/'))
        sources.cache_directory = sources.home + "/.cache/toporun";
    return share == nullptr ? detect::detect_machine(sources) : look_once(sources, *share);
}

/// A part for join_captures.
detect::Machine read_capture(const std::string& name, const Environment& environment) {
    std::error_code error;
    const std::string temporary = value(environment, "TMPDIR");
    if (std::filesystem::is_directory(name, error))
        return detect::machine_from_tree(name, temporary.empty() ? "/tmp" : temporary);
    const bool standard_input = name == "-";
    const detect::Capture capture{standard_input ? "standard input" : name,
                                  read_text_file(standard_input ? kStandardInput : name)};
    if (!detect::is_tar(capture.text)) {
        if (capture.text.size() > kLargestCapture)
            throw Error(fmt::format("larger than {}", format_bytes(kLargestCapture)), capture.name,
                        "cut out the part that describes one machine");
        return detect::import_capture(capture);
    }
    return detect::machine_from_tar(capture.text, capture.name,
                                    temporary.empty() ? "/tmp" : temporary);
}

/// --machine and --from together: a saved machine is one capture among the others.
detect::Machine captured_machine(const Arguments& arguments, const Environment& environment) {
    std::vector<std::string> names = arguments.machine_files;
    names.insert(names.end(), arguments.captures.begin(), arguments.captures.end());
    std::replace(names.begin(), names.end(), std::string("/dev/stdin"), std::string("-"));
    if (std::count(names.begin(), names.end(), "-") > 1)
        throw Error("standard input can be read once only", "--from -", "name a file instead");
    std::vector<detect::NamedMachine> parts;
    for (const std::string& name : names) parts.push_back({name, read_capture(name, environment)});
    return detect::join_captures(std::move(parts));
}

}  // namespace

std::string shell_python(const Environment& environment) {
    const SystemHost host(environment);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const std::string prefix = value(environment, name);
        if (!prefix.starts_with('/')) continue;
        for (const char* program : {"/bin/python3", "/bin/python"})
            if (host.is_executable(prefix + program)) return prefix + program;
    }
    return host.find_executable("python3");
}

detect::Machine read_machine(const Arguments& arguments, const Environment& environment,
                             const std::string& program, bool deep, const std::string& rendezvous,
                             const NodeShare* share) {
    detect::Machine machine;
    if (arguments.machine_files.size() > 1)
        throw Error("--machine was given twice", {}, "a saved machine is one file");
    if (!arguments.captures.empty()) {
        machine = captured_machine(arguments, environment);
    } else if (!arguments.machine_files.empty()) {
        const std::string& file = arguments.machine_files.front();
        machine = detect::machine_from_toml(read_text_file(file), file);
    } else {
        machine = this_machine(environment, program, deep, rendezvous, share);
    }
    if (!arguments.nccl_version.empty()) {
        const std::string& version = arguments.nccl_version;
        const auto numbers = std::count(version.begin(), version.end(), '.') + 1;
        const auto code = detect::nccl_version_code(version);
        if (!code || numbers > 3 || *code < kOldestNccl || *code > kNewestNccl)
            throw Error(fmt::format("'{}' is no NCCL version", printable(arguments.nccl_version)),
                        {}, "write it like 2.28.9");
        machine.software.nccl_version = arguments.nccl_version;
    }
    return machine;
}

std::string nvml_library(const Environment& environment) {
    const std::string named = value(environment, "TOPORUN_NVML_LIBRARY");
    return named.empty() ? detect::kDefaultNvmlLibrary : named;
}

env::UserEnvironment read_user_environment(const Environment& environment) {
    return {environment, detect::read_nccl_conf("", environment)};
}

namespace {

Judged judge_down_to(env::Severity least, const env::Job& job, const detect::Machine& machine,
                     const env::UserEnvironment& user, const env::Options& options,
                     const profiles::Knowledge& knowledge) {
    Judged judged;
    judged.plan = env::decide(job, machine, knowledge, user, options);
    judged.diagnosis = env::diagnose(job, machine, user, judged.plan, knowledge, least);
    return judged;
}

/// That the job gets other GPUs than the user meant: of checks that can find something broken too.
bool about_visible_gpus(const env::Finding& finding) {
    if (finding.severity == env::Severity::note) return false;
    const auto list = env::check_list();
    return std::any_of(list.begin(), list.end(), [&](const env::CheckInfo& check) {
        return check.family == "visibility" && check.id == finding.id;
    });
}

}  // namespace

Judged judge(const env::Job& job, const detect::Machine& machine, const env::UserEnvironment& user,
             const env::Options& options, const profiles::Knowledge& knowledge) {
    return judge_down_to(env::Severity::note, job, machine, user, options, knowledge);
}

env::Plan decide(const env::Job& job, const detect::Machine& machine,
                 const env::UserEnvironment& user, const env::Options& options,
                 const profiles::Knowledge& knowledge) {
    Judged judged = judge_down_to(env::Severity::broken, job, machine, user, options, knowledge);
    std::vector<env::Finding>& findings = judged.plan.findings;
    for (env::Finding& fault : judged.diagnosis.findings) {
        if (fault.severity != env::Severity::broken && !about_visible_gpus(fault)) continue;
        const bool told =
            std::any_of(findings.begin(), findings.end(),
                        [&](const env::Finding& other) { return other.id == fault.id; });
        if (!told) findings.push_back(std::move(fault));
    }
    return std::move(judged.plan);
}

}  // namespace toporun::launcher
