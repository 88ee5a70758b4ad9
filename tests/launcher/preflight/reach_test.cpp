// Whether the nodes can meet where they were told to, and what job scripts get wrong beside the
// counts.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "launcher/preflight/preflight.hpp"

namespace toporun::launcher {
namespace {

using env::Severity;
using tests::FakeHost;

Environment step(int nodes, int task, Environment more = {}) {
    more.insert({{"SLURM_JOB_ID", "7"},
                 {"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
                 {"SLURM_STEP_NUM_TASKS", std::to_string(nodes)},
                 {"SLURM_STEP_TASKS_PER_NODE", "1(x" + std::to_string(nodes) + ")"},
                 {"SLURM_PROCID", std::to_string(task)},
                 {"SLURM_NODEID", std::to_string(task)}});
    return more;
}

/// eth0 with 10.0.0.1.
detect::Machine first_node() {
    detect::Machine machine;
    for (const auto& [name, address] : std::vector<std::pair<std::string, std::string>>{
             {"lo", "127.0.0.1/8"}, {"eth0", "10.0.0.1/24"}}) {
        detect::Nic nic;
        nic.name = name;
        nic.state = "up";
        nic.addresses = {address};
        machine.nics.push_back(nic);
    }
    return machine;
}

struct Row {
    std::string line;
    Environment environment;
    LineFacts facts;
    std::string id;  ///< the only finding; "" = none
    Severity severity = Severity::broken;
    std::string what = {};  ///< part of it
};

LineFacts name(const std::string& host, std::vector<std::string> addresses) {
    LineFacts facts;
    facts.addresses[host] = std::move(addresses);
    return facts;
}

LineFacts listening(int port) {
    LineFacts facts;
    facts.listening = {port};
    return facts;
}

void check(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        CAPTURE(row.line);
        const Command command = recognise(split(row.line, ' '), row.environment, FakeHost());
        const auto findings = preflight(command, variables_of_ranks(command, row.environment),
                                        first_node(), row.facts);
        std::string ids;
        for (const env::Finding& finding : findings) ids += finding.id + " ";
        CHECK(ids == (row.id.empty() ? "" : row.id + " "));
        if (findings.size() != 1) continue;
        CHECK(severity_text(findings[0].severity) == severity_text(row.severity));
        CHECK(findings[0].what.find(row.what) != std::string::npos);
        CHECK_FALSE(findings[0].evidence.empty());
        CHECK_FALSE(findings[0].effect.empty());
        CHECK_FALSE(findings[0].fix.empty());
    }
}

const std::string kStatic = "torchrun --nnodes=2 --master-port=29500 --node-rank=";
const std::string kC10d = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=";

TEST_CASE("the name where the nodes meet") {
    check({
        {kStatic + "1 --master-addr=n1 t.py",
         {},
         name("n1", {}),
         "rendezvous-unresolved",
         Severity::broken,
         "n1"},
        {kC10d + "n1:29500 t.py", {}, name("n1", {}), "rendezvous-unresolved"},
        {kStatic + "1 --master-addr=n1 t.py",
         {},
         name("n1", {"127.0.1.1"}),
         "rendezvous-loopback",
         Severity::broken,
         "n1 is 127.0.1.1 here"},
        {"python t.py", step(2, 1, {{"MASTER_ADDR", "n1"}}), name("n1", {"127.0.1.1"}),
         "rendezvous-loopback"},
        // Debian's line for the host's own name, on the host itself.
        {kStatic + "0 --master-addr=n1 t.py", {}, name("n1", {"127.0.1.1"}), ""},
        {kC10d + "n1:29500 t.py", {}, name("n1", {"127.0.1.1"}), ""},
        {kStatic + "1 --master-addr=n1 t.py", {}, name("n1", {"10.0.0.9"}), ""},
        {kStatic + "1 --master-addr=n1 t.py", {}, {}, ""},
        {"torchrun --master-addr=n1 t.py", {}, name("n1", {}), ""},
    });
}

TEST_CASE("the node that has to listen has the address") {
    check({
        {kStatic + "0 --master-addr=10.0.0.9 t.py",
         {},
         {},
         "rendezvous-not-here",
         Severity::broken,
         "10.0.0.9: no address of this node"},
        {kStatic + "0 --master-addr=n1 t.py",
         {},
         name("n1", {"10.0.0.8", "10.0.0.9"}),
         "rendezvous-not-here"},
        {"python t.py", step(2, 0, {{"MASTER_ADDR", "10.0.0.9"}}), {}, "rendezvous-not-here"},
        {kC10d + "10.0.0.9:29500 t.py",
         step(2, 0, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}}),
         {},
         "rendezvous-not-here",
         Severity::slow},
        {kStatic + "0 --master-addr=10.0.0.1 t.py", {}, {}, ""},
        {kStatic + "0 --master-addr=n1 t.py", {}, name("n1", {"10.0.0.8", "10.0.0.1"}), ""},
        {kStatic + "1 --master-addr=10.0.0.9 t.py", {}, {}, ""},
        {"python t.py", step(2, 1, {{"MASTER_ADDR", "10.0.0.9"}}), {}, ""},
        {kC10d + "10.0.0.9:29500 t.py", step(2, 0), {}, ""},
        {kC10d + "10.0.0.1:29500 t.py",
         step(2, 0, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}}),
         {},
         ""},
    });
    const Command command =
        recognise(split(kStatic + "0 --master-addr=10.0.0.9 t.py", ' '), {}, FakeHost());
    CHECK(preflight(command, {}, {}).empty());  // the interfaces are not known
}

