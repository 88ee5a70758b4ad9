#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

TEST_CASE("the log is taken per rank by the shim and per process without it") {
    auto made = plan(hgx_h100(), job(8));
    CHECK(made.takes_log);
    CHECK(exported(made, "NCCL_DEBUG") == "INFO");
    CHECK(exported(made, "NCCL_DEBUG_SUBSYS") == "INIT,ENV,GRAPH,NET,BOOTSTRAP");
    CHECK(exported(made, "NCCL_DEBUG_FILE") == "/tmp/run/logs/nccl.{rank}.{restart}.%h.%p.log");
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
        CHECK(setting(made, name).per_rank);
    env::Job no_shim = job(8);
    no_shim.shim = false;
    made = plan(hgx_h100(), no_shim);
    CHECK(exported(made, "NCCL_DEBUG_FILE") == "/tmp/run/logs/nccl.%h.%p.log");
    CHECK_FALSE(setting(made, "NCCL_DEBUG").per_rank);
}

TEST_CASE("BOOTSTRAP is asked for only where the version knows the name") {
    struct Row {
        std::optional<std::string> version;
        bool bootstrap;
    };
    const std::vector<Row> rows = {
        {"2.20.5", false}, {"2.21.5", true}, {"2.30.7", true}, {std::nullopt, false}};
    for (const Row& row : rows) {
        Machine machine = hgx_h100();
        machine.software.nccl_version = row.version;
        const auto value = exported(plan(machine, job(8)), "NCCL_DEBUG_SUBSYS");
        REQUIRE(value);
        CHECK((value->find("BOOTSTRAP") != std::string::npos) == row.bootstrap);
        CHECK(value->find("COLL") == std::string::npos);
    }
}

TEST_CASE("one of the three variables set by the user keeps all three away") {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
        CAPTURE(name);
        const auto made = plan(hgx_h100(), job(8), user({{name, "WARN"}}));
        CHECK_FALSE(made.takes_log);
        CHECK(made.log_reason.find(name) != std::string::npos);
        CHECK(made.log_reason.find("--take-log") != std::string::npos);
        for (const char* other : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
            CHECK_FALSE(exported(made, other));
        CHECK(setting(made, name).value == "WARN");
    }
    env::Options taking = options();
    taking.take_log = true;
    const auto taken = plan(hgx_h100(), job(8), user({{"NCCL_DEBUG", "WARN"}}), taking);
    CHECK(taken.takes_log);
    CHECK(exported(taken, "NCCL_DEBUG") == "INFO");
    CHECK(setting(taken, "NCCL_DEBUG").evidence.find("WARN") != std::string::npos);
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
        CHECK(setting(taken, name).replaces);
        CHECK_FALSE(setting(plan(hgx_h100(), job(8)), name).replaces);
    }
    CHECK_FALSE(setting(taken, "NCCL_P2P_LEVEL").replaces);
}

