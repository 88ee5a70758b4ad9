#include <doctest/doctest.h>

#include "base/text.hpp"
#include "detect/import/import.hpp"
#include "files.hpp"
#include "support.hpp"

/// Captures as reports hold them, of two nodes: what they do not tell becomes no finding and no
/// variable.
namespace toporun::tests {
namespace {

struct Row {
    std::string file;  ///< below tests/data/detect/import
    int ranks = 2;     ///< on each node
    std::vector<std::string> ids;
    std::string exported;  ///< of the variables that depend on the machine
};

Machine machine_of(const std::string& file) {
    const std::string text = read_file(std::string(TOPORUN_TEST_DATA) + "/detect/import/" + file);
    const detect::Capture capture{"capture.txt", text};
    return detect::import_captures({&capture, 1});
}

std::string settings_of(const env::Plan& plan) {
    std::vector<std::string> found;
    for (const char* name :
         {"CUDA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME",
          "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "OMP_NUM_THREADS", "TOPORUN_NUM_WORKERS"})
        if (const auto value = exported(plan, name))
            found.push_back(std::string(name) + "=" + *value);
    return join(found, " ");
}

TEST_CASE("captures of reports give the findings and variables that they prove, no others") {
    const std::string nvlink = "NCCL_P2P_LEVEL=NVL";
    const std::string with_nvlink = nvlink + " OMP_NUM_THREADS=8 TOPORUN_NUM_WORKERS=8";
    const std::vector<Row> rows = {
        // Interfaces whose addresses are not told are not without an address.
        {"field/ip-link-iface-none.txt", 2, {}, ""},
        {"ip_brief/link.txt", 2, {}, ""},
        {"ethtool/speeds.txt", 2, {}, ""},
        // net-tools calls InfiniBand UNSPEC, like tunnels.
        {"ifconfig/ipoib-unspec-old.txt", 2, {}, ""},
        // Paths by PCI alone say nothing of NVLinks.
        {"nvidia_topo/topo-mp.txt", 2, {}, ""},
        // A port that may have no cable does not stand for one that is up.
        {"field/ibdev2netdev-down.txt", 2, {}, ""},
        {"nvidia_topo/hca-without-port-state.txt", 2, {}, with_nvlink},
        {"nvidia_topo/nics-not-displayed.txt", 2, {}, with_nvlink},
        // CPUs near GPUs are not all CPUs.
        {"nvidia_topo/cut-table-threads.txt", 4, {}, nvlink},
        {"nvidia_topo/near-cpus-as-all.txt", 4, {}, ""},
        // What a pod sees of its interfaces, and the bridge that is the host's way out.
        {"field/pod-eth0.txt", 2, {}, ""},
        {"field/bridge-with-port.txt", 2, {}, ""},
        {"field/same-subnet-pairs.txt", 2, {}, ""},
        {"field/two-hosts-merged.txt", 2, {}, ""},
        {"field/graph-rows-of-some-gpus.txt", 2, {}, nvlink},
        {"field/log-dev-numbers.txt", 2, {}, ""},
        {"field/net-nodes-no-network.txt", 2, {}, ""},
        {"field/xgmi-weight30.txt", 2, {}, ""},
        // Whether there are GPUs is not told.
        {"field/lscpu-threads.txt", 2, {}, "TOPORUN_NUM_WORKERS=8"},
        {"ip_addr/inet-only.txt", 2, {}, ""},
        {"field/bond-speed-unknown.txt", 2, {"iface-mtu-small"}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.file);
        const Machine machine = machine_of(row.file);
        const env::Diagnosis diagnosis = examine(machine, {}, doctor_job(2, row.ranks));
        CAPTURE(ids(diagnosis));
        CHECK(ids(diagnosis) == row.ids);
        CHECK(settings_of(plan(machine, job(row.ranks, 2))) == row.exported);
    }
}

TEST_CASE("several ports in one subnet are one finding, each with a table of its own") {
    Machine machine = healthy_node();
    machine.nics.clear();
    for (int i = 0; i < 3; ++i) {
        const std::string number = std::to_string(i);
        machine.nics.push_back(
            nic("hsn" + number, NicKind::ethernet, {"10.253.0.1" + number + "/16"}));
    }
    const env::Diagnosis three = examine(machine, {}, doctor_job(2));
    const std::vector<std::string> kinds = ids(three);
    CHECK(std::count(kinds.begin(), kinds.end(), "iface-same-subnet") == 1);
    const env::Finding found = finding(three, "iface-same-subnet");
    CHECK(found.severity == env::Severity::note);
    CHECK(found.what == "hsn0, hsn1 and hsn2 share the subnet 10.253.0.0/16");
    CHECK(found.fix.find("from 10.253.0.11 table 100") != std::string::npos);
    CHECK(found.fix.find("from 10.253.0.12 table 101") != std::string::npos);
    machine.nics.pop_back();
    CHECK(finding(examine(machine, {}, doctor_job(2)), "iface-same-subnet").severity ==
          env::Severity::slow);
}

TEST_CASE("the nearest adapter is told of each GPU") {
    const Machine machine = machine_of("field/gdr-mixed-nearest.txt");
    CHECK(finding(examine(machine, {}, doctor_job(2)), "gdr-far-adapter").evidence ==
          "nearest path PHB (GPU 0), SYS (GPU 1) (nvidia-smi topo -m)");
}

}  // namespace
}  // namespace toporun::tests
