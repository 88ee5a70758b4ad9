#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;
using detect::PeerAccess;

namespace {

detect::Machine import_data(const std::string& name) {
    return import_text(read_file(std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import" / name),
                       name);
}

std::string access_row(const detect::Machine& machine, std::size_t gpu) {
    std::string row;
    if (gpu >= machine.peer_access.size()) return row;
    for (const PeerAccess access : machine.peer_access[gpu])
        row += access == PeerAccess::ok ? '+' : access == PeerAccess::refused ? '-' : '?';
    return row;
}

}  // namespace

TEST_CASE("own tables of nvidia-smi topo -m are read whole") {
    struct Row {
        std::string file;
        std::vector<std::string> paths, nic_paths;
        std::string numa, nics;
        std::vector<std::string> notes;  ///< parts, one for each note
    };
    const std::vector<std::string> paths = {"LOC NVL SYS SYS", "NVL LOC SYS SYS", "SYS SYS LOC NVL",
                                            "SYS SYS NVL LOC"};
    const std::vector<std::string> nic_paths = {"PXB SYS", "PXB SYS", "SYS PXB", "SYS PXB"};
    const std::string legend = "the legend is missing";
    const std::vector<Row> rows = {
        {"bridged-pairs.txt", paths, nic_paths, "0 0 1 1", "mlx5_2 mlx5_5", {}},
        {"two-tasks.txt",
         paths,
         nic_paths,
         "0 0 1 1",
         "NIC0 NIC1",
         {legend, "the lines of '0' were read, 7 lines of other tasks or hosts left out"}},
        {"wrapped.txt", paths, nic_paths, "0 0 1 1", "NIC0 NIC1", {legend}},
        {"quoted-cut.txt",
         {"LOC NVL SYS SYS", "NVL LOC SYS SYS", "SYS SYS LOC ?", "SYS SYS ? LOC"},
         {"PXB SYS", "PXB SYS", "? ?", "? ?"},
         "0 0 ? ?",
         "NIC0 NIC1",
         {"row GPU2 is cut: 4 cells of 6", legend, "NUMA nodes without a GPU",
          "missing: the row of GPU3", "missing: the rows of NIC0, NIC1"}},
        {"damaged.txt",
         paths,
         {"PXB SYS", "PXB SYS", "SYS PXB", "SYS PXB"},
         "0 0 1 1",
         "NIC0 NIC1",
         {"row GPU0: 'SYSSYS' is 2 cells glued together", "row GPU1: 'BAD' is not a known cell",
          "GPU2 and GPU3: the two halves of the table differ", "GPU2 and NIC1: the two halves",
          legend, "1 line was not understood, the first: line 1"}},
        {"one-gpu.txt", {"LOC"}, {}, "0", "", {}},
        {"glued-header.txt",
         {"LOC NVL", "NVL LOC"},
         {"PIX PHB PHB", "SYS SYS PIX"},
         "0 1",
         "mlx5_0 mlx5_1 mlx5_2",
         {"row GPU0: 'NODENODE' is 2 cells", "row GPU1: 'SYSPIX' is 2 cells",
          "row NIC0: 'NODENODE' is 2 cells"}},
        {"glued-header-spaces.txt",
         {"LOC NVL", "NVL LOC"},
         {"PIX PHB PHB", "SYS SYS PIX"},
         "0 1",
         "mlx5_0 mlx5_1 mlx5_2",
         {"the table is cut, missing: the rows of NIC0, NIC1, NIC2"}},
        {"topo-mp.txt",
         {"LOC PHB", "PHB LOC"},
         {"PIX", "PHB"},
         "0 0",
         "mlx5_0",
         {"`nvidia-smi topo -mp`", "NUMA nodes without a GPU"}},
        {"nics-not-displayed.txt",
         {"LOC NVL", "NVL LOC"},
         {"PXB PHB SYS", "SYS SYS PXB"},
         "0 1",
         "mlx5_0 mlx5_1 mlx5_2",
         {"not all of 76 adapters"}},
        {"some-of-all.txt", {"LOC PHB", "PHB LOC"}, {}, "1 ?", "", {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.file);
        const detect::Machine machine = import_data("nvidia_topo/" + row.file);
        REQUIRE(machine.gpus.size() == row.paths.size());
        for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
            CAPTURE(gpu);
            CHECK(path_row(machine, gpu) == row.paths[gpu]);
            CHECK(nic_row(machine, gpu) == (row.nic_paths.empty() ? "" : row.nic_paths[gpu]));
        }
        CHECK(numa_nodes(machine) == row.numa);
        CHECK(nic_names(machine) == row.nics);
        const std::string notes = join(machine.notes, "; ");
        CAPTURE(notes);
        CHECK(machine.notes.size() == row.notes.size());
        for (const std::string& note : row.notes) {
            CAPTURE(note);
            CHECK(has_note(machine, note));
        }
    }
}

TEST_CASE("a matrix without its header is read by its rows") {
    const detect::Machine machine = import_data("nvidia_topo/no-header.txt");
    CHECK(path_row(machine, 3) == "SYS SYS NVL LOC");
    CHECK(nic_row(machine, 3) == "SYS PXB");
    CHECK(has_note(machine, "the header is missing"));
}

TEST_CASE("GPUs keep their numbers when only some were asked for") {
    const detect::Machine machine = import_data("nvidia_topo/some-of-all.txt");
    CHECK(machine.gpus[0].index == 2);
    CHECK(machine.gpus[1].index == 5);
    CHECK_FALSE(machine.nics_known);
}

TEST_CASE("links of a bridge lead to no switch and those of many GPUs do") {
    CHECK_FALSE(import_data("nvidia_topo/bridged-pairs.txt").nvswitch);
    const auto pair = [](const std::string& code) {
        return import_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t" + code + "\t0-7\nGPU1\t" +
                           code + "\t X \t0-7\n");
    };
    CHECK_FALSE(pair("NV4").nvswitch);
    CHECK_FALSE(pair("NV12").nvswitch);
    CHECK(pair("NV18").nvswitch);
}

