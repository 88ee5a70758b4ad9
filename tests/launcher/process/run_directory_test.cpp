#include "launcher/process/run_directory.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.hpp"

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;
using tests::TemporaryDirectory;

/// The working directory for the length of a test.
class WorkingDirectory {
  public:
    explicit WorkingDirectory(const fs::path& path) : before_(fs::current_path()) {
        fs::current_path(path);
    }
    ~WorkingDirectory() { fs::current_path(before_); }

  private:
    fs::path before_;
};

TEST_CASE("a run is named by its command and its job") {
    struct Row {
        std::string name;
        std::string command;
        std::map<std::string, std::string> environment;
        std::string expected;
    };
    const std::vector<Row> rows = {
        {"plain", "torchrun", {}, "torchrun-20260301-120000-abcd"},
        {"path", "/usr/bin/mpirun", {}, "mpirun-20260301-120000-abcd"},
        {"odd bytes", "a b\033\n\xff", {}, "a_b___-20260301-120000-abcd"},
        {"dot first", ".hidden", {}, "_.hidden-20260301-120000-abcd"},
        {"ends in a slash", "dir/", {}, "_-20260301-120000-abcd"},
        {"slurm step",
         "torchrun",
         {{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}},
         "torchrun-4711.0"},
        {"batch script", "torchrun", {{"SLURM_JOB_ID", "4711"}}, "torchrun-4711.batch"},
        {"requeued",
         "torchrun",
         {{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_RESTART_COUNT", "2"}},
         "torchrun-4711.0.r2"},
        {"hostile id", "t", {{"SLURM_JOB_ID", "../../x"}, {"SLURM_STEP_ID", "0"}}, "t-_.._.._x.0"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            CHECK(run_name(row.command, row.environment, "20260301-120000", "abcd") ==
                  row.expected);
        }
    }
}

TEST_CASE("times are written in UTC") {
    CHECK(utc_iso(1'772'366'400) == "2026-03-01T12:00:00Z");
    CHECK(utc_compact(1'772'366'400) == "20260301-120000");
}

TEST_CASE("a run directory lies below the working directory and is the latest") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    const RunDirectory made = make_run_directory("train", "", {});
    CHECK(made.note.empty());
    CHECK(fs::is_directory(made.path));
    CHECK(made.shown.starts_with("toporun/train-"));
    point_latest(made.path);
    CHECK(fs::equivalent("toporun/latest", made.path));
    CHECK(newest_run({}) == "toporun/latest");
    const RunDirectory second = make_run_directory("train", "", {});
    CHECK(second.path != made.path);
    CHECK(fs::equivalent("toporun/latest", made.path));
    point_latest(second.path);
    CHECK(fs::equivalent("toporun/latest", second.path));
}

TEST_CASE("the run directory of a command that never started goes away unless it holds more") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    const RunDirectory empty = make_run_directory("train", "", {});
    temporary.write(fs::path(empty.shown) / "plan.toml", "x");
    temporary.write(fs::path(empty.shown) / "plan.toml.12.0.tmp", "x");
    discard_run_directory(empty.path);
    CHECK_FALSE(fs::exists(empty.path));
    const RunDirectory used = make_run_directory("train", "", {});
    temporary.write(fs::path(used.shown) / "mine", "x");
    discard_run_directory(used.path);
    CHECK(fs::exists(used.path));
    discard_run_directory("");
}

TEST_CASE("the newest run is looked for where runs fall back to") {
    const TemporaryDirectory temporary;
    const TemporaryDirectory state;
    const WorkingDirectory here(temporary.path());
    const std::map<std::string, std::string> environment = {
        {"XDG_STATE_HOME", state.path().string()}};
    CHECK(newest_run(environment).empty());
    temporary.write("toporun", "a file");
    point_latest(make_run_directory("t", "", environment).path);
    CHECK(newest_run(environment) == state.path().string() + "/toporun/latest");
}

TEST_CASE("a directory of another user is not used") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: giving a directory away needs root");
        return;
    }
    const TemporaryDirectory temporary;
    const TemporaryDirectory state;
    const WorkingDirectory here(temporary.path());
    fs::create_directory("toporun");
    REQUIRE(::chown("toporun", 65534, 65534) == 0);
    const RunDirectory made =
        make_run_directory("t", "", {{"XDG_STATE_HOME", state.path().string()}});
    CHECK(made.path.starts_with(state.path().string()));
    CHECK(made.note.find("another user") != std::string::npos);
}

TEST_CASE("the commands of a batch script have a directory each") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    const std::map<std::string, std::string> job = {{"SLURM_JOB_ID", "7"}};
    const std::string first = make_run_directory("t", "", job).shown;
    CHECK(first.starts_with("toporun/t-7.batch-"));
    CHECK(make_run_directory("t", "", job).shown != first);
}

TEST_CASE("the directory of the same job is taken again") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    const std::map<std::string, std::string> job = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}};
    CHECK(make_run_directory("t", "", job).path == make_run_directory("t", "", job).path);
}

