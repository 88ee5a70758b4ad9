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