TEST_CASE("tables of peer access") {
    struct Row {
        std::string file, first, last, note;
    };
    const std::vector<Row> rows = {
        {"chipset.txt", "+---", "---+", ""},
        {"read-and-write.txt", "++--", "--++", ""},
        {"atomics.txt", "+?++", "++++", ""},
        {"no-command.txt", "++--", "--++", "its command is missing"},
        {"dashed.txt", "++--", "--++", ""},
        {"cut.txt", "++++", "++?+", "the table of peer access is cut: 2 rows of 4"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.file);
        const detect::Machine machine = import_data("nvidia_p2p/" + row.file);
        CHECK(machine.gpus.size() == 4);
        CHECK(machine.gpu_paths.empty());
        CHECK(access_row(machine, 0) == row.first);
        CHECK(access_row(machine, 3) == row.last);
        CHECK((row.note.empty() ? machine.notes.empty() : has_note(machine, row.note)));
    }
}

TEST_CASE("tables of rocm-smi") {
    struct Row {
        std::string file, first, last, numa, note;
    };
    const std::vector<Row> rows = {
        {"two-pairs.txt", "LOC NVL SYS SYS", "SYS SYS NVL LOC", "0 0 1 1", ""},
        {"weights-only.txt", "LOC NVL SYS SYS", "SYS SYS NVL LOC", "? ? ? ?",
         "section of NUMA nodes is missing"},
        {"weights-of-hops.txt", "LOC NVL ? ?", "? ? NVL LOC", "? ? ? ?", "over several xGMI hops"},
        {"weights-and-hops.txt", "LOC NVL PHB SYS", "SYS PHB NVL LOC", "? ? ? ?",
         "over several xGMI hops"},
        {"ring.txt", "LOC NVL ? NVL", "NVL ? NVL LOC", "? ? ? ?", "over several xGMI hops"},
        {"amd-smi.txt", "LOC NVL SYS SYS", "SYS SYS NVL LOC", "? ? ? ?",
         "section of NUMA nodes is missing"},
        {"access.txt", "", "", "? ? ? ?", "paths between the GPUs are unknown"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.file);
        const detect::Machine machine = import_data("rocm_smi/" + row.file);
        REQUIRE(machine.gpus.size() == 4);
        CHECK(machine.gpus[3].vendor == "amd");
        CHECK(path_row(machine, 0) == row.first);
        CHECK(path_row(machine, 3) == row.last);
        CHECK(numa_nodes(machine) == row.numa);
        CHECK((row.note.empty() ? machine.notes.empty() : has_note(machine, row.note)));
    }
    CHECK(access_row(import_data("rocm_smi/access.txt"), 0) == "++--");
    const detect::Machine amd = import_data("rocm_smi/amd-smi.txt");
    CHECK(access_row(amd, 3) == "--++");
    CHECK(amd.gpus[2].pci->text() == "0000:46:00.0");
    CHECK(amd.notes.size() == 1);
}

TEST_CASE("several outputs of one report are read from one text") {
    const std::string topo = read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                       "detect/import/nvidia_topo/bridged-pairs.txt");
    const std::string p2p = read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                      "detect/import/nvidia_p2p/read-and-write.txt");
    const detect::Machine machine = import_text(topo + "\n```\n\n" + p2p);
    CHECK(path_row(machine, 0) == "LOC NVL SYS SYS");
    CHECK(access_row(machine, 0) == "++--");
    CHECK(machine.nics.size() == 2);
    CHECK(machine.notes.empty());
}

