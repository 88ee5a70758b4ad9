#include <doctest/doctest.h>

#include "detect/import/import.hpp"
#include "support.hpp"

/// What people paste, examined: captures tell a part of the machine, and what they do not tell must
/// not be taken for a fault.
namespace toporun::tests {
namespace {

env::Diagnosis examine_capture(const std::string& text) {
    const detect::Capture capture{"capture.txt", text};
    return examine(detect::import_captures({&capture, 1}));
}

TEST_CASE("a matrix without names of GPUs says what it shows and nothing else") {
    struct Row {
        std::string name;
        std::string text;
        std::vector<std::string> ids;
    };
    const std::vector<Row> rows = {
        {"adapters on the other package",
         "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
         "GPU0\t X \tNODE\tSYS\t0-7\t0\t\tN/A\n"
         "GPU1\tNODE\t X \tSYS\t0-7\t0\t\tN/A\n"
         "NIC0\tSYS\tSYS\t X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
         {"gdr-far-adapter"}},
        {"GPU memory is a NUMA node: the C2C way is not shown",
         "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
         "GPU0\t X \tNV18\tSYS\t0-71\t0,3-9\t\t2\n"
         "GPU1\tNV18\t X \tSYS\t0-71\t0,3-9\t\t10\n"
         "NIC0\tSYS\tSYS\t X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
         {}},
        {"an adapter beside each GPU",
         "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
         "GPU0\t X \tNV12\tPIX\tNODE\t0-7\t0\n"
         "GPU1\tNV12\t X \tNODE\tPIX\t0-7\t0\n"
         "NIC0\tPIX\tNODE\t X \tNODE\nNIC1\tNODE\tPIX\tNODE\t X\n\n"
         "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n",
         {}},
        {"one GPU alone", "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n", {}},
        {"interfaces alone",
         "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 state UNKNOWN\n    inet 127.0.0.1/8 scope host "
         "lo\n"
         "2: eth0: <BROADCAST,UP,LOWER_UP> mtu 9000 state UP\n    inet 192.0.2.7/24 scope global\n",
         {}},
        {"a topology without interfaces",
         "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n"
         "  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\">\n"
         "    <object type=\"Package\" os_index=\"0\" cpuset=\"0x3\">\n"
         "      <object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-10]\">\n"
         "        <object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" pci_type=\"0302 [10de:1db1] "
         "[10de:1212] a1\" pci_link_speed=\"15.75\"/>\n"
         "      </object>\n    </object>\n  </object>\n</topology>\n",
         {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            const env::Diagnosis diagnosis = examine_capture(row.text);
            CAPTURE(ids(diagnosis));
            CHECK(ids(diagnosis) == row.ids);
        }
    }
}

TEST_CASE("modules whose NVLinks the capture does not tell are not called faulty") {
    Machine machine = host(2, 48);
    add_gpus(machine, 8, "NVIDIA A100-SXM4-40GB", PathType::SYS);
    for (const bool empty : {true, false}) {
        if (empty)
            machine.gpu_links.clear();
        else
            machine.gpu_links.assign(8, std::vector<int>(8, -1));
        const env::Diagnosis diagnosis = examine(machine);
        CHECK_FALSE(has(diagnosis, "nvlink-missing"));
        CHECK(std::find(diagnosis.unknown.begin(), diagnosis.unknown.end(), "the NVLink states") !=
              diagnosis.unknown.end());
    }
    machine.gpu_links.assign(8, std::vector<int>(8, 0));
    CHECK(finding(examine(machine), "nvlink-missing").evidence ==
          "NVIDIA A100-SXM4-40GB: every pair is SYS, with 0 NVLinks");
}

TEST_CASE("P2P refused below one switch: models without it are silent, unknown ones not judged") {
    struct Row {
        std::string name;
        bool found;
        bool asked;
    };
    for (const Row& row : {Row{"NVIDIA RTX A6000", true, false}, Row{"NVIDIA L4", false, false},
                           Row{"NVIDIA GeForce RTX 4090", false, false}, Row{"", false, true}}) {
        CAPTURE(row.name);
        Machine machine = host(1, 16);
        add_gpus(machine, 2, row.name, PathType::PIX);
        set_peer_access(machine, PeerAccess::refused);
        const env::Diagnosis diagnosis = examine(machine);
        CHECK(has(diagnosis, "p2p-refused") == row.found);
        CHECK((std::find(diagnosis.unknown.begin(), diagnosis.unknown.end(),
                         "the names of the GPUs") != diagnosis.unknown.end()) == row.asked);
    }
}

TEST_CASE("P2P that is refused on unknown paths is not called sound") {
    Machine machine = host(1, 16);
    add_gpus(machine, 2, "NVIDIA RTX A6000", PathType::PIX);
    set_peer_access(machine, PeerAccess::refused);
    machine.gpu_paths.clear();
    const auto unknown = examine(machine).unknown;
    CHECK(std::find(unknown.begin(), unknown.end(), "the paths between the GPUs") != unknown.end());
}

TEST_CASE("findings name GPUs by their numbers, not by their places in the list") {
    Machine machine = host(1, 16);
    add_gpus(machine, 2, "NVIDIA RTX A6000", PathType::PIX);
    machine.gpus[0].index = 2;
    machine.gpus[1].index = 5;
    set_peer_access(machine, PeerAccess::refused);
    CHECK(finding(examine(machine), "p2p-refused").evidence ==
          "pairs 2-5 (nvidia-smi topo -p2p r)");
    Machine board = healthy_node();
    for (detect::Gpu& gpu : board.gpus) gpu.index += 10;
    connect(board, 1, 2, PathType::PXB);
    CHECK(finding(examine(board), "nvlink-missing-pair").evidence == "pairs without: 11-12");
}

}  // namespace
}  // namespace toporun::tests
