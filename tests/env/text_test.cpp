#include <string>
#include <vector>

#include "base/text.hpp"
#include "env/settings_text.hpp"
#include "env/summary.hpp"
#include "files.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

env::Job without_shim() {
    env::Job made = job(8, 2);
    made.shim = false;
    return made;
}

Machine two_node_machine() {
    Machine machine = hgx_h100();
    machine.nics.push_back(nic("wg0", NicKind::tunnel, {"10.8.0.2/24"}));
    return machine;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

TEST_CASE("settings as shell text") {
    check_golden(env::settings_sh(plan(two_node_machine(), without_shim())), "env/settings.sh.txt");
}

TEST_CASE("settings as options of srun") {
    check_golden(env::settings_slurm(plan(two_node_machine(), without_shim())),
                 "env/settings.slurm.txt");
}

TEST_CASE("settings as TOML") {
    check_golden(env::settings_toml(plan(two_node_machine(), job(8, 2))), "env/settings.toml.txt");
}

TEST_CASE("the explanation of a plan") {
    check_golden(joined(env::explain_lines(
                     plan(two_node_machine(), job(8, 2), user({{"NCCL_P2P_LEVEL", "nvl"}})))),
                 "env/explain.txt");
}

TEST_CASE("the lines at the start say what was chosen and what was left") {
    struct Row {
        std::string name;
        Machine machine;
        env::Job job;
        env::UserEnvironment environment;
        std::string first, second;
    };
    Machine geforce = host(1, 16);
    add_gpus(geforce, 4, "NVIDIA GeForce RTX 4090", PathType::PHB);
    set_peer_access(geforce, PeerAccess::refused);
    Machine mixed = host(1, 16);
    add_gpus(mixed, 4, "NVIDIA RTX A6000", PathType::SYS);
    connect(mixed, 0, 1, PathType::NVL, 4);
    env::Job plain;
    plain.same_host = true;
    env::Job word = job(1);
    word.ranks_per_node.reset();
    word.ranks_word = "gpu";
    env::Job odd_word = word;
    odd_word.ranks_word = "x\x1b[2Jpu";
    env::Job missing = plain;
    missing.same_host = false;
    missing.why_not_here = "'./train' is not an executable file here";
    env::Job wordy = job(8);
    wordy.shim = false;
    wordy.why_not_here = "a reason of many words that does not fit behind what stands on the line";
    const std::vector<Row> rows = {
        {"a word for the ranks",
         hgx_h100(),
         word,
         {},
         "P2P: every pair NVL, NCCL_P2P_LEVEL=NVL; interface: left to NCCL (eth0); 8 ranks bound "
         "by NUMA, 14 cores each",
         "OMP_NUM_THREADS=8, up to 13 loader workers per rank"},
        {"a word that says nothing",
         Machine{},
         odd_word,
         {},
         "P2P: nothing to choose; interface: left to NCCL",
         "CPU binding, threads and loader workers: left as they are, how many ranks "
         "'x\\x1b[2Jpu' means here is not known"},
        {"a program that is missing",
         Machine{},
         missing,
         {},
         "P2P: nothing to choose; interface: left to NCCL",
         "CPU binding, threads and loader workers: left as they are, './train' is not an "
         "executable file here"},
        {"a reason that does not fit on the first line",
         hgx_h100(),
         wordy,
         {},
         "P2P: every pair NVL, NCCL_P2P_LEVEL=NVL; interface: left to NCCL (eth0)",
         "OMP_NUM_THREADS=8, up to 13 loader workers per rank; ranks not bound to CPUs: a reason "
         "of many words that does not fit behind what stands on the line"},
        {"hgx",
         hgx_h100(),
         job(8),
         {},
         "P2P: every pair NVL, NCCL_P2P_LEVEL=NVL; interface: left to NCCL (eth0); 8 ranks bound "
         "by "
         "NUMA, 14 cores each",
         "OMP_NUM_THREADS=8, up to 13 loader workers per rank"},
        {"geforce",
         geforce,
         job(4),
         {},
         "P2P: every pair SHM, left to NCCL; interface: left to NCCL; 4 ranks bound by NUMA, 4 "
         "cores each",
         "OMP_NUM_THREADS=3, up to 3 loader workers per rank"},
        {"some pairs", mixed, job(4), user({{"NCCL_P2P_LEVEL", "SYS"}, {"OMP_NUM_THREADS", "2"}}),
         "P2P: every pair P2P, NCCL_P2P_LEVEL=SYS (yours); interface: left to NCCL; 4 ranks bound "
         "by "
         "NUMA, 4 cores each",
         "OMP_NUM_THREADS=2 (yours), up to 3 loader workers per rank"},
        {"no GPU",
         host(1, 2),
         job(4),
         {},
         "P2P: nothing to choose; interface: left to NCCL; ranks not bound to CPUs: 4 ranks on 2 "
         "cores: "
         "sharing is left to the kernel",
         "OMP_NUM_THREADS=1, no core to spare for loader workers"},
        {"nothing known",
         Machine{},
         plain,
         {},
         "P2P: nothing to choose; interface: left to NCCL",
         "CPU binding, threads and loader workers: left as they are, how many ranks will run is "
         "not "
         "known"},
        {"nothing known but the user's threads", Machine{}, plain, user({{"OMP_NUM_THREADS", "2"}}),
         "P2P: nothing to choose; interface: left to NCCL; ranks not bound to CPUs: the number of "
         "ranks on "
         "this host is not known",
         "OMP_NUM_THREADS=2 (yours), no advice on loader workers"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto lines =
            env::plan_lines(row.job, row.machine, plan(row.machine, row.job, row.environment));
        REQUIRE(lines.size() == 2);
        CHECK(lines[0] == row.first);
        CHECK(lines[1] == row.second);
    }
}

TEST_CASE("a reason that fits on no line has its own, cut between two words") {
    env::Job wordy = job(8);
    wordy.shim = false;
    for (int i = 0; i < 40; ++i) wordy.why_not_here += "words ";
    const auto lines = env::plan_lines(wordy, hgx_h100(), plan(hgx_h100(), wordy));
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].starts_with("ranks not bound to CPUs: words words"));
    CHECK(lines[1].ends_with(" words..."));
    CHECK(lines[2] == "OMP_NUM_THREADS=8, up to 13 loader workers per rank");
    wordy.why_not_here = std::string(300, 'w');
    const auto whole = env::plan_lines(wordy, hgx_h100(), plan(hgx_h100(), wordy));
    REQUIRE(whole.size() == 3);
    CHECK(whole[1].size() == 150);
}