TEST_CASE("a row with more cells than the header tells of its GPUs alone") {
    const detect::Machine machine = import_text(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tNV4\tPIX\tSYS\t0-7\t0\nGPU1\tNV4\t X \tSYS\tPIX\t8-15\t1\n");
    CHECK(path_row(machine, 0) == "LOC NVL");
    CHECK(nic_row(machine, 0) == "?");
    CHECK(machine.gpus[1].cpus.empty());
    CHECK_FALSE(machine.gpus[1].numa_node);
    CHECK(has_note(machine, "row GPU1 has"));
}

TEST_CASE("a log's numbers of GPUs and refused pairs are taken where they are certain") {
    const detect::Machine dev = import_data("field/log-dev-numbers.txt");
    REQUIRE(dev.gpus.size() == 7);
    CHECK(dev.gpus[6].index == 6);
    CHECK(dev.gpus[6].pci->text() == "0000:ca:00.0");
    CHECK(access_row(dev, 5) ==
          "???"
          "?-+?");
    const detect::Machine columns = import_data("field/graph-rows-of-some-gpus.txt");
    REQUIRE(columns.gpus.size() == 4);
    CHECK(path_row(columns, 1) == "NVL LOC NVL NVL");
    CHECK(path_row(columns, 3) == "? NVL NVL LOC");
    // One process a GPU, each of which sees one: CUDA's numbers say nothing.
    const detect::Machine alone = import_text(
        "node1:10:20 [0] NCCL INFO Channel 00 : 0[3d000] -> 1[5e000] via P2P/IPC\n"
        "node1:11:21 [0] NCCL INFO Channel 00 : 1[5e000] -> 0[3d000] via P2P/IPC\n");
    REQUIRE(alone.gpus.size() == 2);
    CHECK(alone.gpus[1].index == 1);
    // A gap, as CUDA_VISIBLE_DEVICES would not make it.
    const detect::Machine gap = import_text(
        "node1:10:20 [1] NCCL INFO Channel 00 : 1[3d000] -> 3[5e000] via P2P/IPC\n"
        "node1:11:21 [3] NCCL INFO Channel 00 : 3[5e000] -> 1[3d000] via P2P/IPC\n");
    REQUIRE(gap.gpus.size() == 2);
    CHECK(gap.gpus[0].index == 1);
    CHECK(gap.gpus[1].index == 3);
    const detect::Machine nets = import_data("field/net-nodes-no-network.txt");
    REQUIRE_FALSE(nets.nics.empty());
    CHECK(nets.nics[0].name == "NET/3");
    CHECK(nets.nics.size() == 2);
}

TEST_CASE("xGMI links by type are those of one hop by weight") {
    const detect::Machine machine = import_data("field/xgmi-weight30.txt");
    CHECK(path_row(machine, 0) == "LOC NVL NVL ?");
    CHECK(has_note(machine, "several xGMI hops"));
}

TEST_CASE("prompts of several hosts part their outputs, a container's does not") {
    const detect::Machine machine = import_data("field/two-hosts-merged.txt");
    CHECK(nic_names(machine) == "ens1np0 ens2np0");
    CHECK(has_note(machine, "the lines of 'nodea' were read, 2 lines"));
    const detect::Machine container = import_text(
        "root@nodea:~# ibdev2netdev\nmlx5_0 port 1 ==> ens1np0 (Up)\n\n"
        "root@0a1b2c3d4e5f:/workspace# ibdev2netdev\nmlx5_1 port 1 ==> ens2np0 (Up)\n");
    CHECK(nic_names(container) == "ens1np0 ens2np0");
}

TEST_CASE("nvidia-smi -q is known by its keys where the line above them is missing") {
    const detect::Machine machine = import_data("nvidia_query/one-of-eight.txt");
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.software.driver == "550.54.15");
    CHECK(has_note(machine, "1 of 8 GPUs are listed"));
    CHECK_FALSE(has_note(machine, "not understood"));
}

TEST_CASE("the table of plain rocm-smi") {
    const detect::Machine machine = import_data("rocm_smi/concise.txt");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus_known);
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.gpus[1].vendor == "amd");
    CHECK(machine.gpus[1].pci_id == "1002:74a1");
    CHECK(machine.notes.empty());
    const detect::Machine old = import_data("rocm_smi/concise-old.txt");
    REQUIRE(old.gpus.size() == 2);
    CHECK(old.gpus[0].pci_id.empty());
    CHECK(old.notes.empty());
}
