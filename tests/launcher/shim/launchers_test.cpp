// The shim under real launchers; each test says so when its launcher is not installed.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "launcher/command/launch.hpp"
#include "launcher/shim/plan_file.hpp"
#include "runner.hpp"

using namespace toporun;
using launcher::RankRecord;
using tests::binary;
using tests::Result;
using tests::run;
using tests::TemporaryDirectory;
using tests::Variables;

namespace {

const std::string kMpirun = "/usr/bin/mpirun";
const std::string kTorchrun = "/usr/bin/torchrun";

bool installed(const std::string& program) {
    if (std::filesystem::exists(program)) return true;
    MESSAGE("skipped: " << program << " is not installed");
    return false;
}

/// TMPDIR and HOME of its own: nothing of this machine's user takes part.
Variables base(const TemporaryDirectory& directory) {
    return {{"PATH", "/usr/bin:/bin"},
            {"HOME", directory.path().string()},
            {"TMPDIR", "/tmp"},
            {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

std::vector<RankRecord> sorted_records(const std::filesystem::path& file) {
    std::vector<RankRecord> records = launcher::parse_rank_records(tests::read_file(file));
    std::sort(records.begin(), records.end(),
              [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
    return records;
}

Result mpirun(std::vector<std::string> words, const Variables& variables) {
    words.insert(words.begin(), {kMpirun, "--oversubscribe"});
    return run({.argv = std::move(words), .variables = variables});
}

}  // namespace

TEST_CASE("under mpirun each rank is recorded and bound as planned") {
    if (!installed(kMpirun)) return;
    const TemporaryDirectory directory;
    const detect::CpuSet all = tests::own_mask();
    const std::string records = (directory.path() / "ranks").string();
    std::string plan = "toporun-shim 1\nlauncher openmpi\nrecords " + records + "\nallowed " +
                       all.text() + "\nlocal_size 4\n";
    const auto cpu_of = [&](int rank) {
        return detect::CpuSet({all.indices()[static_cast<std::size_t>(rank % all.count())]});
    };
    for (int rank = 0; rank < 4; ++rank)
        plan += "cpus " + std::to_string(rank) + " " + cpu_of(rank).text() + "\n";
    Variables variables = base(directory);
    variables["TOPORUN_SHIM_PLAN"] = directory.write("plan", plan).string();
    variables["OMPI_MCA_hwloc_base_binding_policy"] = "none";
    const Result result = mpirun({"-np", "4", binary("toporun-shim"), "sh", "-c",
                                  "echo $OMPI_COMM_WORLD_RANK $TOPORUN_SHIM_PLAN "
                                  "$(grep Cpus_allowed_list /proc/self/status)"},
                                 variables);
    CAPTURE(result.error);
    REQUIRE(result.status == 0);
    const std::vector<RankRecord> ranks = sorted_records(records);
    REQUIRE(ranks.size() == 4);
    for (int rank = 0; rank < 4; ++rank) {
        const RankRecord& record = ranks[static_cast<std::size_t>(rank)];
        CHECK(record.rank == rank);
        CHECK(record.local_rank == rank);
        CHECK(record.world_size == 4);
        CHECK(record.launcher == "openmpi");
        CHECK(record.confident);
        CHECK(record.cpus == cpu_of(rank));
        CHECK(record.bind == (all.count() == 1 ? "kept" : "bound"));
        CHECK(result.out.find(std::to_string(rank) + " Cpus_allowed_list: " + cpu_of(rank).text() +
                              "\n") != std::string::npos);
    }
}

TEST_CASE("the status of mpirun is the same with and without the shim") {
    if (!installed(kMpirun)) return;
    const TemporaryDirectory directory;
    const Variables variables = base(directory);
    for (const std::string script :
         {"exit 0", "exit 1", "exit 3", "exit 126", "exit 127", "kill -TERM $$", "kill -KILL $$"}) {
        CAPTURE(script);
        const Result bare = mpirun({"-np", "2", "sh", "-c", script}, variables);
        const Result shimmed =
            mpirun({"-np", "2", binary("toporun-shim"), "sh", "-c", script}, variables);
        CHECK(shimmed.status == bare.status);
    }
}

TEST_CASE("the status of mpirun is kept for programs that cannot start") {
    if (!installed(kMpirun)) return;
    const TemporaryDirectory directory;
    const Variables variables = base(directory);
    const auto program = [&](const std::string& name, const std::string& text, mode_t mode) {
        const std::string path = directory.write(name, text).string();
        ::chmod(path.c_str(), mode);
        return path;
    };
    const launcher::SystemHost host(variables);
    const std::vector<std::string> programs = {
        "/no/such/program",
        "no-such-program",
        directory.path().string(),
        program("text", "echo no first line\n", 0755),
        program("denied", "#!/bin/sh\n", 0644),
        program("lost", "#!/no/such/interpreter\n", 0755),
        program("carriage-return", "#!/bin/sh\r\nexit 5\r\n", 0755),
        program("cut", tests::read_file("/proc/self/exe").substr(0, 100), 0755),
        program("fine", "#!/bin/sh\nexit 5\n", 0755),
        "true",
    };
    for (const std::string& name : programs) {
        CAPTURE(name);
        const std::vector<std::string> typed = {kMpirun, "--oversubscribe", "-np", "2", name};
        const launcher::Command command = launcher::recognise(typed, variables, host);
        const launcher::Launch launch = prepare_launch(
            command, {}, {binary("toporun-shim"), "", ""}, {"/tmp", "/no/plan"}, variables, host);
        const bool starts = name == "true" || name.ends_with("/fine");
        CHECK((launch.rewrite == launcher::Rewrite::inserted) == starts);
        CHECK(run({.argv = launch.argv, .variables = variables}).status ==
              run({.argv = typed, .variables = variables}).status);
    }
}

TEST_CASE("under mpirun a log that is taken replaces what mpirun passes on") {
    if (!installed(kMpirun)) return;
    const TemporaryDirectory directory;
    env::Plan taking;
    const std::string log = (directory.path() / "log").string();
    for (const auto& [name, value] : {std::pair("NCCL_DEBUG", std::string("INFO")),
                                      {"NCCL_DEBUG_SUBSYS", "INIT"},
                                      {"NCCL_DEBUG_FILE", log + "/nccl.{rank}.%p.log"}}) {
        env::Setting setting;
        setting.name = name;
        setting.value = value;
        setting.exported = setting.per_rank = setting.replaces = true;
        taking.settings.push_back(setting);
    }
    Variables variables = base(directory);
    variables["NCCL_DEBUG"] = "WARN";
    variables["NCCL_DEBUG_FILE"] = "/x/%p";
    variables["TOPORUN_SHIM_PLAN"] =
        directory.write("plan", launcher::shim_plan_text({}, taking, {}, "")).string();
    const Result result =
        mpirun({"-np", "2", "-x", "NCCL_DEBUG_SUBSYS=ALL", binary("toporun-shim"), "sh", "-c",
                "echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_DEBUG_FILE"},
               variables);
    CAPTURE(result.error);
    REQUIRE(result.status == 0);
    for (const char* rank : {"0", "1"})
        CHECK(result.out.find("INFO INIT " + log + "/nccl." + rank + ".%p.log\n") !=
              std::string::npos);
}

TEST_CASE("two contexts of mpirun each get their own shim") {
    if (!installed(kMpirun)) return;
    const TemporaryDirectory directory;
    const std::string shim = binary("toporun-shim");
    const Result result = mpirun({"-np", "1", "-x", "R=s", shim, "sh", "-c", "echo first $R", ":",
                                  "-np", "2", "--", shim, "sh", "-c", "echo second"},
                                 base(directory));
    CAPTURE(result.error);
    CHECK(result.status == 0);
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 3);
    CHECK(result.out.find("first s\n") != std::string::npos);
}

TEST_CASE("under torchrun workers run with the interpreter of torchrun") {
    if (!installed(kTorchrun)) return;
    const TemporaryDirectory directory;
    const std::string records = (directory.path() / "ranks").string();
    const std::string script =
        directory
            .write("train.py",
                   "import os, sys\n"
                   "private = [n for n in os.environ if n.startswith('TOPORUN_') or n == "
                   "'PYTHON_EXEC']\n"
                   "open(sys.argv[1] + os.environ['RANK'], 'w').write(\n"
                   "    '%s %s %s' % (sys.executable, private, sys.orig_argv[1]))\n"
                   "sys.exit(int(sys.argv[2]))\n")
            .string();
    const std::string first_line = split(tests::read_file(kTorchrun), '\n')[0];
    const std::string python(trim(first_line.substr(2)));
    Variables variables = base(directory);
    // Debian's torch 1.13 with Python 3.11 fails in its own default of these two.
    variables["PET_REDIRECTS"] = "2";
    variables["PET_TEE"] = "2";
    variables["OMP_NUM_THREADS"] = "1";
    variables["PYTHON_EXEC"] = binary("toporun-python");
    variables["TOPORUN_PYTHON"] = python;
    variables["TOPORUN_SHIM_PLAN"] =
        directory.write("plan", "toporun-shim 1\nlauncher torchrun\nrecords " + records + "\n")
            .string();
    const std::string out = (directory.path() / "out-").string();
    const auto start = [&](const std::string& status) {
        return run({.argv = {kTorchrun, "--standalone", "--nproc_per_node=2", script, out, status},
                    .variables = variables});
    };
    const Result result = start("0");
    CAPTURE(result.error);
    REQUIRE(result.status == 0);
    for (const char* rank : {"0", "1"}) CHECK(tests::read_file(out + rank) == python + " [] -u");
    const std::vector<RankRecord> ranks = sorted_records(records);
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0].launcher == "torchrun");
    CHECK(ranks[0].rank == 0);
    CHECK(ranks[1].rank == 1);
    CHECK(ranks[1].local_size == 2);
    CHECK(ranks[1].confident);
    CHECK(start("3").status == 1);  // torchrun's own status for a failed worker
}
