// toporun-shim itself, started as a launcher starts it.
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "shim_case.hpp"

using namespace toporun;
using namespace toporun::tests;
using launcher::RankRecord;

TEST_CASE("arguments and environment arrive as they are") {
    std::vector<std::string> words = {"printf", "[%s]"};
    const std::vector<std::string> arguments = {"a b",      "",   "'\"$x`", "new\nline",
                                                "\xff\xfe", "--", "-x",     "{rank}"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string expected;
    for (const std::string& argument : arguments) expected += "[" + argument + "]";
    CHECK(run(shim(words, {{"PATH", kPath}})).out == expected);
    const Result all =
        run(shim({"/usr/bin/env"}, {{"PATH", kPath}, {"B", "\xff\n"}, {"EMPTY", ""}}));
    CHECK(all.out == "B=\xff\n\nEMPTY=\nPATH=" + kPath + "\n");
}

TEST_CASE("ten thousand arguments arrive") {
    std::vector<std::string> words = {"sh", "-c", "echo $#", "sh"};
    words.resize(10'004, "x");
    CHECK(run(shim(words, {{"PATH", kPath}})).out == "10000\n");
}

TEST_CASE("the exit status is the one of the program") {
    for (const int status : {0, 1, 3, 255})
        CHECK(run(shim({"sh", "-c", "exit " + std::to_string(status)}, {{"PATH", kPath}})).status ==
              status);
    CHECK(run(shim({"sh", "-c", "kill -TERM $$"}, {{"PATH", kPath}})).status == 128 + 15);
}

TEST_CASE("a program that cannot start is named with the status of a shell") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "text").string();
    const auto error = [](const std::string& what, const std::string& why) {
        return "toporun-shim: error: cannot run '" + what + "': " + why + "\n";
    };
    const Result missing = run(shim({"no-such-program"}, {{"PATH", kPath}}));
    CHECK(missing.status == 127);
    CHECK(missing.error == error("no-such-program", "not found"));
    const Result escape = run(shim({"\x1b[31m\xff"}, {{"PATH", kPath}}));
    CHECK(escape.error == error("\\x1b[31m\\xff", "not found"));
    const Result denied = run(shim({file}, {{"PATH", kPath}}));
    CHECK(denied.status == 126);
    CHECK(denied.error == error(file, "Permission denied"));
    CHECK(run(shim({"/tmp"}, {{"PATH", kPath}})).status == 126);
    CHECK(run(shim({""}, {{"PATH", kPath}})).status == 127);
    CHECK(run(shim({std::string(100'000, 'x')}, {{"PATH", kPath}})).status == 126);
    const Result nothing = run({.argv = {binary("toporun-shim")}});
    CHECK(nothing.status == 125);
    CHECK(nothing.error == "toporun-shim: error: no program given\n");
}

TEST_CASE("behind srun a program that cannot start ends with srun's own status") {
    const TemporaryDirectory directory;
    const std::string plain = directory.write("plain", "").string();
    const Node node("launcher srun\n");
    const auto status = [&](const std::string& program, const Variables& variables) {
        return run(shim({program}, variables)).status;
    };
    CHECK(status("no-such-program", node.with({{"PATH", kPath}})) == 2);
    CHECK(status(plain, node.with({{"PATH", kPath}})) == 13);
    const Result told =
        run(shim({"--tell=launcher=srun", "--", "no-such-program"}, {{"PATH", kPath}}));
    CHECK(told.status == 2);
    CHECK(told.error == "toporun-shim: error: cannot run 'no-such-program': not found\n");
}

TEST_CASE("the plan of a host is not that of each of Slurm's nodes on it") {
    utsname host{};
    REQUIRE(uname(&host) == 0);
    const std::string lines = std::string("host ") + static_cast<const char*>(host.nodename) +
                              "\nnode n1\nset A planned\n";
    const Node node(lines);
    // No toporun stands beside this copy of the shim: another node gets no plan.
    const TemporaryDirectory tools;
    const std::string copy = (tools.path() / "toporun-shim").string();
    std::filesystem::copy_file(binary("toporun-shim"), copy);
    const std::string id = "test-" + std::to_string(getpid());
    const auto shown = [&](const std::string& name) {
        Variables variables = {{"PATH", kPath}};
        if (!name.empty()) variables["SLURMD_NODENAME"] = name;
        return run({.argv = {copy, "--plan=" + node.plan(), "--node=" + id, "--", "sh", "-c",
                             "echo ${A-none}"},
                    .variables = variables})
            .out;
    };
    CHECK(shown("n1") == "planned\n");
    CHECK(shown("") == "planned\n");
    CHECK(shown("n2") == "none\n");
    const std::string own = "toporun-node-" + std::to_string(geteuid()) + "-" + id + "-";
    for (const auto& entry : std::filesystem::directory_iterator("/tmp"))
        if (entry.path().filename().string().starts_with(own))
            std::filesystem::remove_all(entry.path());
}

TEST_CASE("a file without a first line starts as execvp starts it") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("script", "echo started\n").string();
    ::chmod(file.c_str(), 0755);
    CHECK(run(shim({file}, {{"PATH", kPath}})).out == "started\n");
}

TEST_CASE("descriptors of the launcher stay open and none is added") {
    const std::string list = "ls /proc/self/fd | tr '\\n' ' '";
    const Node node("set A b\n" + log_lines("/no/such/directory"));
    const Result bare = run({.argv = {"sh", "-c", list}, .variables = {{"PATH", kPath}}});
    CHECK(run(shim({"sh", "-c", list}, node.with(open_mpi(0, 1)))).out == bare.out);
}

TEST_CASE("a variable for the launcher alone does not reach the worker") {
    const Node node("unset PET_NPROC_PER_NODE 8\nunset OTHER 1\nunset\nunset PATH\n");
    Variables variables = open_mpi(1, 2);
    variables["PET_NPROC_PER_NODE"] = "8";
    variables["OTHER"] = "2";
    const Result result = run(shim({"env"}, node.with(variables)));
    CHECK(env_line(result, "PET_NPROC_PER_NODE") == "(unset)");
    CHECK(env_line(result, "OTHER") == "2");
    CHECK(env_line(result, "PATH") == kPath);
}

TEST_CASE("variables of the plan are set unless somebody has set them") {
    const Node node("set OMP_NUM_THREADS 3\nset NCCL_TEXT a\\\\b\\nc {local_rank}\nset LANG C\n");
    Variables variables = open_mpi(1, 2);
    variables["LANG"] = "";
    const Result result = run(shim({"env"}, node.with(variables)));
    CHECK(env_line(result, "OMP_NUM_THREADS") == "3");
    CHECK(env_line(result, "LANG") == "");
    CHECK(result.out.find("NCCL_TEXT=a\\b\nc 1\n") != std::string::npos);
    CHECK(node.record().set == std::vector<std::string>{"OMP_NUM_THREADS", "NCCL_TEXT"});
}

TEST_CASE("what programs read of their place is set together, where the place is certain") {
    const std::string lines =
        "rank RANK {rank}\nrank WORLD_SIZE {world_size}\nrank LOCAL_RANK {local_rank}\n"
        "rank LOCAL_WORLD_SIZE {local_size}\nrank TF_CONFIG {\"index\":{rank}}\n";
    const Node node(lines);
    const auto seen = [&](const Variables& variables) {
        const Result result = run(shim({"/usr/bin/env"}, node.with(variables)));
        return env_line(result, "RANK") + " " + env_line(result, "WORLD_SIZE") + " " +
               env_line(result, "LOCAL_RANK") + " " + env_line(result, "LOCAL_WORLD_SIZE") + " " +
               env_line(result, "TF_CONFIG");
    };
    const auto with = [](Variables variables, const std::string& name, const std::string& value) {
        variables[name] = value;
        return variables;
    };
    const std::string none = "(unset) (unset) (unset) (unset) (unset)";
    CHECK(seen(open_mpi(1, 4)) == "1 4 1 4 {\"index\":1}");
    CHECK(seen(with(open_mpi(1, 4), "RANK", "1")) == "1 4 1 4 {\"index\":1}");
    CHECK(seen(with(open_mpi(1, 4), "RANK", "0")) == "0 (unset) (unset) (unset) (unset)");
    CHECK(seen(open_mpi(0, 1)) == none);
    CHECK(seen(with(open_mpi(1, 4), "OMPI_COMM_WORLD_SIZE", "0")) == none);
    CHECK(seen({{"PATH", kPath}}) == none);
}

TEST_CASE("the log variables are set together and only for a directory that works") {
    const TemporaryDirectory directory;
    const std::string log = (directory.path() / "log").string();
    const Node node(log_lines(log));
    const Result set = run(shim({"env"}, node.with(torchrun(1, 2))));
    CHECK(env_line(set, "NCCL_DEBUG") == "INFO");
    CHECK(env_line(set, "NCCL_DEBUG_SUBSYS") == "INIT,ENV");
    CHECK(env_line(set, "NCCL_DEBUG_FILE") == log + "/nccl.1.2.%h.%p.log");
    CHECK(node.record().log == "set");
    CHECK(std::filesystem::is_empty(log));

    Variables users = torchrun(1, 2);
    users["NCCL_DEBUG_SUBSYS"] = "ALL";
    const Node user_node(log_lines(log));
    const Result user = run(shim({"env"}, user_node.with(users)));
    CHECK(env_line(user, "NCCL_DEBUG") == "(unset)");
    CHECK(env_line(user, "NCCL_DEBUG_SUBSYS") == "ALL");
    CHECK(user_node.record().log == "user");

    for (const std::string bad : {"/proc/no", "/no/such/directory", "relative", "/dev/null"}) {
        CAPTURE(bad);
        const Node bad_node(log_lines(bad));
        CHECK(env_line(run(shim({"env"}, bad_node.with(torchrun(1, 2)))), "NCCL_DEBUG") ==
              "(unset)");
        CHECK(bad_node.record().log == "unwritable");
    }
}

TEST_CASE("a log that is taken replaces what is set, all three or none") {
    const auto taking = [](std::string lines) {
        for (std::size_t at = 0; (at = lines.find("log NCCL", at)) != std::string::npos; at += 13)
            lines.insert(at, "take-");
        return lines;
    };
    const TemporaryDirectory directory;
    const std::string log = (directory.path() / "log").string();
    Variables users = torchrun(1, 2);
    users["NCCL_DEBUG"] = "WARN";
    users["NCCL_DEBUG_FILE"] = "/x/%p";
    users["NCCL_DEBUG_X"] = "kept";
    const Node node(taking(log_lines(log)));
    const Result taken = run(shim({"env"}, node.with(users)));
    CHECK(env_line(taken, "NCCL_DEBUG") == "INFO");
    CHECK(env_line(taken, "NCCL_DEBUG_SUBSYS") == "INIT,ENV");
    CHECK(env_line(taken, "NCCL_DEBUG_FILE") == log + "/nccl.1.2.%h.%p.log");
    CHECK(env_line(taken, "NCCL_DEBUG_X") == "kept");
    CHECK(taken.out.find("WARN") == std::string::npos);
    CHECK(node.record().log == "set");

    const Node unwritable(taking(log_lines("/no/such/directory")));
    const Result left = run(shim({"env"}, unwritable.with(users)));
    CHECK(env_line(left, "NCCL_DEBUG") == "WARN");
    CHECK(env_line(left, "NCCL_DEBUG_FILE") == "/x/%p");
    CHECK(env_line(left, "NCCL_DEBUG_SUBSYS") == "(unset)");
    CHECK(unwritable.record().log == "unwritable");
}

TEST_CASE("private variables do not reach the program and public ones do") {
    const Node node("");
    Variables variables = node.with(open_mpi(0, 1));
    variables["TOPORUN_PYTHON"] = "/usr/bin/python3";
    variables["PYTHON_EXEC"] = "/usr/bin/python3";
    variables["TOPORUN_PROFILE_DIR"] = "/tmp/p";
    variables["TOPORUN_NUM_WORKERS"] = "7";
    const Result users = run(shim({"env"}, variables));
    CHECK(env_line(users, "TOPORUN_SHIM_PLAN") == "(unset)");
    CHECK(env_line(users, "TOPORUN_PYTHON") == "(unset)");
    CHECK(env_line(users, "PYTHON_EXEC") == "/usr/bin/python3");
    CHECK(env_line(users, "TOPORUN_PROFILE_DIR") == "/tmp/p");
    CHECK(env_line(users, "TOPORUN_NUM_WORKERS") == "7");
    variables["PYTHON_EXEC"] = binary("toporun-python");
    CHECK(env_line(run(shim({"env"}, variables)), "PYTHON_EXEC") == "(unset)");
    variables["TOPORUN_PYTHON_EXEC"] = "/venv/bin/python";
    const Result restored = run(shim({"env"}, variables));
    CHECK(env_line(restored, "PYTHON_EXEC") == "/venv/bin/python");
    CHECK(env_line(restored, "TOPORUN_PYTHON_EXEC") == "(unset)");
}

TEST_CASE("whatever is wrong with the plan the program starts") {
    const TemporaryDirectory directory;
    const std::string real = directory.write("real", "toporun-shim 1\nset A b\n").string();
    const std::string link = (directory.path() / "link").string();
    const std::string fifo = (directory.path() / "fifo").string();
    std::filesystem::create_symlink(real, link);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const std::vector<std::string> plans = {
        "",
        "/no/such/file",
        "/",
        "/dev/zero",
        link,
        fifo,
        directory.write("empty", "").string(),
        directory.write("other", "toporun-shim 2\nset A b\n").string(),
        directory.write("garbage", std::string("\xff\x00\x1b[31m\nset A b\n", 17)).string(),
        directory.write("big", "toporun-shim 1\nset A b\n" + std::string(1 << 20, '\n')).string(),
    };
    for (const std::string& plan : plans) {
        CAPTURE(plan);
        Variables variables = open_mpi(0, 1);
        variables["TOPORUN_SHIM_PLAN"] = plan;
        const Result result = run(shim({"env"}, variables));
        CHECK(result.status == 0);
        CHECK(result.error.empty());
        CHECK(env_line(result, "PATH") == kPath);
        CHECK(env_line(result, "A") == "(unset)");
    }
    const Node odd("set\nset \nset X\nset =x y\ncpus\nlog\nlog X\nlocal_size x\nno line end");
    const Result result = run(shim({"env"}, odd.with(open_mpi(0, 1))));
    CHECK(result.status == 0);
    CHECK(result.error.empty());
}

TEST_CASE("records that cannot be written are lost without a word") {
    const TemporaryDirectory directory;
    const std::string victim = directory.write("victim", "kept").string();
    const std::string link = (directory.path() / "link").string();
    const std::string fifo = (directory.path() / "fifo").string();
    std::filesystem::create_symlink(victim, link);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    for (const std::string& file :
         {link, fifo, std::string("/no/such/file"), std::string("/dev/full"),
          std::string("relative"), directory.path().string()}) {
        CAPTURE(file);
        Variables variables = open_mpi(0, 1);
        variables["TOPORUN_SHIM_PLAN"] =
            directory.write("plan", "toporun-shim 1\nrecords " + file + "\n").string();
        const Result result = run(shim({"true"}, variables));
        CHECK(result.status == 0);
        CHECK(result.error.empty());
    }
    CHECK(tests::read_file(victim) == "kept");
}

TEST_CASE("records of ranks that start together stay whole") {
    std::string lines = "local_size 64\n";
    const Node node(lines);
    Variables variables = node.with({{"PATH", kPath}});
    const std::string start =
        "for r in $(seq 0 63); do OMPI_COMM_WORLD_RANK=$r "
        "OMPI_COMM_WORLD_SIZE=64 OMPI_COMM_WORLD_LOCAL_RANK=$r "
        "OMPI_COMM_WORLD_LOCAL_SIZE=64 " +
        binary("toporun-shim") + " true & done; wait";
    CHECK(run({.argv = {"sh", "-c", start}, .variables = variables}).status == 0);
    std::vector<RankRecord> records = node.records();
    REQUIRE(records.size() == 64);
    std::sort(records.begin(), records.end(),
              [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
    for (int rank = 0; rank < 64; ++rank)
        CHECK(records[static_cast<std::size_t>(rank)].rank == rank);
}

TEST_CASE("an environment that is full still starts the program") {
    const Node node("set NCCL_LONG " + std::string(100'000, 'x') + "\n");
    Variables variables = node.with(open_mpi(0, 1));
    // The kernel's limit for arguments and environment is a quarter of the stack limit, 6 MiB at
    // most (execve(2)); the shim's variable does not fit any more.
    for (int i = 0; i < 24; ++i) variables["FILL" + std::to_string(i)] = std::string(85'000, 'y');
    const Result result = run(shim({"true"}, variables));
    CHECK(result.status == 0);
}
