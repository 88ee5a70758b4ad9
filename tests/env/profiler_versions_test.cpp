#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "machines.hpp"

/// The built-in table of profiler versions as the plan applies it.
using namespace toporun::tests;
namespace env = toporun::env;

namespace {

TEST_CASE("each known case of the profiler table is decided as reported") {
    struct Row {
        std::string name, library, version;
        std::uint64_t shm_mib;
        int load;  ///< 1, 0, or -1 for a version that the table does not know
        std::string reason;
    };
    const std::vector<Row> rows = {
        {"no interface", "nccl", "2.22.3", 1024, 0, "no profiler interface"},
        {"oldest", "nccl", "2.8.3", 1024, 0, "no profiler interface"},
        {"no stamps", "nccl", "2.26.6", 1024, 0, "no GPU times"},
        {"first interface", "nccl", "2.23.4", 1024, 0, "no GPU times"},
        {"first good", "nccl", "2.27.3", 1024, 1, "known good"},
        {"good", "nccl", "2.28.9", 64, 1, "known good"},
        {"last good", "nccl", "2.30.7", 1024, 1, "known good"},
        {"crash of every event does not concern us", "nccl", "2.30.3", 1024, 1, "known good"},
        {"small shm", "nccl", "2.30.4", 64, 0, "64 MiB"},
        {"smaller shm", "nccl", "2.30.7", 16, 0, "64 MiB"},
        {"shm a little larger", "nccl", "2.30.7", 65, 1, "known good"},
        {"cost", "nccl", "2.31.2", 1024, 0, "4 to 13 %"},
        {"newer", "nccl", "2.32.3", 1024, -1, "not in the table"},
        {"next major", "nccl", "3.0.1", 1024, -1, "not in the table"},
        {"RCCL all-to-all", "rccl", "2.27.7", 1024, 0, "all-to-all"},
        {"RCCL unknown", "rccl", "2.26.6", 1024, -1, "not in the table"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = hgx_h100();
        machine.software.nccl_version = row.version;
        machine.software.nccl_library = "/usr/lib/lib" + row.library + ".so";
        machine.limits.shm_bytes = row.shm_mib << 20;
        const env::Plan made = plan(machine, job(8));
        CHECK(made.measures == (row.load == 1));
        CHECK(made.measure_on_demand == (row.load == -1));
        const env::Setting& plugin = setting(made, "NCCL_PROFILER_PLUGIN");
        CAPTURE(plugin.reason);
        CHECK(plugin.reason.find(row.reason) != std::string::npos);
    }
}

}  // namespace
