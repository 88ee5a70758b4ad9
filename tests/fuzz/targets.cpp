#include "targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/import/import.hpp"
#include "detect/import/importer.hpp"
#include "detect/import/lines.hpp"
#include "detect/import/settle_machine.hpp"
#include "detect/import/sys_tree.hpp"
#include "detect/import/tar.hpp"
#include "detect/machine_toml.hpp"
#include "detect/nccl_log/line.hpp"
#include "fake_host.hpp"
#include "launcher/command/launch.hpp"
#include "launcher/fill/fill_in.hpp"
#include "launcher/preflight/preflight.hpp"
#include "log_report.hpp"
#include "tree_text.hpp"
#include "untouched.hpp"

namespace toporun::fuzz {
namespace {

using namespace detect;

void require(bool holds, std::string_view what) {
    if (!holds) throw Broken(std::string(what));
}

template <class Matrix>
void check_matrix(const Matrix& matrix, std::size_t rows, std::size_t columns,
                  std::string_view name) {
    if (matrix.empty()) return;
    require(matrix.size() == rows, fmt::format("{} has another number of rows", name));
    for (const auto& row : matrix)
        require(row.size() == columns, fmt::format("{} has another number of columns", name));
}

/// What every reader of a Machine relies on.
void check_machine(const Machine& machine) {
    const std::size_t gpus = machine.gpus.size();
    const std::size_t nics = machine.nics.size();
    check_matrix(machine.gpu_paths, gpus, gpus, "gpu_paths");
    check_matrix(machine.gpu_links, gpus, gpus, "gpu_links");
    check_matrix(machine.gpu_path_gbytes_per_s, gpus, gpus, "gpu_path_gbytes_per_s");
    check_matrix(machine.peer_access, gpus, gpus, "peer_access");
    check_matrix(machine.gpu_acs_redirect, gpus, gpus, "gpu_acs_redirect");
    check_matrix(machine.gpu_nic_paths, gpus, nics, "gpu_nic_paths");
    check_matrix(machine.gpu_nic_acs_redirect, gpus, nics, "gpu_nic_acs_redirect");
    check_matrix(machine.cpu.numa_distances, machine.cpu.numa_nodes.size(),
                 machine.cpu.numa_nodes.size(), "numa_distances");
    for (std::size_t a = 0; a < machine.gpu_paths.size(); ++a) {
        require(machine.gpu_paths[a][a] == PathType::LOC, "gpu_paths: a diagonal that is not LOC");
        for (std::size_t b = 0; b < a; ++b)
            require(machine.gpu_paths[a][b] == machine.gpu_paths[b][a],
                    "gpu_paths is not symmetric");
    }
    require(machine.gpus_known || machine.gpus.empty(), "GPUs that are unknown");
    require(machine.nics_known || machine.nics.empty(), "NICs that are unknown");
    for (const std::string& note : machine.notes)
        require(printable(note) == note, "a note holds what a terminal acts on");
    for (const Nic& nic : machine.nics) {
        require(printable(nic.name) == nic.name, "an interface name holds what a terminal acts on");
        require(!nic.name.empty(), "an interface without a name");
    }
    for (const Gpu& gpu : machine.gpus)
        require(printable(gpu.name) == gpu.name, "a GPU name holds what a terminal acts on");
}

/// What is saved is read back, and is the same when it is saved again.
void check_saved(const Machine& machine) {
    const std::string saved = machine_to_toml(machine);
    try {
        require(machine_to_toml(machine_from_toml(saved, "saved")) == saved,
                "a saved machine reads back as another");
    } catch (const Error& error) {
        throw Broken(
            fmt::format("a saved machine is refused: {} ({})", error.what(), error.where()));
    }
}

void run_importer(const Importer& importer, std::string_view text) {
    const Lines lines = read_lines(text, "input");
    if (!importer.recognise(lines)) return;
    Reading reading = importer.read(lines);
    settle_machine(reading.machine);
    require(reading.understood.empty() || reading.understood.size() == lines.lines.size(),
            "understood is not one a line");
    check_machine(reading.machine);
    check_saved(reading.machine);
}

/// Several captures of one machine, separated by bytes 0x01.
void run_captures(std::string_view text) {
    std::vector<Capture> captures;
    for (const std::string& part : split(text, '\x01'))
        captures.push_back({fmt::format("input-{}", captures.size()), part});
    if (captures.size() > 8) return;
    const Machine machine = import_captures(captures);
    check_machine(machine);
    check_saved(machine);
}

void run_machine_toml(std::string_view text) {
    const Machine machine = machine_from_toml(text, "input");
    check_machine(machine);
    check_saved(machine);
}

void run_nccl_log_line(std::string_view text) {
    std::string buffer;
    for (const std::string& line : split(text, '\n'))
        nccl_log::parse_line(nccl_log::plain_line(line, buffer));
}

/// A checksum that is wrong would end every run: headers with the magic word get the right one.
void run_tar(std::string_view text) {
    constexpr std::size_t kHeader = 512;
    std::string bytes(text);
    if (packing_of(bytes) == "gzip") bytes = gunzip(bytes, std::size_t{1} << 20, "input").bytes;
    for (std::size_t at = 0; at + kHeader <= bytes.size(); at += kHeader) {
        if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
        bytes.replace(at + 148, 8, "        ");
        unsigned sum = 0;
        for (std::size_t i = at; i < at + kHeader; ++i) sum += static_cast<unsigned char>(bytes[i]);
        bytes.replace(at + 148, 7, fmt::format("{:06o}", sum) + '\0');
    }
    const TarContents contents = read_tar(bytes, "input");
    for (const TreeEntry& entry : contents.entries) {
        require(!entry.path.empty() && entry.path.front() != '/', "an absolute path");
        require(("/" + entry.path + "/").find("/../") == std::string::npos, "a path upwards");
    }
}

/// Detection below the root of a tree: sysfs, KFD, cgroups, GIDs, PCI configuration spaces.
void run_sys_tree(std::string_view text) {
    const Machine machine = machine_from_tar(tar_of_tree_text(text), "input");
    check_machine(machine);
    check_saved(machine);
}

/// What is filled in and what is said of a line: nothing of it acts on a terminal.
void check_line(const launcher::Command& command, const launcher::Environment& environment,
                const env::Plan& plan) {
    launcher::RendezvousFacts facts;
    facts.listening = {29500};
    facts.first_host = "n1";
    const launcher::FilledIn filled =
        fill_in(find_gaps(command, environment), facts, environment, {}, plan, {{}, true});
    std::vector<env::Finding> findings = preflight(command, environment, {});
    findings.insert(findings.end(), filled.findings.begin(), filled.findings.end());
    for (const env::Finding& finding : findings)
        for (const std::string* said : {&finding.what, &finding.evidence, &finding.fix})
            require(printable(*said) == *said, "a finding holds what a terminal acts on");
    for (const env::Setting& setting : filled.settings)
        require(!setting.exported || !environment.contains(setting.name),
                "what was given is changed");
}

/// A command line, one word a line; behind a byte 0x01 variables, NAME=VALUE a line; behind another
/// the text of every file that is read (host files, scripts, configurations).
void run_command_line(std::string_view text) {
    const std::vector<std::string> parts = split(text, '\x01');
    const std::vector<std::string> words = split(parts[0], '\n');
    launcher::Environment environment;
    for (const std::string& line : split(parts.size() > 1 ? parts[1] : "", '\n'))
        if (const std::size_t equals = line.find('='); equals != line.npos && equals > 0)
            environment[line.substr(0, equals)] = line.substr(equals + 1);
    tests::FakeHost host;
    if (parts.size() > 2)
        for (const std::string& word : words)
            if (!host.programs.contains(word)) host.files[word] = parts[2];
    const launcher::Command command = launcher::recognise(words, environment, host);
    require(command.argv == words, "the command line as typed is another");
    require(printable(command.export_only_reason) == command.export_only_reason,
            "a reason holds what a terminal acts on");
    for (const std::string& note : command.notes)
        require(printable(note) == note, "a note holds what a terminal acts on");
    const std::string structure = structure_text(command);
    require(printable(structure) == structure, "the structure holds what a terminal acts on");
    require(
        (command.rewrite == launcher::Rewrite::export_only) == !command.export_only_reason.empty(),
        "a reason without its outcome");
    for (const std::size_t at : command.program_at)
        require(at < words.size(), "a program behind the end");
    env::Plan plan;
    plan.binds = true;
    const launcher::Launch launch =
        prepare_launch(command, plan, {"/T/toporun-shim", "/T/toporun-python", "", "/T/toporun"},
                       {"/N", "/N/plan"}, variables_of_ranks(command, environment), host);
    const std::string changed = tests::touched(words, command, launch.argv);
    require(changed.empty(), changed);
    check_line(command, variables_of_ranks(command, environment), plan);
}

/// "nvidia-smi topo -m" as a file name: "nvidia-smi-topo-m".
std::string file_name(std::string_view format) {
    std::string name;
    for (const char c : format) {
        const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
        if (word)
            name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (!name.empty() && name.back() != '-')
            name += '-';
    }
    while (name.ends_with('-')) name.pop_back();
    return name;
}

std::function<void(std::string_view)> forgiving(std::function<void(std::string_view)> run) {
    return [run = std::move(run)](std::string_view text) {
        try {
            run(text);
        } catch (const Error&) {
            // The answer to text that is not understood.
        }
    };
}

}  // namespace

const std::vector<Target>& targets() {
    static const std::vector<Target> kTargets = [] {
        std::vector<Target> all;
        for (const Importer& importer : importers())
            all.push_back(
                {file_name(importer.format),
                 forgiving([&importer](std::string_view text) { run_importer(importer, text); })});
        all.push_back({"captures", forgiving(run_captures)});
        all.push_back({"machine-toml", forgiving(run_machine_toml)});
        all.push_back({"nccl-log-line", forgiving(run_nccl_log_line)});
        all.push_back({"log-report", forgiving(run_log_report)});
        all.push_back({"command-line", forgiving(run_command_line)});
        all.push_back({"tar", forgiving(run_tar)});
        all.push_back({"sys-tree", forgiving(run_sys_tree)});
        return all;
    }();
    return kTargets;
}

const Target* find_target(std::string_view name) {
    const auto found = std::find_if(targets().begin(), targets().end(),
                                    [&](const Target& target) { return target.name == name; });
    return found == targets().end() ? nullptr : &*found;
}

}  // namespace toporun::fuzz
