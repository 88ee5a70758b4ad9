#include "launcher/command/launch.hpp"

#include <doctest/doctest.h>

#include <map>

#include "base/text.hpp"
#include "fake_host.hpp"

using namespace toporun;
using launcher::Environment;
using launcher::Launch;
using tests::FakeHost;

namespace {

const launcher::Installed kInstalled = {"/opt/t/bin/toporun-shim", "/opt/t/bin/toporun-python",
                                        "/opt/t/lib/libtoporun-nccl.so"};
const launcher::ShimFiles kFiles = {"/tmp/toporun-ab", "/tmp/toporun-ab/ranks.plan"};

env::Setting setting(const std::string& name, const std::string& value, bool exported,
                     bool per_rank = false) {
    env::Setting s;
    s.name = name;
    s.value = value;
    s.exported = exported;
    s.per_rank = per_rank;
    return s;
}

env::Plan plan() {
    env::Plan p;
    p.settings = {setting("NCCL_P2P_LEVEL", "NVL", true), setting("OMP_NUM_THREADS", "4", true),
                  setting("NCCL_IB_HCA", "mlx5_0", false),
                  setting("NCCL_DEBUG", "INFO", true, true)};
    p.settings.emplace_back();
    p.settings.back().name = "NCCL_SOCKET_IFNAME";
    p.settings.back().exported = true;  // without a value: left to NCCL
    p.binds = true;
    p.measures = true;
    return p;
}

Launch prepare(const std::string& line, const Environment& environment = {},
               const launcher::Installed& installed = kInstalled,
               const launcher::ShimFiles& files = kFiles) {
    const FakeHost host;
    return prepare_launch(launcher::recognise(split(line, ' '), environment, host), plan(),
                          installed, files, environment, host);
}

std::map<std::string, std::string> added(const Launch& launch) {
    std::map<std::string, std::string> map(launch.added.begin(), launch.added.end());
    CHECK(map.size() == launch.added.size());  // none twice
    return map;
}

}  // namespace

TEST_CASE("torchrun is given its interpreter and keeps every word") {
    const Launch launch = prepare("torchrun --nproc-per-node=8 t.py --x");
    CHECK(launch.argv == split("torchrun --nproc-per-node=8 t.py --x", ' '));
    CHECK(launch.rewrite == launcher::Rewrite::environment);
    CHECK(launch.notes.empty());
    CHECK(added(launch) ==
          std::map<std::string, std::string>{{"NCCL_P2P_LEVEL", "NVL"},
                                             {"OMP_NUM_THREADS", "4"},
                                             {"PYTHON_EXEC", "/opt/t/bin/toporun-python"},
                                             {"TOPORUN_PYTHON", "/venv/bin/python"},
                                             {"TOPORUN_SHIM_PLAN", "/tmp/toporun-ab/ranks.plan"},
                                             {"TOPORUN_PROFILE_DIR", "/tmp/toporun-ab"},
                                             {"TOPORUN_ACTIVE", "1"}});
}

TEST_CASE("an interpreter that the user named is the one that is recorded") {
    const Launch launch = prepare("torchrun t.py", {{"PYTHON_EXEC", "/usr/bin/python3"}});
    CHECK(added(launch).at("TOPORUN_PYTHON") == "/usr/bin/python3");
    CHECK(added(launch).at("TOPORUN_PYTHON_EXEC") == "/usr/bin/python3");
    CHECK(added(launch).at("PYTHON_EXEC") == "/opt/t/bin/toporun-python");
    const Launch broken = prepare("torchrun t.py", {{"PYTHON_EXEC", "/no/such\x1b[31m"}});
    CHECK_FALSE(added(broken).contains("PYTHON_EXEC"));
    CHECK_FALSE(added(broken).contains("TOPORUN_SHIM_PLAN"));
    CHECK(broken.rewrite == launcher::Rewrite::export_only);
    REQUIRE(broken.notes.size() == 1);
    CHECK(printable(broken.notes[0]) == broken.notes[0]);
    const Launch nested = prepare(
        "torchrun t.py", {{"PYTHON_EXEC", "/other/toporun-python"}, {"TOPORUN_ACTIVE", "1"}});
    CHECK(added(nested).at("TOPORUN_PYTHON") == "/venv/bin/python");
    CHECK_FALSE(added(nested).contains("TOPORUN_PYTHON_EXEC"));
}

