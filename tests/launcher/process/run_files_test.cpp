#include "launcher/process/run_files.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "files.hpp"

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;
using tests::TemporaryDirectory;

RunFacts facts_of(const fs::path& directory) {
    RunFacts facts;
    facts.command = {"train"};
    facts.run_directory = directory.string();
    return facts;
}

TEST_CASE("two runs that write to one directory at once") {
    const TemporaryDirectory run;
    {
        RunFiles first(run.path().string()), second(run.path().string());
        CHECK(first.take().empty());
        CHECK(first.take().empty());
        CHECK(second.take() == run.path().string() +
                                   ": another run writes its report there too, the last one stays");
    }
    RunFiles third(run.path().string()), nowhere("");
    CHECK(third.take().empty());
    CHECK(nowhere.take().empty());
}

TEST_CASE("a run leaves its plan, report and two logs") {
    const TemporaryDirectory run;
    const TemporaryDirectory node;
    for (const char* name : {"nccl.0.0.h.1.log", "nccl.1.0.h.2.log", "nccl.2.0.h.3.log"})
        node.write(name, "a line\n");
    node.write("nccl.9.0.h.9.log", "");  // NCCL makes the file before it says anything
    fs::create_symlink("/etc/passwd", node.path() / "nccl.x.log");
    RunFiles files(run.path().string());
    RunFacts facts = facts_of(run.path());
    CHECK(files.write_plan(facts).empty());
    CHECK(files.keep_logs(node.path().string()).empty());
    CHECK(files.write_report(facts, false).empty());
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run.path()))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<std::string>{"nccl.0.0.h.1.log", "nccl.1.0.h.2.log", "plan.toml",
                                            "report.json", "report.txt"});
    CHECK(facts.report_path == run.path().string() + "/report.txt");
}

TEST_CASE("a second report of the same job step does not replace the first") {
    const TemporaryDirectory run;
    RunFacts facts = facts_of(run.path());
    RunFiles(run.path().string()).write_report(facts, false);
    const std::string first = facts.report_path;
    RunFiles(run.path().string()).write_report(facts, false);
    CHECK(facts.report_path != first);
    CHECK(fs::exists(facts.report_path));
    RunFiles(run.path().string()).write_report(facts, true);
    CHECK(facts.report_path == first);
}

TEST_CASE("what is put in the place of the run directory is not written to") {
    const TemporaryDirectory parent;
    const TemporaryDirectory elsewhere;
    fs::create_directory(parent.path() / "run");
    RunFiles files((parent.path() / "run").string());
    fs::rename(parent.path() / "run", parent.path() / "moved");
    fs::create_directory_symlink(elsewhere.path(), parent.path() / "run");
    RunFacts facts = facts_of(parent.path() / "run");
    CHECK(files.write_report(facts, false).empty());
    CHECK(fs::is_empty(elsewhere.path()));
    CHECK(fs::exists(parent.path() / "moved/report.json"));
    RunFiles late((parent.path() / "run").string());  // a link by now
    CHECK_FALSE(late.write_report(facts, false).empty());
    CHECK(fs::is_empty(elsewhere.path()));
}

TEST_CASE("a directory that is gone or full is one line and no exception") {
    RunFacts facts = facts_of("/nonexistent/run");
    RunFiles missing("/nonexistent/run");
    CHECK(missing.write_plan(facts).find("/nonexistent/run") == 0);
    CHECK(missing.write_report(facts, false).empty());  // said once
    RunFiles none("");
    CHECK(none.write_plan(facts).empty());
    CHECK(none.write_report(facts, false).empty());
    const TemporaryDirectory run;
    const pid_t pid = ::fork();
    if (pid == 0) {
        const rlimit nothing = {0, 0};
        ::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &nothing);
        const std::string fault = RunFiles(run.path().string()).write_plan(facts);
        const bool named = fault.find(run.path().string() + "/plan.toml") != std::string::npos;
        ::_exit(named && fault.find("/proc/self") == std::string::npos ? 0 : 1);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
}

}  // namespace
}  // namespace toporun::launcher
