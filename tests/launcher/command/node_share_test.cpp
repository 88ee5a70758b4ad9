// Ranks of one launcher: each is a child of this process, which stands for the launcher.
#include "launcher/command/node_share.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;

Environment open_mpi_rank(int rank, int ranks) {
    return {{"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(ranks)}};
}

/// What `act` returns in a process of its own, 0 to 100; -1 where that was ended by a signal.
int in_process(const std::function<int()>& act) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(act());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kRead = 1, kFound = 2, kOther = 3;

/// Asks for `key` as a rank does: whether it has found "this" by itself or read it.
int ask(const NodeShare& share, const std::string& key) {
    bool found = false;
    const std::string text = share.once("word", key, [&] {
        found = true;
        return "this";
    });
    return text != "this" ? kOther : found ? kFound : kRead;
}

int rank_asks(int rank, int ranks, const std::string& key = "key") {
    return in_process([&] { return ask(NodeShare::among_ranks(open_mpi_rank(rank, ranks)), key); });
}

/// Directories of this process's ranks.
std::vector<fs::path> meetings() {
    std::vector<fs::path> found;
    std::error_code error;
    const std::string start = std::to_string(::getpid()) + "-";
    for (const auto& entry :
         fs::directory_iterator("/tmp/toporun-ranks-" + std::to_string(::geteuid()), error))
        if (entry.path().filename().string().starts_with(start)) found.push_back(entry.path());
    return found;
}

struct Leftovers {
    ~Leftovers() {
        for (const fs::path& path : meetings()) fs::remove_all(path);
    }
};

}  // namespace

TEST_CASE("the first rank looks for all, and the last one leaves nothing behind") {
    const Leftovers leftovers;
    CHECK(rank_asks(2, 4) == kFound);
    CHECK(rank_asks(0, 4) == kRead);
    CHECK(rank_asks(1, 4) == kRead);
    CHECK(meetings().size() == 1);
    CHECK(rank_asks(3, 4) == kRead);
    CHECK(meetings().empty());
    CHECK(rank_asks(0, 4) == kFound);  // the next command of all
}

TEST_CASE("ranks that would see something else look for themselves") {
    const Leftovers leftovers;
    CHECK(rank_asks(0, 3, "GPU 0") == kFound);
    CHECK(rank_asks(1, 3, "GPU 1") == kFound);
    CHECK(rank_asks(2, 3, "GPU 0") == kRead);
}

TEST_CASE("a later command of a rank does not read what was found for the first") {
    const Leftovers leftovers;
    CHECK(rank_asks(0, 2) == kFound);
    CHECK(rank_asks(0, 2) == kFound);
    CHECK(rank_asks(1, 2) == kRead);
}

TEST_CASE("an answer that is old or damaged is not read") {
    const Leftovers leftovers;
    CHECK(rank_asks(0, 4) == kFound);
    for (const fs::directory_entry& entry : fs::directory_iterator(meetings().at(0))) {
        const timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
        ::utimensat(AT_FDCWD, entry.path().c_str(), long_ago, 0);
    }
    CHECK(rank_asks(1, 4) == kFound);
    CHECK(rank_asks(2, 4) == kRead);
}

TEST_CASE("a rank that fails or is killed while it looks leaves it to the next") {
    const Leftovers leftovers;
    const auto looking = [](int rank, const std::function<std::string()>& find) {
        return in_process([&] {
            try {
                NodeShare::among_ranks(open_mpi_rank(rank, 4)).once("word", "key", find);
            } catch (const std::runtime_error&) {
                return kOther;
            }
            return kRead;
        });
    };
    CHECK(looking(0, [] { return ::raise(SIGKILL), std::string(); }) == -1);
    CHECK(looking(1, []() -> std::string { throw std::runtime_error("no"); }) == kOther);
    CHECK(rank_asks(2, 4) == kFound);
    CHECK(rank_asks(3, 4) == kRead);
}

TEST_CASE("a rank waits for the one that looks, not for its helper") {
    const Leftovers leftovers;
    int looks[2];
    int go_on[2];
    REQUIRE(::pipe(looks) == 0);
    REQUIRE(::pipe(go_on) == 0);
    char byte = 0;
    const pid_t first = ::fork();
    if (first == 0) {
        NodeShare::among_ranks(open_mpi_rank(0, 3)).once("word", "key", [&] {
            const bool told = ::write(looks[1], "l", 1) == 1;
            return told && ::read(go_on[0], &byte, 1) == 1 ? "this" : "";
        });
        ::_exit(0);
    }
    REQUIRE(::read(looks[0], &byte, 1) == 1);
    REQUIRE(::write(go_on[1], "g", 1) == 1);
    CHECK(rank_asks(1, 3) == kRead);
    ::waitpid(first, nullptr, 0);
    // A helper that outlives the rank which forked it.
    int end[2];
    REQUIRE(::pipe(end) == 0);
    const int killed = in_process([&] {
        NodeShare::among_ranks(open_mpi_rank(2, 3)).once("word", "other", [&] {
            if (::fork() == 0) {
                ::close(end[1]);
                const bool over = ::read(end[0], &byte, 1) == 0;
                ::_exit(over ? 0 : 1);
            }
            return ::raise(SIGKILL), std::string();
        });
        return 0;
    });
    CHECK(killed == -1);
    CHECK(rank_asks(3, 5, "other") == kFound);
    for (const auto& pipe : {looks, go_on, end}) {
        ::close(pipe[0]);
        ::close(pipe[1]);
    }
}

TEST_CASE("a directory that others may enter is not used") {
    const Leftovers leftovers;
    CHECK(rank_asks(0, 3) == kFound);
    REQUIRE(::chmod(meetings().at(0).c_str(), 0755) == 0);
    CHECK(rank_asks(1, 3) == kFound);
}

TEST_CASE("what launchers tell their ranks of the node") {
    struct Row {
        Environment environment;
        std::optional<std::pair<int, int>> place;
    };
    const std::vector<Row> rows = {
        {{}, {}},
        {open_mpi_rank(1, 4), {{1, 4}}},
        {open_mpi_rank(0, 1), {}},
        {open_mpi_rank(4, 4), {}},
        {{{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "8"}}, {{3, 8}}},
        {{{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}, {{0, 2}}},
        {{{"LOCAL_RANK", "0"}}, {}},
        {{{"LOCAL_RANK", "x"}, {"LOCAL_WORLD_SIZE", "2"}}, {}},
        {{{"FLUX_TASK_LOCAL_ID", "5"}}, {{5, 0}}},
        {{{"SLURM_STEP_ID", "0"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_PROCID", "2"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "1,64"}},
         {{1, 64}}},
        // A batch script is no task of several.
        {{{"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_TASKS_PER_NODE", "64"}}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.environment.size());
        const auto rank = rank_of_node(row.environment);
        REQUIRE(rank.has_value() == row.place.has_value());
        if (rank) CHECK(std::pair(rank->local_rank, rank->ranks) == *row.place);
    }
}

}  // namespace toporun::launcher
