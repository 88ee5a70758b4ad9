// Command lines and what becomes of them: tests/data/launcher/command-lines.txt, see there.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "files.hpp"
#include "launcher/command/launch.hpp"
#include "untouched.hpp"

using namespace toporun;
using launcher::Environment;

namespace {

const std::string kFile = std::string(TOPORUN_TEST_DATA) + "/launcher/command-lines.txt";

/// The words of a line of sh that holds nothing but words, single quotes and backslashes.
std::vector<std::string> shell_words(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    bool any = false;
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '\'') {
            quoted = !quoted;
            any = true;
        } else if (c == '\\' && !quoted && i + 1 < line.size()) {
            word += line[++i];
            any = true;
        } else if (c == ' ' && !quoted) {
            if (any) words.push_back(std::exchange(word, ""));
            any = false;
        } else {
            word += c;
            any = true;
        }
    }
    REQUIRE_FALSE(quoted);
    if (any) words.push_back(word);
    return words;
}

tests::FakeHost golden_host() {
    tests::FakeHost host;
    host.files["here.hosts"] = "node-a slots=8\n";
    host.files["there.hosts"] = "node-a slots=8\nnode-b slots=8\n";
    host.files["lines.hosts"] = "node-a\nnode-b\n";
    for (int i = 0; i < 7; ++i) host.files["lines.hosts"] += "node-a\nnode-b\n";
    host.files["pe.hosts"] = "node-a 8 q@node-a UNDEFINED\nnode-b 8 q@node-b UNDEFINED\n";
    host.files["one.yaml"] = "distributed_type: 'NO'\nnum_processes: 1\n";
    host.files["eight.yaml"] = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n";
    host.files["aws.yaml"] = "compute_environment: AMAZON_SAGEMAKER\n";
    host.files["ray.yml"] = "base_model: m\nuse_ray: true\n";
    host.files["trl.yaml"] = "model_name_or_path: m\nnum_processes: 4\n";
    host.files["rankfile"] = "rank 0=node-a slot=0\n";
    host.files["train.sh"] = "torchrun train.py\n";
    host.files["gpus.yaml"] = "distributed_type: MULTI_GPU\ngpu_ids: 6,7\nnum_processes: 2\n";
    host.files["list.sh"] = "export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK\n./train\n";
    host.files["submit.sh"] = "#!/bin/bash\nsbatch --nodes=2 job.slurm\n";
    host.files["docker.sh"] =
        "# tested in docker\ntorchrun train.py --data /data/docker/x --deepspeed z.json\n";
    host.files["here.sh"] = "cat <<EOF\ndon't\nEOF\nsrun -n 4 python train.py\n";
    host.files["open.sh"] = "echo don't\nsrun -n 4 python train.py # it's\necho 'a\n";
    host.files["nested.sh"] = "timeout 60 bash -c 'apptainer exec i.sif python train.py'\n";
    host.files["programs"] = "# two kinds\n0 ./a --x %t\n\n1-3  bash -c 'echo %o' it\\'s %o\n";
    host.files["shells.conf"] = "0-1 bash -c 'torchrun t.py'\n";
    host.files["missing.conf"] = "0 ./a\n1 ./missing\n";
    host.files["launcher.conf"] = "0-1 torchrun train.py\n";
    host.files["open.conf"] = "0-1 ./a 'x\n";
    host.files["held.sh"] = "RUN=\"srun -n 4\"\n$RUN python train.py\n";
    host.files["default.sh"] = "${RUN:-srun -n 4} python train.py\n";
    for (const char* name : {"./a", "./b", "./t", "./prog", "/abs/python"})
        host.programs[name] = tests::kElf;
    return host;
}

env::Plan golden_plan() {
    env::Plan plan;
    plan.settings.emplace_back();
    plan.settings.back().name = "NCCL_P2P_LEVEL";
    plan.settings.back().value = "NVL";
    plan.settings.back().exported = true;
    plan.binds = true;
    return plan;
}

/// What is written below a command line.
std::string outcome(const std::vector<std::string>& typed, const Environment& environment) {
    const tests::FakeHost host = golden_host();
    const launcher::Command command = launcher::recognise(typed, environment, host);
    const launcher::Launch launch = prepare_launch(
        command, golden_plan(), {"/T/toporun-shim", "/T/toporun-python", "", "/T/toporun"},
        {"/N", "/N/plan"}, variables_of_ranks(command, environment), host);
    CHECK(tests::touched(typed, command, launch.argv) == "");
    std::string text = "= " + launcher::structure_text(command) + "\n";
    if (command.job.user_binds) text += "= the user binds the ranks\n";
    for (const std::string& reason : {command.job.gpu_list_by, command.job.rank_gpus_unknown})
        if (!reason.empty()) text += "= GPUs: " + reason + "\n";
    if (command.job.cpu_job) text += "= ranks on CPUs\n";
    const Environment ranks = variables_of_ranks(command, environment);
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "NCCL_P2P_DISABLE"})
        if (const auto found = ranks.find(name); found != ranks.end())
            text += std::string("= given: ") + name + "=" + found->second + "\n";
    for (const std::string& note : command.notes) text += "= note: " + note + "\n";
    for (const auto& [name, value] : launch.added)
        if (name == "PYTHON_EXEC" || name == "TOPORUN_PYTHON")
            text += "+ " + name + "=" + value + "\n";
    if (launch.argv != typed) text += "> " + shell_line(launch.argv) + "\n";
    if (!launch.programs_path.empty())
        for (const std::string& line :
             split(program_file_text(launch.program_lines, launch.rank_words), '\n'))
            if (!line.empty()) text += "| " + line + "\n";
    return text;
}

}  // namespace

TEST_CASE("command lines are recognised and rewritten as the file says") {
    const std::string expected = tests::read_file(kFile);
    std::string actual;
    Environment environment;
    std::size_t lines = 0;
    for (const std::string& line : split(expected, '\n')) {
        if (line.starts_with("= ") || line.starts_with("+ ") || line.starts_with("> ") ||
            line.starts_with("| "))
            continue;
        actual += line + "\n";
        if (line.starts_with("with ")) {
            for (const std::string& word : shell_words(line.substr(5)))
                environment[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
        } else if (line.starts_with("$ ")) {
            CAPTURE(line);
            actual += outcome(shell_words(line.substr(2)), environment);
            environment.clear();
            ++lines;
        }
    }
    actual.pop_back();  // split() gives an empty part behind the last line
    CHECK(lines > 120);
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {
        std::ofstream(kFile, std::ios::binary) << actual;
        return;
    }
    const std::vector<std::string> want = split(expected, '\n');
    const std::vector<std::string> have = split(actual, '\n');
    for (std::size_t i = 0; i < std::max(want.size(), have.size()); ++i) {
        CAPTURE(i + 1);
        REQUIRE((i < have.size() ? have[i] : "") == (i < want.size() ? want[i] : ""));
    }
}