TEST_CASE("lines stay narrow and printable whatever the names and values hold") {
    Machine machine = hgx_h100();
    for (int i = 0; i < 30; ++i)
        machine.nics.push_back(nic("\x1b[31m\xff" + std::to_string(i), NicKind::ethernet,
                                   {"10.1." + std::to_string(i) + ".1/24"}));
    const auto made = plan(machine, job(8, 2),
                           user({{"NCCL_P2P_LEVEL", std::string(500, '\x07')},
                                 {"OMP_NUM_THREADS", std::string(300, '\n')},
                                 {"NCCL_DEBUG", "\x1b]0;title\x07"}}));
    for (const std::string& line : env::plan_lines(job(8, 2), machine, made)) {
        CHECK(line.size() < 160 - std::string("toporun: ").size());
        CHECK(toporun::printable(line) == line);
    }
    for (const std::string& line : env::explain_lines(made))
        CHECK(toporun::printable(line) == line);
}

TEST_CASE("values that a format cannot hold are written so that they survive") {
    env::Plan made;
    env::Setting one;
    one.name = "NCCL_DEBUG_FILE";
    one.value = "/tmp/it's $(here)/\"a\\b\x1b.log";
    one.reason = "line one\nexport EVIL=1";
    one.exported = true;
    made.settings = {one};
    CHECK(env::settings_sh(made) ==
          "# line one\\x0aexport EVIL=1\nexport NCCL_DEBUG_FILE='/tmp/it'\\''s $(here)/"
          "\"a\\b\x1b.log'\n");
    CHECK(env::settings_slurm(made).ends_with("\n--export=ALL\n"));
    CHECK(env::settings_slurm(made).find("write before srun: export NCCL_DEBUG_FILE=") !=
          std::string::npos);
    CHECK(env::settings_toml(made).ends_with(
        "NCCL_DEBUG_FILE = \"/tmp/it's $(here)/\\\"a\\\\b\\u001b.log\"\n"));
    made.settings.clear();
    CHECK(env::settings_sh(made) == "# everything is left to NCCL\n");
    CHECK(env::settings_slurm(made) == "--export=ALL\n");
}

}  // namespace