TEST_CASE("the shim is one word in front of each program of mpirun") {
    const std::string shim = kInstalled.shim;
    struct Case {
        std::string before;
        std::string after;
    };
    const std::vector<Case> cases = {
        {"mpirun -np 16 ./train", "mpirun -np 16 " + shim + " ./train"},
        {"mpirun -np 1 -x R=s ./s : -np 3 ./w --k=v",
         "mpirun -np 1 -x R=s " + shim + " ./s : -np 3 " + shim + " ./w --k=v"},
        {"mpirun -np 1 -- ./train -n", "mpirun -np 1 -- " + shim + " ./train -n"},
        {"mpirun -np 8 --bind-to core ./train", "mpirun -np 8 --bind-to core " + shim + " ./train"},
        {"mpirun -np 8 --bind-to none ./train", "mpirun -np 8 --bind-to none " + shim + " ./train"},
        {"mpirun -np 8 numactl -N0 python t.py",
         "mpirun -np 8 " + shim + " numactl -N0 python t.py"},
        {"mpirun -np 2 ./missing", "mpirun -np 2 ./missing"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.before);
        const Launch launch = prepare(c.before);
        CHECK(join(launch.argv, " ") == c.after);
        CHECK(added(launch).contains("TOPORUN_SHIM_PLAN") == (c.before != c.after));
        CHECK_FALSE(added(launch).contains("PYTHON_EXEC"));
    }
}

TEST_CASE("where ranks start on other hosts each host is told to decide for itself") {
    const FakeHost host;
    for (const std::string line :
         {"mpirun -np 2 -H node-b ./train", "mpirun -np 4 -H node-a:2,node-b:2 ./train",
          "mpiexec.hydra -hosts node-a,node-b -n 4 ./train"}) {
        CAPTURE(line);
        const launcher::Command command = launcher::recognise(split(line, ' '), {}, host);
        CHECK(command.job.other_hosts);
        CHECK(command.notes.back().find("each host decides for itself") != std::string::npos);
        const Launch launch = launcher::prepare_launch(
            command, plan(), kInstalled,
            {"/tmp/toporun-ab", "/tmp/toporun-ab/shim.plan", {"nodes=2"}}, {}, host);
        // Nothing of this host goes with it but what the launcher itself reads.
        for (const auto& [name, value] : launch.added)
            CHECK((name == "TOPORUN_ACTIVE" || name.starts_with("OMPI_MCA_")));
        const std::size_t program = command.program_at.front();
        const std::vector<std::string> words(
            launch.argv.begin() + static_cast<std::ptrdiff_t>(program), launch.argv.end());
        REQUIRE(words.size() == 9);
        CHECK(words[0] == "/bin/sh");
        CHECK(words[1] == "-c");
        CHECK(words[3] == kInstalled.shim);
        CHECK(words[4] == "--plan=/tmp/toporun-ab/shim.plan");
        CHECK(words[5] == "--node=toporun-ab");
        CHECK(words[6] == "--tell=nodes=2");
        CHECK(words[7] == "--");
        CHECK(words[8] == "./train");
        CHECK(std::equal(launch.argv.begin(),
                         launch.argv.begin() + static_cast<std::ptrdiff_t>(program),
                         command.argv.begin()));
    }
}

TEST_CASE("what deepspeed hands to the shells of other hosts needs no quotes") {
    FakeHost host;
    host.files["hosts"] = "node-a slots=2\nnode-b slots=2\n";
    const launcher::Command command =
        launcher::recognise({"deepspeed", "--hostfile", "hosts", "-x", "train.py"}, {}, host);
    CHECK(command.rewrite == launcher::Rewrite::export_only);
    const launcher::Command known = launcher::recognise(
        {"deepspeed", "--hostfile", "hosts", "train.py", "--lr", "1"}, {}, host);
    const auto words = [&](const std::string& directory) {
        return launcher::prepare_launch(known, plan(), kInstalled,
                                        {"/N", "/N/shim.plan", {"run_directory=" + directory}}, {},
                                        host)
            .argv;
    };
    const std::vector<std::string> argv = words("/data/run-1");
    REQUIRE(argv.size() == 21);
    CHECK(argv[3] == "--no_python");
    CHECK(argv[4] == "--no_local_rank");
    CHECK(argv[6] == "-c");
    // Between quotes of either kind a shell changes nothing in it; pdsh would replace a '%'.
    CHECK(argv[7].find_first_of("'\"\\$`%!") == std::string::npos);
    CHECK(argv[7].find(' ') != std::string::npos);
    CHECK(argv[8] == "4");  // /T/toporun-shim plan= node= tell= | python -u train.py
    CHECK(argv[9] == "7");  // behind train.py
    CHECK(argv[12] == kInstalled.shim);
    for (std::size_t i = 8; i < 17; ++i) {
        CHECK(launcher::passes_shell(argv[i]));
        CHECK_FALSE(argv[i].starts_with("-"));
    }
    CHECK(join({argv.begin() + 17, argv.end()}, " ") == "-u train.py --lr 1");
    CHECK(join(words("/data/my run"), " ") == "deepspeed --hostfile hosts train.py --lr 1");
}

