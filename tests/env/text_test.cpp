#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "env/explain.hpp"
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
    const auto made = plan(two_node_machine(), without_shim());
    check_golden(env::settings_sh(made, true), "env/settings.sh.txt");
    const std::string all = env::settings_sh(made, true);
    CHECK(env::settings_sh(made, false) == all.substr(0, all.find("# ")));
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
         "OMP_NUM_THREADS=8, up to 8 loader workers per rank"},
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
         "OMP_NUM_THREADS=8, up to 8 loader workers per rank; ranks not bound to CPUs: a reason "
         "of many words that does not fit behind what stands on the line"},
        {"hgx",
         hgx_h100(),
         job(8),
         {},
         "P2P: every pair NVL, NCCL_P2P_LEVEL=NVL; interface: left to NCCL (eth0); 8 ranks bound "
         "by "
         "NUMA, 14 cores each",
         "OMP_NUM_THREADS=8, up to 8 loader workers per rank"},
        {"geforce",
         geforce,
         job(4),
         {},
         "P2P: every pair SHM, left to NCCL; interface: left to NCCL; 4 ranks bound, 4 "
         "cores each",
         "OMP_NUM_THREADS=3, up to 3 loader workers per rank"},
        {"some pairs", mixed, job(4), user({{"NCCL_P2P_LEVEL", "SYS"}, {"OMP_NUM_THREADS", "2"}}),
         "P2P: every pair P2P, NCCL_P2P_LEVEL=SYS (yours); interface: left to NCCL; 4 ranks bound, "
         "4 cores each",
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
    CHECK(lines[2] == "OMP_NUM_THREADS=8, up to 8 loader workers per rank");
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
    for (const std::string& line : env::explain_lines(made)) {
        CHECK(toporun::printable(line) == line);
        // A long word is not cut.
        CHECK((line.size() <= env::kExplainWidth || line.find("\\") != std::string::npos));
    }
}

TEST_CASE("text is wrapped between words only") {
    using Lines = std::vector<std::string>;
    CHECK(env::wrapped("  why  ", "a bc def", 12) == Lines{"  why  a bc", "       def"});
    CHECK(env::wrapped("  ", "", 20) == Lines{"  "});
    CHECK(env::wrapped("- ", "a-word-that-is-long b", 8) == Lines{"- a-word-that-is-long", "  b"});
    CHECK(env::wrapped("", "\u00e4\u00e4 \u00e4\u00e4", 5) == Lines{"\u00e4\u00e4 \u00e4\u00e4"});
    CHECK(env::wrapped("", "a  b ", 3) == Lines{"a b"});
}

TEST_CASE("the explanation says what was the same by default and what was not") {
    Machine faulty = host(2, 16);
    add_gpus(faulty, 4, "NVIDIA L40S", PathType::PXB);
    set_acs_redirect(faulty, AcsRedirect::on);
    const auto has = [](const std::vector<std::string>& lines, const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    CHECK(has(env::explain_lines(plan(faulty, job(4))), "  the pairs: 6 SHM; by default 6 P2P"));
    CHECK(has(env::explain_lines(plan(hgx_h100(), job(8))), "  the pairs: 28 P2P, as by default"));
    CHECK(has(env::explain_lines({}), "  ranks bound to CPUs: no"));
}

/// What `shell` prints; nothing when it is not installed.
std::optional<std::string> printed_by(const std::string& shell, const std::string& script) {
    if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) return std::nullopt;
    const std::string command = shell + " -c " + toporun::shell_word(script);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                               ::pclose);
    REQUIRE(pipe);
    std::string text;
    for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get()))
        text += static_cast<char>(c);
    return text;
}

TEST_CASE("every shell reads back what was meant, whatever the value holds") {
    const std::vector<std::string> values = {
        "eth0",    "=eth0,ib0",  "^docker",        "a b  c",   "it's", "$(echo no)",
        "`no`",    "\"a\"",      "a\\b\\n",        "*",        "~",    "a;b&c|d",
        "#no",     "!no",        "x\ny",           "\x1b[31m", "-n",   "%s%d",
        "${HOME}", "\t",         "\u00e4\u4e16",   "{a,b}",    "a=b",  "\xff",
        "a\n\n",   "\xc2\x9bm!", "-\xe2\x80\xae%'"};
    env::Plan made;
    std::string expected;
    for (std::size_t i = 0; i < values.size(); ++i) {
        env::Setting one;
        one.name = "NCCL_VALUE_" + std::to_string(i);
        one.value = values[i];
        one.reason = "it's a \"reason\" with `no` $(no) (parenthesis";
        one.exported = true;
        made.settings.push_back(one);
        expected += values[i] + "|";
    }
    const TemporaryDirectory directory;
    for (const bool comments : {false, true}) {
        const auto file = directory.write("settings", env::settings_sh(made, comments));
        std::string printing = "printf '%s|'";
        for (const env::Setting& one : made.settings) printing += " \"$" + one.name + "\"";
        int shells = 0;
        for (const std::string shell : {"sh", "bash", "dash", "zsh", "ksh", "busybox sh"}) {
            const auto text =
                printed_by(shell, "cd /; eval \"$(cat " + file.string() + ")\"; " + printing);
            if (!text) continue;
            ++shells;
            CAPTURE(shell);
            CHECK(*text == expected);
        }
        CHECK(shells >= 1);
    }
}

