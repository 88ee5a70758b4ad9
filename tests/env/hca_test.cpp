#include "env/hca.hpp"

#include "machines.hpp"

namespace toporun::tests {
namespace {

struct Row {
    std::string value;
    std::string device;
    int port;
    bool takes;
};

TEST_CASE("NCCL_IB_HCA is read as NCCL reads it") {
    const std::vector<Row> rows = {
        {"mlx5_1", "mlx5_1", 1, true},
        {"mlx5_1", "mlx5_10", 1, true},
        {"=mlx5_1", "mlx5_10", 1, false},
        {"=mlx5_1", "mlx5_1", 2, true},
        {"=mlx5_1:1", "mlx5_1", 2, false},
        {"mlx5_1:2", "mlx5_1", 2, true},
        {"^mlx5_1", "mlx5_10", 1, false},
        {"^=mlx5_1", "mlx5_10", 1, true},
        {"^=mlx5_1", "mlx5_1", 1, false},
        {"mlx5_0,mlx5_3", "mlx5_3", 1, true},
        {"mlx5_0:1:0:1", "mlx5_0", 1, true},
        {"mlx5_0:x", "mlx5_0", 7, true},
        {"=", "mlx5_0", 1, true},
        {"^", "mlx5_0", 1, false},
        {",,:1,mlx5_2", "mlx5_2", 1, true},
        {" mlx5_2", "mlx5_2", 1, false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        CAPTURE(row.device);
        detect::Nic nic;
        nic.rdma_device = row.device;
        nic.port = row.port;
        CHECK(env::parse_hca_list(row.value).takes(nic) == row.takes);
    }
}

TEST_CASE("a list of thousands of entries is cut where NCCL cuts it") {
    std::string value;
    for (int i = 0; i < 5000; ++i) value += "a" + std::to_string(i) + ",";
    CHECK(env::parse_hca_list(value).entries.size() == 32);
}

}  // namespace
}  // namespace toporun::tests
