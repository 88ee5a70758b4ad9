#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "files.hpp"
#include "run_command.hpp"

/// The built plugin under NVIDIA's own libnccl.so.2 on virtual GPUs.
namespace toporun::tests {
namespace {

const std::string kRig = TOPORUN_SHARED "/rig";

/// RIG_BUILD, else the rig built once in the build directory; "" with a printed reason where it
/// cannot be.
std::string rig_build() {
    if (const char* build = std::getenv("RIG_BUILD")) return build;
    if (!std::filesystem::exists(kRig + "/build.sh")) {
        MESSAGE("skipped: no rig in " << kRig);
        return {};
    }
    const char* home = std::getenv("CUDA_HOME");
    const std::string cuda = home != nullptr ? home : "/usr/local/cuda";
    if (!std::filesystem::exists(cuda + "/include/cuda_runtime_api.h") ||
        (!std::filesystem::exists(cuda + "/lib/libnccl.so.2") &&
         !std::filesystem::exists(cuda + "/lib64/libnccl.so.2"))) {
        MESSAGE("skipped: no CUDA headers or no libnccl.so.2 in " << cuda);
        return {};
    }
    const std::string build = TOPORUN_RIG_BUILD;
    const CommandOutput made =
        run_command("flock '" + build + ".lock' sh -c 'test -x " + build + "/nccl-exercise || " +
                    kRig + "/build.sh " + build + "'");
    REQUIRE_MESSAGE(made.status == 0, made.text);
    return build;
}

struct RigRun {
    TemporaryDirectory directory;
    CommandOutput output;
    std::string log;  ///< of rank 0
};

/// The rig's program with the plugin loaded. Nothing when there is no rig.
bool run(RigRun& rig, const std::string& options) {
    const std::string build = rig_build();
    if (build.empty()) return false;
    const std::filesystem::path rings = rig.directory.path() / "rings";
    const std::filesystem::path logs = rig.directory.path() / "logs";
    std::filesystem::create_directory(rings);
    rig.output =
        run_command("cd " + kRig + " && RIG_BUILD=" + build +
                    " timeout 100 ./run-nccl --set NCCL_DEBUG=INFO"
                    " --set NCCL_PROFILER_PLUGIN=" TOPORUN_PLUGIN " --set TOPORUN_PROFILE_DIR=" +
                    rings.string() + " " + options + " --pause-ms 200 --out " + logs.string());
    rig.log = read_file(logs / "rank-0.log");
    return true;
}

struct Seen {
    std::set<std::string_view> functions;
    std::uint64_t operations = 0, unfinished = 0;
    std::uint64_t backward = 0;  ///< that ended before they began
};

/// Checks every record of the run against what NCCL can have meant.
Seen check_records(const std::filesystem::path& rings, int ranks, int nodes) {
    Seen seen;
    for (const auto& file : profiler::ring_files(rings)) {
        profiler::RingReader reader(file);
        const auto found = reader.poll();
        seen.unfinished += reader.unfinished();
        seen.operations += found.size();
        CHECK(reader.notes().empty());
        CHECK(reader.abi() == 5);
        REQUIRE(reader.communicators().size() == 1);
        CHECK(reader.communicators()[0].ranks == ranks);
        CHECK(reader.communicators()[0].nodes == nodes);
        CHECK(reader.communicators()[0].finalized);
        for (const profiler::Collective& collective : found) {
            seen.functions.insert(profiler::function_name(collective.function));
            CHECK(collective.communicator == reader.communicators()[0].id);
            CHECK(collective.ranks == ranks);
            CHECK(collective.channels >= 1);
            CHECK(collective.channels_seen == collective.channels);
            seen.backward += collective.stop_ns <= collective.start_ns;
            CHECK(profiler::datatype_bytes(collective.datatype) > 0);
        }
    }
    // The clock of a virtual GPU is the thread's that stands for it: where threads wait for a core
    // it stamps a few operations late. The plugin keeps what it is given, in_flight.cpp leaves them
    // out.
    CHECK(seen.backward * 50 <= seen.operations);
    return seen;
}

}  // namespace

TEST_CASE("The real NCCL loads the plugin and every operation of eight GPUs is recorded") {
    RigRun rig;
    if (!run(rig,
             "--topo h100-nvswitch-8 --coll allreduce,allgather,alltoall --sizes 1K,4M "
             "--iters 3")) {
        return;
    }
    CAPTURE(rig.output.text);
    REQUIRE(rig.output.status == 0);
    CHECK(rig.log.find("PROFILER/Plugin: Loaded toporun (v5)") != std::string::npos);
    const std::filesystem::path rings = rig.directory.path() / "rings";
    CHECK(profiler::ring_files(rings).size() == 8);
    const Seen seen = check_records(rings, 8, 1);
    CHECK(seen.functions == std::set<std::string_view>{"AllReduce", "AllGather", "Send", "Recv"});
    CHECK(seen.unfinished == 0);
    // 2 collectives x 2 sizes x 3, and an all-to-all is 7 sends and 7 receives
    CHECK(seen.operations == 8 * (2 * 2 * 3 + 14 * 2 * 3));
    const profiler::Measured result = measure(rings);
    REQUIRE(result.in_flight);
    CHECK(*result.in_flight > 0);
    CHECK(*result.in_flight <= 1);
    CHECK(result.ranks.size() == 8);
}

TEST_CASE("The real NCCL over sockets between two nodes is recorded") {
    RigRun rig;
    if (!run(rig,
             "--topo l40s-4-plx --nodes 2 --gpus 2 --coll allreduce,sendrecv --sizes 1K,4M "
             "--iters 3")) {
        return;
    }
    CAPTURE(rig.output.text);
    REQUIRE(rig.output.status == 0);
    CHECK(rig.log.find("PROFILER/Plugin: Loaded toporun (v5)") != std::string::npos);
    const std::filesystem::path rings = rig.directory.path() / "rings";
    const Seen seen = check_records(rings, 4, 2);
    CHECK(seen.functions == std::set<std::string_view>{"AllReduce", "Send", "Recv"});
    CHECK(seen.operations + seen.unfinished == 4 * (2 * 3 + 2 * 2 * 3));
    CHECK(seen.unfinished == 0);
}

}  // namespace toporun::tests
