#include <string>

#include "detect/machine_toml.hpp"
#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

detect::Machine import_log(const std::string& name) {
    return import_text(read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                 "detect/import/nccl-log" / (name + ".log")));
}

std::string repeated(const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
}

}  // namespace

TEST_CASE("the tree of a node in a log of several ranks and hosts") {
    const detect::Machine machine = import_log("graph-2.28");
    CHECK(machine.hostname == "node-a");
    CHECK(machine.software.nccl_version == "2.28.9");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].pci->text() == "0000:1a:00.0");
    CHECK(machine.gpus[0].index == 2);  // of NVML: the job has two of the node's GPUs
    CHECK(machine.gpus[1].index == 3);
    CHECK(numa_nodes(machine) == "0 1");
    CHECK(path_row(machine, 0) == "LOC SYS");
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(22));
    CHECK(nic_names(machine) == "mlx5_0 mlx5_3 eth0");
    CHECK(nic_row(machine, 0) == "PIX SYS ?");
    CHECK(nic_row(machine, 1) == "SYS PHB ?");
    CHECK(machine.nics[0].kind == detect::NicKind::infiniband);
    CHECK(machine.nics[1].kind == detect::NicKind::roce);
    CHECK(machine.nics[0].speed_gbits == doctest::Approx(400));
    CHECK(machine.nics[0].pci->text() == "0000:1b:00.0");
    CHECK(machine.nics[1].numa_node == 1);
    CHECK(machine.nics[2].addresses == std::vector<std::string>{"10.0.0.1"});
    CHECK(machine.cpu.vendor == "GenuineIntel");
    CHECK(machine.cpu.numa_nodes.size() == 2);
    CHECK(has_note(machine, "the log tells of 2 hosts: node-a is read"));
    CHECK_FALSE(has_note(machine, "not understood"));
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("an older log behind mpirun's prefixes, cut in a line") {
    const detect::Machine machine = import_log("graph-2.14");
    CHECK(machine.software.nccl_version == "2.14.3");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].pci->text() == "0000:10:1c.0");
    CHECK(path_row(machine, 1) == "NVL LOC");
    CHECK(machine.nvswitch);
    CHECK(nic_names(machine) == "efa0 ens5");
    CHECK(nic_row(machine, 0) == "PHB ?");
    CHECK(nic_row(machine, 1) == "? ?");
    CHECK(has_note(machine, "NCCL cut long lines"));
    CHECK(has_note(machine, "under NCCL_P2P_LEVEL=SYS"));
}

TEST_CASE("a log without the tree tells bus ids, adapters and distances") {
    const detect::Machine machine = import_log("distances-2.19");
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].pci->text() == "0000:ca:00.0");
    CHECK(machine.gpu_paths.empty());
    CHECK(nic_names(machine) == "mlx5_0 mlx5_1 ib0");
    CHECK(nic_row(machine, 0) == "SYS PIX ?");  // 7 and 3 in the numbers of 2.18 to 2.25
    CHECK(has_note(machine, "no tree of the node"));
}

TEST_CASE("distances are numbers of their version") {
    struct Row {
        std::string version;
        std::string gpu;
        int distance;
        std::string expected;
    };
    const Row rows[] = {
        {"2.8.4", "ca000", 5, "PHB"}, {"2.12.12", "ca000", 5, "PXN"}, {"2.26.2", "0", 5, "PXB"},
        {"2.27.3", "0", 7, "P2C"},    {"2.27.5", "0", 7, "PXN"},      {"2.29.2", "0", 9, "SYS"},
        {"2.28.9", "0", 10, "?"},     {"2.28.9", "0", -1, "?"},       {"2.28.9", "7", 4, "?"}};
    for (const Row& row : rows) {
        CAPTURE(row.version);
        CAPTURE(row.distance);
        const std::string prefix = "node-a:7:9 [0] NCCL INFO ";
        const detect::Machine machine =
            import_text(prefix + "NCCL version " + row.version + "+cuda12.3\n" + prefix +
                        "NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.1.0.7<0>\n" + prefix +
                        "comm 0x1 rank 0 nranks 1 cudaDev 0 busId ca000 - Init COMPLETE\n" +
                        prefix + "GPU Direct RDMA Enabled for GPU " + row.gpu +
                        " / HCA 0 (distance " + std::to_string(row.distance) + " <= 4), read 1\n");
        CHECK(nic_row(machine, 0).substr(0, row.expected.size()) == row.expected);
    }
}

TEST_CASE("connections within the host name its GPUs in older logs") {
    const std::string prefix = "node-a:7:9 [0] NCCL INFO Channel 00/0 : ";
    const detect::Machine machine = import_text(prefix + "0[1a000] -> 1[3b000] via P2P/IPC\n" +
                                                prefix + "1[3b000] -> 2[88000] via SHM\n" + prefix +
                                                "2[88000] -> 8[1c000] [send] via NET/IB/0\n" +
                                                prefix + "0[0] -> 1[1] via P2P/IPC\n");
    REQUIRE(machine.gpus.size() == 3);
    CHECK(machine.gpus[2].pci->text() == "0000:88:00.0");
}

