#include "env/fabric.hpp"

#include "fabrics.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

/// Four rails and two storage ports.
Machine with_storage() {
    return railed(4, {rdma_port("mlx5_10", NicKind::infiniband, 400),
                      rdma_port("mlx5_11", NicKind::infiniband, 400)});
}

constexpr const char* kRails = "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1";

TEST_CASE("NCCL_IB_HCA names the rails exactly, and only where it must") {
    const auto list = [](const Machine& machine, env::Job of = job(4, 2),
                         std::map<std::string, std::string> variables = {}) {
        return exported(plan(machine, of, user(std::move(variables))), "NCCL_IB_HCA");
    };
    CHECK(list(with_storage()) == kRails);
    CHECK_FALSE(list(railed(4, {})));
    CHECK_FALSE(list(with_storage(), job(4, 1)));
    CHECK_FALSE(list(with_storage(), job(4, 2), {{"NCCL_IB_DISABLE", "1"}}));
    CHECK_FALSE(list(with_storage(), job(4, 2), {{"NCCL_NET", "Socket"}}));
    CHECK_FALSE(list(with_storage(), job(4, 2), {{"NCCL_IB_HCA", "mlx5_0"}}));
    CHECK(list(with_storage(), job(4, 2), {{"NCCL_NET", "ib"}}) == kRails);
    env::Job elsewhere = job(4, 2);
    elsewhere.same_host = false;
    CHECK_FALSE(list(with_storage(), elsewhere));
    Machine unopened = with_storage();
    unopened.software.verbs_devices = 0;
    CHECK_FALSE(list(unopened));
    Machine odd = with_storage();
    odd.nics[2].rdma_device = "mlx5,0";
    CHECK_FALSE(list(odd));
    CHECK_FALSE(list(railed(40, {rdma_port("x", NicKind::infiniband, 400)}), job(40, 2)));
    const auto said = setting(plan(with_storage(), job(4, 2)), "NCCL_IB_HCA");
    CHECK(said.reason.find("mlx5_10:1, mlx5_11:1: farther from every GPU (SYS)") !=
          std::string::npos);
    CHECK(said.origin == env::Origin::detected);
}

TEST_CASE("what a plugin owns is left to it") {
    struct Row {
        std::string library;
        std::string maker;
        std::map<std::string, std::string> variables;
        std::optional<std::string> value;
    };
    const std::vector<Row> rows = {
        {"libnccl-net.so", "aws-ofi", {}, {}},
        {"libnccl-net.so", "gib", {}, {}},
        {"libnccl-net.so", "hpcx", {}, {}},
        {"libnccl-net.so", "tcpxo", {}, {}},
        {"libnccl-net.so", "", {}, {}},
        {"libnccl-net.so", "hpcx", {{"NCCL_NET_PLUGIN", "none"}}, kRails},
        {"libnccl-tuner.so", "", {}, kRails},
        {"", "", {{"NCCL_NET_PLUGIN", "mine"}}, {}},
        {"", "", {{"NCCL_NET", "gIB"}}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.library);
        CAPTURE(row.maker);
        Machine machine = with_storage();
        if (!row.library.empty()) {
            machine.software.nccl_plugins = {row.library};
            machine.software.nccl_plugin_files = {{row.library, "/opt/" + row.library, row.maker}};
        }
        const auto made = plan(machine, job(4, 2), user(row.variables));
        CHECK(exported(made, "NCCL_IB_HCA") == row.value);
        CHECK_FALSE(setting(made, "NCCL_IB_HCA").reason.empty());
        CHECK(has_setting(made, "NCCL_CROSS_NIC") == row.value.has_value());
    }
    // EFA beside two adapters of another kind, as on p6-b200: whatever carries the data, no list.
    Machine efa = host(2, 48);
    add_nics(efa,
             {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"}),
              rdma_port("rdmap1", NicKind::efa, 400), rdma_port("rdmap2", NicKind::efa, 400),
              rdma_port("mlx5_0", NicKind::roce, 100), rdma_port("mlx5_1", NicKind::roce, 100)});

    CHECK_FALSE(exported(plan(efa, job(8, 2)), "NCCL_IB_HCA"));
}