TEST_CASE("only a setting that replaces takes the place of the user's own") {
    const FakeHost host;
    env::Plan taking;
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
        taking.settings.push_back(setting(name, "ours", true));
        taking.settings.back().replaces = true;
    }
    taking.settings.push_back(setting("NCCL_P2P_LEVEL", "NVL", true));
    const Environment users = {
        {"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", "/x"}, {"NCCL_P2P_LEVEL", "SYS"}};
    const auto launch = [&] {
        return added(prepare_launch(launcher::recognise({"./train"}, users, host), taking,
                                    kInstalled, kFiles, users, host));
    };
    const auto taken = launch();
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
        CHECK(taken.at(name) == "ours");
    CHECK_FALSE(taken.contains("NCCL_P2P_LEVEL"));
    for (env::Setting& one : taking.settings) one.replaces = false;
    CHECK_FALSE(launch().contains("NCCL_DEBUG"));
}

TEST_CASE("a shim that is missing means variables only and one note") {
    for (const std::string& line :
         std::vector<std::string>{"mpirun -np 2 ./train", "torchrun t.py"}) {
        CAPTURE(line);
        const Launch launch = prepare(line, {}, {});
        CHECK(launch.argv == split(line, ' '));
        CHECK(launch.rewrite == launcher::Rewrite::export_only);
        CHECK(launch.notes.size() == 1);
        CHECK(added(launch).at("NCCL_P2P_LEVEL") == "NVL");
        CHECK_FALSE(added(launch).contains("PYTHON_EXEC"));
        const Launch no_files = prepare(line, {}, kInstalled, {});
        CHECK(no_files.argv == split(line, ' '));
        CHECK(no_files.notes.size() == 1);
        CHECK_FALSE(added(no_files).contains("TOPORUN_PROFILE_DIR"));
    }
}

TEST_CASE("where toporun's own file is not known each node runs the command as typed") {
    const std::string line = "srun -N2 --ntasks-per-node=1 torchrun --nproc-per-node=8 t.py";
    REQUIRE(prepare(line, {}, {"", "", "", "/opt/t/bin/toporun"}).argv.size() >
            split(line, ' ').size());
    const Launch launch = prepare(line, {}, {});
    CHECK(launch.argv == split(line, ' '));
    CHECK(launch.rewrite == launcher::Rewrite::export_only);
    REQUIRE(launch.notes.size() == 1);
    CHECK(launch.notes.front().find("toporun's own file is not known") != std::string::npos);
}

TEST_CASE("what the user has set is not added again") {
    const Launch launch = prepare("./train", {{"NCCL_P2P_LEVEL", "PIX"}, {"OMP_NUM_THREADS", ""}});
    CHECK_FALSE(added(launch).contains("NCCL_P2P_LEVEL"));
    CHECK_FALSE(added(launch).contains("OMP_NUM_THREADS"));
    CHECK_FALSE(added(launch).contains("NCCL_IB_HCA"));
    CHECK_FALSE(added(launch).contains("NCCL_DEBUG"));
    CHECK_FALSE(added(launch).contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("a toporun inside another says so and counts the level") {
    const Launch launch = prepare("./train", {{"TOPORUN_ACTIVE", "1"}});
    CHECK(added(launch).at("TOPORUN_ACTIVE") == "2");
    CHECK(launch.notes.size() == 1);
    CHECK(added(prepare("./train", {{"TOPORUN_ACTIVE", "x"}})).at("TOPORUN_ACTIVE") == "1");
}