TEST_CASE("a planted link in place of the run directory is not followed") {
    const TemporaryDirectory temporary;
    const TemporaryDirectory elsewhere;
    const TemporaryDirectory state;
    const WorkingDirectory here(temporary.path());
    fs::create_directory_symlink(elsewhere.path(), "toporun");
    const RunDirectory made =
        make_run_directory("t", "", {{"XDG_STATE_HOME", state.path().string()}});
    CHECK(fs::is_empty(elsewhere.path()));
    CHECK(made.path.starts_with(state.path().string() + "/toporun/t-"));
    CHECK(made.note.find("is a link") != std::string::npos);
}

TEST_CASE("a file named latest is left alone") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    temporary.write("toporun/latest", "mine");
    point_latest(make_run_directory("t", "", {}).path);
    CHECK(tests::read_file("toporun/latest") == "mine");
}

TEST_CASE("without any place there is no run directory and one reason") {
    const TemporaryDirectory temporary;
    const WorkingDirectory here(temporary.path());
    temporary.write("toporun", "a file");
    const std::string blocked = temporary.write("state", "a file").string();
    const RunDirectory made = make_run_directory("t", "", {{"XDG_STATE_HOME", blocked}});
    CHECK(made.path.empty());
    CHECK(made.note.find("no run directory") == 0);
    CHECK(make_run_directory("t", blocked + "/below", {}).path.empty());
}

TEST_CASE("a wanted directory is used as named") {
    const TemporaryDirectory temporary;
    const std::string wanted = (temporary.path() / "a/b").string();
    const RunDirectory made = make_run_directory("t", wanted, {});
    CHECK(made.path == wanted);
    CHECK(fs::is_directory(wanted));
}

TEST_CASE("the private directory belongs to its user alone and takes the first usable place") {
    const TemporaryDirectory temporary;
    const std::string good = temporary.path().string();
    const auto place = [](const std::map<std::string, std::string>& environment) {
        const PrivateDirectory made = make_private_directory(environment, 4096);
        const std::string parent = fs::path(made.path).parent_path().string();
        struct stat info {};
        CHECK(::stat(made.path.c_str(), &info) == 0);
        CHECK((info.st_mode & 0777) == 0700);
        remove_private_directory(made.path);
        CHECK_FALSE(fs::exists(made.path));
        return parent;
    };
    CHECK(place({{"TMPDIR", good}}) == good);
    CHECK(place({{"SLURM_TMPDIR", good}, {"TMPDIR", "/tmp"}}) == good);
    CHECK(place({{"SLURM_TMPDIR", good + "/missing"}, {"TMPDIR", good}}) == good);
    CHECK(place({{"TMPDIR", "relative"}}) == "/tmp");
    CHECK(place({}) == "/tmp");
}

TEST_CASE("a place without room is not used") {
    const PrivateDirectory made = make_private_directory({}, std::uint64_t{1} << 60);
    CHECK(made.path.empty());
    CHECK(made.note.find("free") != std::string::npos);
}

TEST_CASE("removing the private directory does not follow links out of it") {
    const TemporaryDirectory temporary;
    temporary.write("kept/file", "x");
    temporary.write("private/ring", "x");
    fs::create_directory_symlink(temporary.path() / "kept", temporary.path() / "private/link");
    remove_private_directory((temporary.path() / "private").string());
    CHECK_FALSE(fs::exists(temporary.path() / "private"));
    CHECK(fs::exists(temporary.path() / "kept/file"));
}

}  // namespace
}  // namespace toporun::launcher