TEST_CASE("the data goes where NCCL's order says") {
    const auto carrier = [](const Machine& machine, std::map<std::string, std::string> variables) {
        const env::Job of = job(4, 2);
        const auto environment = user(std::move(variables));
        const toporun::profiles::Knowledge knowledge;
        const env::Options how;
        return env::data_carrier(
            {of, machine, environment, how, knowledge, nullptr, 22809, false, {}, {}});
    };
    const Machine rails = railed(4, {});
    CHECK(carrier(rails, {}).kind == env::Carrier::verbs);
    CHECK(carrier(rails, {{"NCCL_IB_DISABLE", "1"}}).kind == env::Carrier::sockets);
    CHECK(carrier(rails, {{"NCCL_IB_DISABLE", "0"}}).kind == env::Carrier::verbs);
    CHECK(carrier(rails, {{"NCCL_IB_DISABLE", "yes"}}).kind == env::Carrier::verbs);
    CHECK(carrier(rails, {{"NCCL_NET", "SOCKET"}}).kind == env::Carrier::sockets);
    CHECK(carrier(rails, {{"NCCL_NET", "AWS Libfabric"}}).kind == env::Carrier::plugin);
    CHECK(carrier(hgx_h100(), {}).kind == env::Carrier::sockets);
    Machine down = rails;
    for (auto& one : down.nics)
        if (one.rdma_device) one.port_state = "down";
    CHECK(carrier(down, {}).kind == env::Carrier::sockets);
    Machine ofi = rails;
    ofi.software.nccl_plugins = {"libnccl-net.so"};
    ofi.software.nccl_plugin_files = {{"libnccl-net.so", "/a", "aws-ofi"}};
    CHECK(carrier(ofi, {{"NCCL_IB_DISABLE", "1"}}).kind == env::Carrier::plugin);
    ofi.software.nccl_plugin_files = {{"libnccl-net.so", "/a", "hpcx"}};
    CHECK(carrier(ofi, {{"NCCL_IB_DISABLE", "1"}}).kind == env::Carrier::sockets);
}

TEST_CASE("what is left to NCCL is shown where its hardware is there") {
    const auto shown = [](const Machine& machine, const std::string& name, int nodes = 2) {
        return has_setting(plan(machine, job(4, nodes)), name);
    };
    const Machine ib = railed(4, {}), roce = railed(4, {}, NicKind::roce);
    for (const char* name :
         {"NCCL_CROSS_NIC", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_NET_GDR_LEVEL"}) {
        CAPTURE(name);
        CHECK(shown(ib, name));
        CHECK_FALSE(shown(ib, name, 1));
        CHECK_FALSE(setting(plan(ib, job(4, 2)), name).value);
        CHECK_FALSE(setting(plan(ib, job(4, 2)), name).reason.empty());
    }
    CHECK_FALSE(shown(ib, "NCCL_IB_TC"));
    CHECK_FALSE(shown(ib, "NCCL_IB_GID_INDEX"));
    CHECK(shown(roce, "NCCL_IB_TC"));
    CHECK(shown(roce, "NCCL_IB_SL"));
    CHECK(shown(roce, "NCCL_IB_GID_INDEX"));
    CHECK_FALSE(shown(ib, "NCCL_SOCKET_NTHREADS"));
}

TEST_CASE("threads of sockets are left to NCCL, the reason is shown on fast adapters") {
    Machine machine = host(2, 32);
    auto ethernet = nic("eth0", NicKind::ethernet, {"10.0.0.1/24"});
    ethernet.speed_gbits = 100;
    add_nics(machine, {ethernet});
    const auto made = plan(machine, job(4, 2));
    for (const char* name : {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}) {
        CHECK_FALSE(exported(made, name));
        CHECK(setting(made, name).reason.find("measure") != std::string::npos);
    }
    machine.nics[1].driver = "ena";
    CHECK(setting(plan(machine, job(4, 2)), "NCCL_SOCKET_NTHREADS").nccl_default.find("Amazon") !=
          std::string::npos);
    machine.nics[1].speed_gbits = 10;
    CHECK_FALSE(has_setting(plan(machine, job(4, 2)), "NCCL_SOCKET_NTHREADS"));
    const auto users = plan(machine, job(4, 2), user({{"NCCL_SOCKET_NTHREADS", "8"}}));
    CHECK(setting(users, "NCCL_SOCKET_NTHREADS").origin == env::Origin::user);
}

TEST_CASE("a list of the user's that takes storage ports is said once") {
    const auto ids = [](const std::string& value) {
        return finding_ids(plan(with_storage(), job(4, 2), user({{"NCCL_IB_HCA", value}})));
    };
    CHECK(ids("mlx5") == std::vector<std::string>{"ib-hca-extra"});
    CHECK(ids("mlx5_1") == std::vector<std::string>{"ib-hca-extra"});  // a prefix of mlx5_10
    CHECK(ids("=mlx5_1") == std::vector<std::string>{"ib-hca-missing"});
    CHECK(ids("^mlx5_10,mlx5_11").empty());
    CHECK(ids("=mlx5_10") == std::vector<std::string>{"ib-hca-missing"});
    CHECK(ids("").size() == 1);  // nccl-empty-value
}

}  // namespace