TEST_CASE("a torn host name is no host") {
    const std::string line = "node-a:7:9 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n";
    const detect::Machine machine = import_text("sum" + line + repeated(line, 80));
    CHECK(machine.hostname == "node-a");
    CHECK_FALSE(has_note(machine, "hosts"));
    CHECK(machine.nics.size() == 1);
    CHECK_FALSE(machine.gpus_known);
}

TEST_CASE("lines that another process wrote into are told, their host is the whole name") {
    const std::string rank0 =
        "node-a:11:21 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 "
        "busId 2000 commId 0x24 - Init COMPLETE\n";
    const std::string filler = "node-a:12:22 [1] NCCL INFO Connected all trees\n";
    const std::string torn =
        "per peer node-a:80356node-a:12:22 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 "
        "nvmlDev 1 bu\n";
    const detect::Machine machine =
        import_text(repeated(filler, 20) + torn + "0node-a:12:22 [1] NCCL INFO Connected\n" +
                    "de-a:12:22 [1] NCCL INFO Connected node-a:11:21 [0] NCCL INFO Conn\n" + rank0);
    CHECK(machine.hostname == "node-a");
    REQUIRE(machine.gpus.size() == 1);
    CHECK_FALSE(has_note(machine, "hosts"));
    const std::string notes = join(machine.notes, "; ");
    CAPTURE(notes);
    CHECK(has_note(machine, "3 lines of the log are torn"));
}

TEST_CASE("what the log proves but does not tell is noted") {
    const auto init = [](int rank, int device, const std::string& bus_id) {
        const std::string number = std::to_string(device);
        return "node-a:1" + number + ":2 [" + number +
               "] NCCL INFO ncclCommInitRank comm 0x1 rank " + std::to_string(rank) +
               " nranks 16 cudaDev " + number + " nvmlDev " + number + " busId " + bus_id +
               " commId 0x24 - Init COMPLETE\n";
    };
    const detect::Machine machine = import_text(init(8, 0, "18000") + init(15, 7, "db000"));
    CHECK(machine.gpus.size() == 2);
    CHECK(has_note(machine, "the host has at least 8 GPUs, 2 are told"));
    const detect::Machine whole = import_text(init(0, 0, "18000") + init(1, 1, "db000"));
    CHECK_FALSE(has_note(whole, "at least"));
}

TEST_CASE("interfaces taken by the user's word, and adapters of a plugin") {
    const detect::Machine lo = import_text(
        "node-a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to lo\n"
        "node-a:1:1 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>\n"
        "node-a:1:1 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
        "node-a:1:1 [0] NCCL INFO Using network Socket\n");
    CHECK(has_note(lo, "that NCCL used under NCCL_SOCKET_IFNAME=lo"));
    const detect::Machine efa = import_text(
        "node-a:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "node-a:1:1 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
        "node-a:1:1 [0] NCCL INFO Using network AWS Libfabric\n"
        "node-a:1:2 [0] NCCL INFO Channel 00 : 0[101c0] -> 8[101c0] [send] via NET/AWS "
        "Libfabric/1/GDRDMA\n");
    REQUIRE(nic_names(efa) == "NET/1 eth0");  // the log names no other
    CHECK(efa.nics[0].kind == detect::NicKind::efa);
    CHECK(efa.nics[1].kind == detect::NicKind::ethernet);
}

TEST_CASE("a log that tells nothing says what would") {
    CHECK_THROWS_WITH_AS(import_text("node-a:7:9 [0] NCCL INFO Connected all rings\n"),
                         "NCCL's log tells nothing of the machine", Error);
}

TEST_CASE("hostile trees stay within bounds") {
    const std::string prefix = "node-a:7:9 [0] NCCL INFO ";
    std::string text = prefix + "NCCL version 2.28.9+cuda13.0\n";
    text += prefix + "CPU/0-ffffffffffffffff (1/1/3)\n";
    text += prefix + "+ PCI[1e999] - GPU/0-1a000 (0)\n";
    text += prefix + "GPU/0-1a000 :GPU/0-1a000 (0/5000.0/LOC) NET/0-ffffffffffffff (1/1.0/XYZ)\n";
    text += prefix + "GPU/0-ffffffffffffff :GPU/0-ffffffffffffff (0/5000.0/LOC)\n";
    for (int i = 0; i < 3000; ++i)
        text +=
            prefix + "GPU/0-" + std::to_string(10000 + 1000 * i) + " :GPU/0-1a000 (2/1.0/PIX)\n";
    const detect::Machine machine = import_text(text);
    CHECK(machine.gpus.size() < 5000);
    CHECK(machine.nics.empty());
}
