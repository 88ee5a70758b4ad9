#include "env/gid.hpp"

#include "fabrics.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;
using toporun::detect::Gid;

const std::vector<Gid> kUsual = {{0, "fe80::1", "RoCE v1", ""},
                                 {1, "fe80::1", "RoCE v2", ""},
                                 {2, "::ffff:10.1.0.5", "RoCE v1", ""},
                                 {3, "::ffff:10.1.0.5", "RoCE v2", ""}};
const std::vector<Gid> kV6Only = {{0, "fe80::1", "RoCE v1", ""},
                                  {1, "fe80::1", "RoCE v2", ""},
                                  {2, "fd02::7", "RoCE v1", ""},
                                  {3, "fd02::7", "RoCE v2", ""}};

std::vector<Gid> with_vlan() {
    std::vector<Gid> gids = kUsual;
    gids.push_back({4, "::ffff:10.9.0.5", "RoCE v1", ""});
    gids.push_back({5, "::ffff:10.9.0.5", "RoCE v2", ""});
    return gids;
}

TEST_CASE("NCCL's own walk through the GID table is modelled") {
    struct Row {
        std::string name;
        std::vector<Gid> gids;
        int index;
        bool right;
    };
    const std::vector<Row> rows = {
        {"a usual host", kUsual, 3, true},
        {"the first of two addresses", with_vlan(), 3, true},
        {"v2 before v1",
         {{0, "fe80::1", "RoCE v1", ""},
          {1, "::ffff:10.1.0.5", "RoCE v2", ""},
          {2, "::ffff:10.1.0.5", "RoCE v1", ""}},
         1,
         true},
        {"IPv6 only stays at 0", kV6Only, 0, false},
        {"link-local only",
         {{0, "fe80::1", "RoCE v1", ""}, {1, "fe80::1", "RoCE v2", ""}},
         0,
         false},
        {"no entry 0",
         {{2, "::ffff:10.1.0.5", "RoCE v1", ""}, {6, "::ffff:10.1.0.5", "RoCE v2", ""}},
         6,
         true},
        {"v1 only",
         {{0, "fe80::1", "RoCE v1", ""}, {1, "::ffff:10.1.0.5", "RoCE v1", ""}},
         1,
         false},
        {"empty", {}, 0, false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        auto port = rdma_port("mlx5_0", NicKind::roce, 400);
        port.gids = row.gids;
        CHECK(env::automatic_gid_index(port) == row.index);
        const Gid* gid = env::gid_at(port, row.index);
        CHECK((gid != nullptr && env::is_routable_v2(*gid)) == row.right);
    }
}

TEST_CASE("the GID index is exported only where the version takes a wrong entry") {
    struct Row {
        std::string name;
        std::string nccl;
        std::vector<std::vector<Gid>> tables;  ///< one a port
        std::map<std::string, std::string> variables;
        std::optional<std::string> value;
        std::string reason;
    };
    std::vector<Gid> untyped = kUsual;
    for (Gid& gid : untyped) gid.type.clear();
    const std::vector<Row> rows = {
        {"new versions choose", "2.28.9", {kUsual}, {}, {}, "NCCL's own choice"},
        {"since 2.21.5", "2.21.5", {kUsual}, {}, {}, "NCCL's own choice"},
        {"before it", "2.20.5", {kUsual}, {}, "3", "not routed"},
        {"two ports alike", "2.18.3", {kUsual, with_vlan()}, {}, "3", "not routed"},
        {"two ports that differ",
         "2.18.3",
         {kUsual, {{0, "fe80::1", "RoCE v1", ""}, {5, "::ffff:10.2.0.5", "RoCE v2", ""}}},
         {},
         {},
         "differs between the ports"},
        {"old, index 0 right",
         "2.18.3",
         {{{0, "::ffff:10.1.0.5", "RoCE v2", ""}}},
         {},
         {},
         "NCCL's own choice"},
        {"old, unknown types", "2.18.3", {untyped}, {}, {}, "not known"},
        {"new, unknown types", "2.28.9", {untyped}, {}, {}, "by itself"},
        {"old, no table", "2.18.3", {{}}, {}, {}, "not known"},
        {"IPv6 fabric", "2.28.9", {kV6Only}, {}, "3", "not routed"},
        {"IPv6 fabric steered by the user",
         "2.28.9",
         {kV6Only},
         {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}},
         {},
         "NCCL_IB_ADDR_FAMILY"},
        {"one port without an address",
         "2.18.3",
         {kUsual, {{0, "fe80::1", "RoCE v1", ""}, {1, "fe80::1", "RoCE v2", ""}}},
         {},
         "3",
         "not routed"},  // the second port is left out of NCCL_IB_HCA
        {"no port has one",
         "2.18.3",
         {{{0, "fe80::1", "RoCE v1", ""}}},
         {},
         {},
         "no RoCE v2 entry"},
        {"the user's index", "2.18.3", {kUsual}, {{"NCCL_IB_GID_INDEX", "1"}}, {}, "set already"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = host(1, 16);
        add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
        for (std::size_t i = 0; i < row.tables.size(); ++i) {
            auto port = rdma_port("mlx5_" + std::to_string(i), NicKind::roce, 400);
            port.gids = row.tables[i];
            machine.nics.push_back(port);
        }
        machine.software.nccl_version = row.nccl;
        const auto made = plan(machine, job(8, 2), user(row.variables));
        const auto choice = setting(made, "NCCL_IB_GID_INDEX");
        CAPTURE(choice.reason);
        CHECK(exported(made, "NCCL_IB_GID_INDEX") == row.value);
        CHECK(choice.reason.find(row.reason) != std::string::npos);
        CHECK_FALSE(choice.nccl_default.empty());
    }
}

TEST_CASE("the user's GID index is shown, and said where it is not routed") {
    Machine machine = host(1, 16);
    add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    auto port = rdma_port("mlx5_bond_0", NicKind::roce, 100);
    port.gids = kUsual;
    machine.nics.push_back(port);
    const auto with_index = [&](const std::string& value) {
        return plan(machine, job(8, 2), user({{"NCCL_IB_GID_INDEX", value}}));
    };
    CHECK(setting(with_index("1"), "NCCL_IB_GID_INDEX").value == "1");
    CHECK(setting(with_index("1"), "NCCL_IB_GID_INDEX").origin == env::Origin::user);
    CHECK(finding_ids(with_index("1")) == std::vector<std::string>{"roce-gid-link-local"});
    CHECK(with_index("1").findings[0].remark.find("index 3 is RoCE v2 of 10.1.0.5") !=
          std::string::npos);
    CHECK(finding_ids(with_index("9")) == std::vector<std::string>{"roce-gid-absent"});
    CHECK(finding_ids(with_index("3")).empty());
    CHECK(finding_ids(with_index("-1")).empty());
    CHECK_FALSE(has_setting(plan(machine, job(8)), "NCCL_IB_GID_INDEX"));  // one node
}

}  // namespace
