#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
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

const profiles::Profile& named(const std::vector<profiles::Profile>& known, std::string_view name) {
    for (const auto& profile : known)
        if (profile.name == name) return profile;
    FAIL("no profile " << name);
    return known.front();
}

TEST_CASE("every built-in profile bears the name of its file and reasons and sources") {
    const auto known = profiles::builtin_profiles();
    CHECK(known.size() > 40);
    std::set<std::string> names;
    for (const auto& profile : known) {
        CAPTURE(profile.file);
        CHECK(profile.file == "profiles/" + profile.name + ".toml");
        CHECK(names.insert(profile.name).second);
        CHECK(profile.layer == profiles::Layer::built_in);
        CHECK(profile.title.size() > 5);
        CHECK_FALSE(profile.values.empty());
        std::set<std::string> variables;
        for (const auto& value : profile.values) {
            CAPTURE(value.where);
            CHECK(value.reason.size() > 20);
            CHECK(value.source.size() > 10);
            CHECK(variables.insert(value.name + value.since).second);
        }
    }
}

TEST_CASE("built-in profiles set almost nothing") {
    // Each exception is allowed by docs/profiles.md and has its evidence there.
    const std::set<std::pair<std::string, std::string>> allowed = {{"NCCL_P2P_LEVEL", "NVL"},
                                                                   {"NCCL_IB_TC", "41"}};
    for (const auto& profile : profiles::builtin_profiles())
        for (const auto& value : profile.values) {
            CAPTURE(value.where);
            if (!value.value) continue;
            CHECK(allowed.contains({value.name, *value.value}));
            if (value.name == "NCCL_IB_TC") CHECK(profile.match.asset_tag == "OracleCloud.com");
            if (value.name == "NCCL_P2P_LEVEL")
                CHECK((profile.match.links == "nvswitch" || !profile.match.products.empty()));
        }
}

TEST_CASE("a cloud is never known by its GPUs alone and a name from memory never alone") {
    for (const auto& profile : profiles::builtin_profiles()) {
        CAPTURE(profile.name);
        const auto& match = profile.match;
        const auto is_of = [&](std::string_view cloud) { return profile.name.starts_with(cloud); };
        if (is_of("aws-")) CHECK((match.vendor == "Amazon EC2" && !match.products.empty()));
        if (is_of("azure-")) CHECK(match.asset_tag == "7783-7084-3265-9085-8269-3286-77");
        if (is_of("gcp-"))
            CHECK(match.products == std::vector<std::string>{"Google Compute Engine"});
        if (is_of("oci-")) CHECK((match.asset_tag == "OracleCloud.com" && !match.nics.empty()));
        if (is_of("ibm-") || is_of("coreweave"))
            CHECK((!match.nics.empty() && !match.gpu_names.empty()));
        if (is_of("azure-") || is_of("gcp-") || is_of("dgx-")) CHECK_FALSE(match.gpu_names.empty());
    }
}

TEST_CASE("the head of a built-in file holds all that decides whether its values are read") {
    for (const auto& whole : profiles::builtin_profiles()) {
        CAPTURE(whole.name);
        bool asked = false;
        const auto kept = profiles::builtin_profiles([&](const profiles::Profile& head) {
            if (head.name != whole.name) return false;
            asked = true;
            CHECK(head.values.empty());
            CHECK(head.title == whole.title);
            CHECK(specificity(head.match) == specificity(whole.match));
            CHECK(head.match.nics.size() == whole.match.nics.size());
            CHECK(head.expect.nics.size() == whole.expect.nics.size());
            return true;
        });
        CHECK(asked);
        REQUIRE(kept.size() == 1);
        CHECK(kept[0].values.size() == whole.values.size());
    }
}

TEST_CASE("the text of a built-in profile is found by its file") {
    CHECK(profiles::builtin_text("profiles/hgx-h100.toml").find("name = \"hgx-h100\"") !=
          std::string::npos);
    CHECK(profiles::builtin_text("profiles/known-bad.toml").empty());
    CHECK(profiles::builtin_text("hgx-h100").empty());
}

TEST_CASE("the HGX profile sets the level and leaves the rest to NCCL") {
    const auto known = profiles::builtin_profiles();
    for (const auto& value : named(known, "hgx-h100").values) {
        CAPTURE(value.name);
        CHECK(value.value.has_value() == (value.name == "NCCL_P2P_LEVEL"));
    }
}

TEST_CASE("the profile without P2P sets nothing") {
    const auto known = profiles::builtin_profiles();
    for (const auto& value : named(known, "pcie-no-p2p").values) CHECK_FALSE(value.value);
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
    for (const auto& entry :
         std::filesystem::directory_iterator(TOPORUN_TEST_DATA "/../../profiles"))
        if (entry.path().extension() == ".toml")
            CHECK(names.contains("profiles/" + entry.path().filename().string()));
}

}  // namespace