TEST_CASE("a log of the user's own is followed where it holds what is needed and lies here") {
    struct Row {
        std::string name, level, file;
        bool same_host;
        std::string followed;
    };
    const std::vector<Row> rows = {
        {"INFO", "INFO", "/x/n.%h.%p", true, "/x/n.%h.%p"},
        {"lower case", "info", "n.log", true, "n.log"},
        {"TRACE", "TRACE", "/x/n", true, "/x/n"},
        {"too little", "WARN", "/x/n", true, ""},
        {"no file", "INFO", "", true, ""},
        {"other hosts", "INFO", "/x/n", false, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        env::Job where = job(8);
        where.same_host = row.same_host;
        auto variables = user({{"NCCL_DEBUG", row.level}});
        if (!row.file.empty()) variables.variables["NCCL_DEBUG_FILE"] = row.file;
        const auto made = plan(hgx_h100(), where, variables);
        CHECK_FALSE(made.takes_log);
        CHECK(made.followed_log == row.followed);
        const bool says = made.log_reason.find("is read at the end") != std::string::npos;
        CHECK(says == !row.followed.empty());
    }
    env::Options taking = options();
    taking.take_log = true;
    CHECK(
        plan(hgx_h100(), job(8), user({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", "/x"}}), taking)
            .followed_log.empty());
    env::Options off = options();
    off.log = false;
    CHECK(plan(hgx_h100(), job(8), user({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", "/x"}}), off)
              .followed_log.empty());
}

TEST_CASE("settings for a shell say that there is no run directory") {
    env::Options shell;
    shell.for_shell = true;
    const auto made = plan(hgx_h100(), job(8), {}, shell);
    CHECK_FALSE(made.takes_log);
    CHECK_FALSE(made.measures);
    CHECK_FALSE(made.measure_on_demand);
    for (const std::string& reason : {made.log_reason, made.measure_reason}) {
        CHECK(reason.find("no run directory") != std::string::npos);
        CHECK(reason.find("--no-") == std::string::npos);
        CHECK(reason.find("installed") == std::string::npos);
    }
}

TEST_CASE("whatever else keeps the log is said") {
    env::Options how = options();
    how.log = false;
    CHECK(plan(hgx_h100(), job(8), {}, how).log_reason.find("--no-log") != std::string::npos);
    how = options();
    how.log_directory.clear();
    CHECK(plan(hgx_h100(), job(8), {}, how).log_reason.find("directory") != std::string::npos);
    how = options();
    how.leave = {"NCCL_DEBUG_FILE"};
    CHECK_FALSE(exported(plan(hgx_h100(), job(8), {}, how), "NCCL_DEBUG"));
    how = options();
    how.log_directory = "/" + std::string(2000, 'x');
    CHECK_FALSE(plan(hgx_h100(), job(8), {}, how).takes_log);
    env::Job elsewhere = job(8);
    elsewhere.same_host = false;
    CHECK(plan(hgx_h100(), elsewhere).log_reason.find("other hosts") != std::string::npos);
}

TEST_CASE("a percent sign in the directory does not become a placeholder") {
    env::Options how = options();
    how.log_directory = "/tmp/50%h/";
    CHECK(exported(plan(hgx_h100(), job(8), {}, how), "NCCL_DEBUG_FILE") ==
          "/tmp/50%%h/nccl.{rank}.{restart}.%h.%p.log");
}

TEST_CASE("the plugin is loaded by the table of versions and by --measure") {
    struct Row {
        std::string name;
        std::optional<std::string> version;
        env::Measure measure;
        int shm_mib;
        bool load;
        std::string reason;
    };
    const auto automatic = env::Measure::automatic, always = env::Measure::always;
    const std::vector<Row> rows = {
        {"good", "2.28.9", automatic, 1024, true, ""},
        {"good with little shm", "2.28.9", automatic, 64, true, ""},
        {"off", "2.28.9", env::Measure::off, 1024, false, "--no-measure"},
        {"no interface", "2.21.5", automatic, 1024, false, "no profiler interface"},
        {"no interface, always", "2.21.5", always, 1024, false, "no profiler interface"},
        {"no stamps", "2.26.2", automatic, 1024, false, "no GPU times"},
        {"no stamps, always", "2.26.2", always, 1024, false, "no GPU times"},
        {"cost", "2.31.2", automatic, 1024, false, "4 to 13 %"},
        {"cost, always", "2.31.2", always, 1024, true, ""},
        {"2.30 with little shm", "2.30.7", automatic, 64, false, "/dev/shm"},
        {"2.30", "2.30.3", automatic, 1024, true, ""},
        {"newer", "2.32.3", automatic, 1024, false, "--measure=always"},
        {"newer, always", "2.32.3", always, 1024, true, ""},
        {"unknown", std::nullopt, automatic, 1024, false, "not known"},
        {"unknown, always", std::nullopt, always, 1024, true, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = hgx_h100();
        machine.software.nccl_version = row.version;
        machine.limits.shm_bytes = static_cast<std::uint64_t>(row.shm_mib) << 20;
        env::Options how = options();
        how.measure = row.measure;
        const auto made = plan(machine, job(8), {}, how);
        CHECK(made.measures == row.load);
        CHECK(exported(made, "NCCL_PROFILER_PLUGIN").has_value() == row.load);
        CHECK(made.measure_reason.empty() == row.load);
        CHECK(made.measure_reason.find(row.reason) != std::string::npos);
        CHECK(made.measure_on_demand == (row.name == "newer" || row.name == "unknown"));
    }
}

TEST_CASE("the rows of RCCL hold for AMD's library") {
    Machine machine = host(1, 16);
    add_gpus(machine, 4, "AMD Instinct MI250X", PathType::NVL, 1);
    for (auto& gpu : machine.gpus) gpu.vendor = "amd";
    machine.software.nccl_version = "2.27.7";
    const auto made = plan(machine, job(4));
    CHECK_FALSE(made.measures);
    CHECK(made.measure_reason.find("all-to-all") != std::string::npos);
    machine.software.nccl_version = "2.26.6";
    CHECK(plan(machine, job(4)).measure_reason.find("table") != std::string::npos);
}

TEST_CASE("the user's own profiler and every other obstacle are left in peace") {
    const auto own = plan(hgx_h100(), job(8), user({{"NCCL_PROFILER_PLUGIN", "example"}}));
    CHECK_FALSE(own.measures);
    CHECK(setting(own, "NCCL_PROFILER_PLUGIN").value == "example");
    CHECK_FALSE(exported(own, "NCCL_PROFILER_PLUGIN"));
    CHECK_FALSE(own.measure_on_demand);
    const auto reason = [](const std::string& plugin) {
        env::Options how = options();
        how.plugin = plugin;
        return plan(hgx_h100(), job(8), {}, how).measure_reason;
    };
    CHECK(reason("").find("not installed") != std::string::npos);
    CHECK(reason("libx.so").find("absolute") != std::string::npos);
    CHECK(reason("/" + std::string(254, 'x')).find("255 characters") != std::string::npos);
    CHECK(reason("/" + std::string(253, 'x')).empty());
    env::Options leaving = options();
    leaving.leave = {"NCCL_PROFILER_PLUGIN"};
    CHECK_FALSE(plan(hgx_h100(), job(8), {}, leaving).measures);
}

}  // namespace