TEST_CASE("eval without quotes reads ordinary values all the same") {
    const auto made = plan(two_node_machine(), without_shim());
    const TemporaryDirectory directory;
    for (const bool comments : {false, true}) {
        const auto file = directory.write("settings", env::settings_sh(made, comments));
        const auto text = printed_by("sh", "cd /; eval $(cat " + file.string() +
                                               "); echo $NCCL_P2P_LEVEL $NCCL_SOCKET_IFNAME "
                                               "$OMP_NUM_THREADS $NCCL_DEBUG_FILE");
        CHECK(text == "NVL eth0 8 /tmp/run/logs/nccl.%h.%p.log\n");
    }
}

TEST_CASE("values that a format cannot hold are written so that they survive") {
    env::Plan made;
    env::Setting one;
    one.name = "NCCL_DEBUG_FILE";
    one.value = "/tmp/it's $(here)/\"a\\b\x1b.log";
    one.reason = "line one\nexport EVIL=1";
    one.exported = true;
    made.settings = {one};
    const std::string line =
        R"x(export NCCL_DEBUG_FILE="$(printf '/tmp/it\047s $(here)/"a\\b\033.log')";)x"
        "\n";
    CHECK(env::settings_sh(made, false) == line);
    CHECK(env::settings_sh(made, true) == line + "# NCCL_DEBUG_FILE: line one\\x0aexport EVIL=1\n");
    CHECK(env::settings_slurm(made) == "--export=ALL\n");
    CHECK(env::settings_before_slurm(made) ==
          std::vector<std::string>{line.substr(0, line.size() - 2)});
    CHECK(env::settings_toml(made).ends_with(
        "NCCL_DEBUG_FILE = \"/tmp/it's $(here)/\\\"a\\\\b\\u001b.log\"\n"));
    made.settings[0].value = "\xc3\xa4\xc2\x9b\xe2\x80\xae\xf0\x9f\x98\x80\x7f";
    CHECK(env::settings_toml(made).ends_with(
        "NCCL_DEBUG_FILE = \"\xc3\xa4\\u009b\\u202e\xf0\x9f\x98\x80\\u007f\"\n"));
    made.settings[0].value = "/tmp/\xc3\x28";
    CHECK(env::settings_toml(made) ==
          "[settings]\n# NCCL_DEBUG_FILE: TOML cannot hold this value, it is no UTF-8: "
          "/tmp/\\xc3(\n");
    made.settings.clear();
    CHECK(env::settings_sh(made, true) == "# everything is left alone\n");
    CHECK(env::settings_sh(made, false) == "");
    CHECK(env::settings_slurm(made) == "--export=ALL\n");
    CHECK(env::settings_before_slurm(made).empty());
}

TEST_CASE("the run says which GPUs the ranks get where toporun chose them") {
    Machine machine = hgx_h100();
    machine.gpus[0].memory_used_bytes = std::uint64_t{40} << 30;
    for (std::size_t i = 1; i < machine.gpus.size(); ++i) machine.gpus[i].memory_used_bytes = 0;
    const auto made = plan(machine, job(4));
    REQUIRE(exported(made, "CUDA_VISIBLE_DEVICES"));
    CHECK(env::plan_lines(job(4), machine, made)[1] ==
          "ranks 0 to 3 on GPUs 4,5,6,7 (CUDA_VISIBLE_DEVICES)");
}

TEST_CASE("transports are told with a proviso where NVLink may be") {
    Machine machine = host(1, 16);
    add_gpus(machine, 4, "NVIDIA A100-SXM4-40GB", PathType::PHB);
    for (auto& row : machine.gpu_links) row.assign(4, -1);
    CHECK(env::plan_lines(job(4), machine, plan(machine, job(4)))[0].starts_with(
        "P2P: every pair SHM where no NVLink joins them, left to NCCL"));
}

}  // namespace
