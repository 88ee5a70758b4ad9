#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "files.hpp"
#include "profiles/embedded.hpp"
#include "profiles/profile.hpp"

namespace {

namespace profiles = toporun::profiles;

/// The deciding rule for a library, version and /dev/shm as env applies them.
const profiles::ProfilerRule* deciding(const profiles::ProfilerVersions& versions,
                                       const std::string& library, const std::string& version,
                                       std::uint64_t shm_bytes) {
    for (const auto& rule : versions.rules) {
        if (rule.library != library || rule.all_events_only) continue;
        if (rule.shm_below_bytes && shm_bytes >= *rule.shm_below_bytes) continue;
        if (profiles::version_in_range(version, rule.since, rule.until)) return &rule;
    }
    return nullptr;
}

TEST_CASE("the profiles that are compiled in are the two of the directory") {
    const auto known = profiles::builtin_profiles();
    REQUIRE(known.size() == 2);
    CHECK(known[0].name == "hgx-h100");
    CHECK(known[0].file == "profiles/hgx-h100.toml");
    CHECK(known[1].name == "pcie-no-p2p");
    for (const auto& profile : known) {
        for (const auto& value : profile.values) {
            CAPTURE(value.where);
            CHECK(value.reason.size() > 20);
            CHECK(value.source.size() > 20);
        }
    }
}

TEST_CASE("the HGX profile sets the level and leaves the rest to NCCL") {
    const auto known = profiles::builtin_profiles();
    for (const auto& value : known.at(0).values) {
        CAPTURE(value.name);
        CHECK(value.value.has_value() == (value.name == "NCCL_P2P_LEVEL"));
    }
}

TEST_CASE("the profile without P2P sets nothing") {
    const auto known = profiles::builtin_profiles();
    for (const auto& value : known.at(1).values) CHECK_FALSE(value.value);
}

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
        {"all events row does not concern us", "nccl", "2.30.3", 1024, 1, "known good"},
        {"small shm", "nccl", "2.30.4", 64, 0, "64 MiB"},
        {"smaller shm", "nccl", "2.30.7", 16, 0, "64 MiB"},
        {"shm a little larger", "nccl", "2.30.7", 65, 1, "known good"},
        {"cost", "nccl", "2.31.2", 1024, 0, "4 to 13 %"},
        {"newer", "nccl", "2.32.3", 1024, -1, ""},
        {"next major", "nccl", "3.0.1", 1024, -1, ""},
        {"RCCL all-to-all", "rccl", "2.27.7", 1024, 0, "all-to-all"},
        {"RCCL unknown", "rccl", "2.26.6", 1024, -1, ""},
    };
    const auto versions = profiles::builtin_profiler_versions();
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto* rule = deciding(versions, row.library, row.version, row.shm_mib << 20);
        CHECK((rule == nullptr) == (row.load == -1));
        if (rule == nullptr) continue;
        CHECK(rule->load == (row.load == 1));
        CHECK(rule->reason.find(row.reason) != std::string::npos);
    }
    CHECK(std::any_of(versions.rules.begin(), versions.rules.end(), [](const auto& rule) {
        return rule.all_events_only && rule.since == "2.30.3" && !rule.load;
    }));
}

TEST_CASE("embedded files are the files of the source tree byte for byte") {
    std::set<std::string> names;
    for (const auto& file : profiles::embedded_files()) {
        CAPTURE(file.name);
        names.insert(std::string(file.name));
        CHECK(file.text == toporun::tests::read_file(std::string(TOPORUN_TEST_DATA "/../../") +
                                                     std::string(file.name)));
    }
    CHECK(names == std::set<std::string>{"profiles/hgx-h100.toml", "profiles/known-bad.toml",
                                         "profiles/loader-options.toml",
                                         "profiles/pcie-no-p2p.toml",
                                         "profiles/profiler-versions.toml"});
}

}  // namespace
