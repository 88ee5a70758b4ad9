#include "env/profile_word.hpp"

#include "fabrics.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;
namespace profiles = toporun::profiles;
using profiles::Layer;

profiles::Profile one_value(Layer layer, const std::string& name,
                            const std::optional<std::string>& value) {
    profiles::Profile profile;
    profile.name = "own";
    profile.layer = layer;
    profile.match.gpu_count_min = 1;
    profile.values = {{name, value, "by the site", "s", "", "", "own.toml:9:1"}};
    return profile;
}

env::Plan with(const Machine& machine, const profiles::Profile& profile, const env::Job& job,
               const env::UserEnvironment& user = {}) {
    return env::decide(job, machine, {{profile}, {}, {}, {}}, user, options());
}

Machine storage_and_rails() {
    return railed(4, {rdma_port("mlx5_10", NicKind::infiniband, 400)});
}

TEST_CASE("a profile of the site decides before what was detected, a built-in one after it") {
    struct Row {
        const char* name;
        std::optional<std::string> value;
        const char* detected;
    };
    const std::vector<Row> rows = {
        {"NCCL_IB_HCA", "=mlx5_0:1", "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"},
        {"NCCL_IB_HCA", std::nullopt, "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"},
        {"NCCL_P2P_LEVEL", "SYS", "NVL"},
        {"NCCL_P2P_LEVEL", std::nullopt, "NVL"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        for (const Layer layer : {Layer::built_in, Layer::site, Layer::user, Layer::command_line}) {
            const auto made =
                with(storage_and_rails(), one_value(layer, row.name, row.value), job(4, 2));
            const auto found = setting(made, row.name);
            if (layer == Layer::built_in) {
                CHECK(found.value == row.detected);
                continue;
            }
            CHECK(found.value == row.value);
            CHECK(found.reason == "by the site");
            CHECK(found.evidence.find(row.detected) != std::string::npos);
        }
    }
}

TEST_CASE("a profile's value that cannot hold here is told of and not used") {
    struct Row {
        const char* name;
        const char* value;
    };
    for (const Row& row : {Row{"NCCL_SOCKET_IFNAME", "eth7"}, Row{"NCCL_SOCKET_IFNAME", "=ETH0"},
                           Row{"NCCL_SOCKET_IFNAME", "x"}, Row{"NCCL_IB_HCA", "=nosuch_0"},
                           Row{"NCCL_IB_HCA", "mlx5_0:7"}, Row{"NCCL_P2P_LEVEL", "nvl"},
                           Row{"NCCL_P2P_LEVEL", "LOC"}}) {
        CAPTURE(row.name);
        CAPTURE(row.value);
        const auto profile = one_value(Layer::site, row.name, row.value);
        const auto made = with(storage_and_rails(), profile, job(4, 2));
        CHECK(has_finding(made, "profile-value-unfit"));
        CHECK(exported(made, row.name) != row.value);
        const auto set = with(storage_and_rails(), profile, job(4, 2), user({{row.name, "mlx5"}}));
        CHECK_FALSE(has_finding(set, "profile-value-unfit"));  // the user's own value holds
    }
    Machine pcie = host(1, 16);
    add_gpus(pcie, 4, "NVIDIA L40S", PathType::PIX);
    const auto made = with(pcie, one_value(Layer::site, "NCCL_P2P_LEVEL", "NVL"), job(4));
    CHECK(has_finding(made, "profile-value-unfit"));
    CHECK_FALSE(exported(made, "NCCL_P2P_LEVEL"));
}

TEST_CASE("the network's variables of a profile are for jobs that use it") {
    for (const char* name : {"NCCL_IB_TIMEOUT", "NCCL_NET_GDR_LEVEL", "FI_PROVIDER"}) {
        CAPTURE(name);
        const auto profile = one_value(Layer::built_in, name, "2");
        CHECK_FALSE(has_setting(with(railed(4, {}), profile, job(4, 1)), name));
        CHECK(exported(with(railed(4, {}), profile, job(4, 2)), name) == "2");
    }
    const auto timeout = one_value(Layer::built_in, "NCCL_IB_TIMEOUT", "2");
    CHECK_FALSE(
        has_setting(with(railed(4, {}), timeout, job(4, 2), user({{"NCCL_IB_DISABLE", "1"}})),
                    "NCCL_IB_TIMEOUT"));
    CHECK(exported(with(railed(4, {}), one_value(Layer::built_in, "NCCL_NVLS_ENABLE", "0"), job(4)),
                   "NCCL_NVLS_ENABLE") == "0");
}

}  // namespace
