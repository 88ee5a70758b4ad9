#include <algorithm>
#include <filesystem>
#include <initializer_list>
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

/// What aws-ofi-nccl sets by itself on each size: platform_data_map, configure_nvls_option,
/// configure_tuner and init of src/platform-aws.cpp (August 2026).
std::set<std::string> set_by_the_plugin(const std::string& profile) {
    std::set<std::string> names = {"FI_EFA_FORK_SAFE", "NCCL_TUNER_PLUGIN", "NCCL_NVLS_ENABLE"};
    const auto is = [&](std::initializer_list<std::string_view> list) {
        return std::find(list.begin(), list.end(), profile) != list.end();
    };
    if (is({"aws-p4d", "aws-g5"})) names.insert("NCCL_TOPO_FILE");
    const bool hopper = is({"aws-p5", "aws-p5en", "aws-p6-b200", "aws-p6-b300", "aws-p6e-gb200"});
    if (hopper || is({"aws-p4d", "aws-g7e"}))
        names.insert({"NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE"});
    if (hopper)
        names.insert(
            {"NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE", "NCCL_NET_FORCE_FLUSH"});
    if (is({"aws-p5en", "aws-p6-b200"})) names.insert("NCCL_NETDEVS_POLICY");
    return names;
}

TEST_CASE("the AWS profiles claim of the plugin what its source says") {
    int claims = 0;
    for (const auto& profile : profiles::builtin_profiles()) {
        if (!profile.name.starts_with("aws-")) continue;
        const std::set<std::string> names = set_by_the_plugin(profile.name);
        for (const auto& value : profile.values) {
            CAPTURE(value.where);
            CAPTURE(value.name);
            CAPTURE(value.reason);
            const auto says = [&](std::string_view words) {
                return value.reason.starts_with(words);
            };
            const bool none = says("the plugin sets none");
            if (none) CHECK_FALSE(names.contains(value.name));
            const bool claim = says("the plugin sets") || says("the plugin names") ||
                               says("the plugin raises") || says("the plugin restores") ||
                               says("the plugin switches");
            if (!claim || none) continue;
            ++claims;
            CHECK(names.contains(value.name));
            CHECK(value.reason.find("where the kernel") == std::string::npos);
        }
    }
    CHECK(claims > 20);
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