TEST_CASE("the port where this node has to listen is in use") {
    check({
        {kStatic + "0 --master-addr=10.0.0.1 t.py",
         {},
         listening(29500),
         "rendezvous-port-taken",
         Severity::broken,
         "29500"},
        {"torchrun --nproc-per-node=2 t.py", {}, listening(29500), "rendezvous-port-taken"},
        {"torchrun --master-port=1234 t.py", {}, listening(1234), "rendezvous-port-taken"},
        {"python t.py", step(1, 0, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1234"}}),
         listening(1234), "rendezvous-port-taken"},
        {"torchrun t.py", {{"PET_MASTER_PORT", "1234"}}, listening(29500), ""},
        {kStatic + "1 --master-addr=10.0.0.9 t.py", {}, listening(29500), ""},
        {kC10d + "10.0.0.1:29500 t.py", {}, listening(29500), ""},
        {"torchrun --standalone t.py", {}, listening(29500), ""},
    });
    const Command command = recognise({"torchrun", "t.py"}, {}, FakeHost());
    CHECK(questions_on_line(command, {}).ports);
    CHECK(questions_on_line(command, {}).names.empty());
    const Command several = recognise(split(kC10d + "n1:29500 t.py", ' '), {}, FakeHost());
    CHECK(questions_on_line(several, {}).names == std::vector<std::string>{"n1"});
    CHECK(questions_on_line(several, {}).own_name);
    CHECK_FALSE(questions_on_line(several, {}).ports);
}

TEST_CASE("c10d asks for the host's own name") {
    LineFacts facts;
    facts.own_name = false;
    check({
        {kC10d + "10.0.0.1:29500 t.py", {}, facts, "own-name-unresolved"},
        {kStatic + "0 --master-addr=10.0.0.1 t.py", {}, facts, ""},
        {"torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py", {}, facts, ""},
    });
}

TEST_CASE("an empty variable of the job script") {
    check({
        {"srun -n ./train",
         {{"SLURM_JOB_ID", "7"}},
         {},
         "count-not-a-number",
         Severity::broken,
         "-n ./train"},
        {"torchrun --nnodes= t.py", {}, {}, "count-not-a-number", Severity::broken, "--nnodes="},
        {"srun -N 2-4 ./train", {{"SLURM_JOB_ID", "7"}}, {}, ""},
        {"srun -n 1k ./train", {{"SLURM_JOB_ID", "7"}}, {}, ""},
        {"torchrun --nproc-per-node=gpu t.py", {}, {}, ""},
    });
}

TEST_CASE("one rank for all tasks") {
    check({
        {"python t.py", step(2, 1, {{"RANK", "0"}}), {}, "rank-fixed", Severity::broken, "RANK=0"},
        {"srun -N 2 -n 4 python t.py", {{"RANK", "0"}, {"SLURM_JOB_ID", "7"}}, {}, "rank-fixed"},
        {"python t.py", step(2, 1, {{"RANK", "1"}}), {}, ""},
        {"python t.py", step(1, 0, {{"RANK", "3"}}), {}, ""},
        {"./train", step(2, 1, {{"RANK", "0"}}), {}, ""},
        {"srun -N 1 -n 1 python t.py", {{"RANK", "0"}, {"SLURM_JOB_ID", "7"}}, {}, ""},
    });
}

TEST_CASE("signals, the time limit and images") {
    const Environment job = {{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "1"}};
    const std::string torchrun = " torchrun --nproc-per-node=2 t.py";
    LineFacts five, thirty;
    five.kill_wait_s = 5;
    thirty.kill_wait_s = 30;
    Environment tuned = job;
    tuned["NCCL_IB_HCA"] = "mlx5";
    Environment submitted = job;
    submitted["SBATCH_SIGNAL"] = "USR1@60";
    check({
        {"srun --signal=USR1@60" + torchrun,
         job,
         {},
         "signal-ends-torchrun",
         Severity::slow,
         "SIGUSR1"},
        {"srun --signal=R:sigusr2@60" + torchrun,
         job,
         {},
         "signal-ends-torchrun",
         Severity::slow,
         "SIGUSR2"},
        {"srun" + torchrun, submitted, {}, "signal-ends-torchrun", Severity::slow},
        {"srun --signal=10@60" + torchrun,
         job,
         {},
         "signal-ends-torchrun",
         Severity::slow,
         "SIGUSR1"},
        {"srun --signal=10 torchrun --signals-to-handle=SIGTERM,SIGUSR1 t.py", job, {}, ""},
        {"srun --signal=B:USR1@60" + torchrun, job, {}, ""},
        {"srun --signal=TERM@60" + torchrun, job, {}, ""},
        {"srun --signal=15" + torchrun, job, {}, ""},
        {"srun --signal=USR1@60 torchrun --signals-to-handle=SIGTERM,SIGUSR1 t.py", job, {}, ""},
        {"srun --signal=USR1@60 ./train", job, {}, ""},
        {"torchrun t.py", step(1, 0), five, "kill-wait-short", Severity::note, "5 s"},
        {"torchrun t.py", step(1, 0), thirty, ""},
        {"torchrun t.py", {}, five, ""},
        {"srun --container-image=img ./train",
         tuned,
         {},
         "image-variables-win",
         Severity::note,
         "NCCL_IB_HCA"},
        {"srun --container-image=img --container-env=A,NCCL_IB_HCA ./train", tuned, {}, ""},
        {"srun --container-image=img ./train", job, {}, ""},
        {"srun ./train", tuned, {}, ""},
    });
    // Names that the user has listed stay in the list.
    const Command listed = recognise(
        split("srun --container-image=img --container-env=A,B ./train", ' '), tuned, FakeHost());
    const auto findings =
        preflight(listed, variables_of_ranks(listed, tuned), first_node(), LineFacts());
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].fix == "srun --container-env=A,B,NCCL_IB_HCA");
    CHECK(kill_wait("# KillWait=9\nClusterName=a\n  killwait=7 # s\n") == 7);
    CHECK_FALSE(kill_wait("KillWait=x\n"));
    CHECK_FALSE(kill_wait(""));
}

}  // namespace
}  // namespace toporun::launcher
