#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

/// The right answers of the collected tables, from the headings of the collection's index.
struct Row {
    std::string file;
    std::size_t gpus;
    std::string paths;  ///< of the last GPU
    std::string links;
    std::string numa;
    std::string last_cpus;
    std::string nics;
    std::string nic_paths;  ///< of the last GPU
    bool nvswitch;
    std::string note;  ///< a part of one, "" = no note at all
};

const std::vector<Row> kRows = {
    {"1gpu-2nic.txt", 1, "LOC", "0", "1", "32-63,96-127", "mlx5_0 mlx5_1", "PHB PHB", false,
     "NUMA nodes without a GPU"},
    {"2gpu-node-indented.txt", 2, "PHB LOC", "0 0", "0 0", "0-15", "", "", false, ""},
    {"2x3090-nv2.txt", 2, "NVL LOC", "2 0", "? ?", "0-23", "", "", false, ""},
    {"2x5070-phb-nolegend.txt", 2, "PHB LOC", "0 0", "0 0", "0-23", "", "", false, ""},
    {"2xa100-nv12-mlx4.txt", 2, "NVL LOC", "12 0", "0 0", "0-95", "mlx4_0", "PHB", false, ""},
    {"2xl40s-2nic-even-cpus.txt", 2, "PHB LOC", "0 0", "0 0", "0,2,4,6,8,10", "mlx5_0 mlx5_1",
     "SYS SYS", false, "14 lines were not understood"},
    {"4gpu-pxb-pix-pairs.txt", 4, "SYS SYS PIX LOC", "0 0 0 0", "0 0 1 1", "28-55,84-111", "", "",
     false, ""},
    {"4gpu-sys-dle.txt", 4, "SYS SYS SYS LOC", "0 0 0 0", "0 0 1 1", "10-19,30-39", "", "", false,
     ""},
    {"4xh100-nv6-odd-cpulist.txt", 4, "NVL NVL NVL LOC", "6 6 6 0", "3 1 7 5", "5,13,21,29",
     "NIC0 NIC1 NIC2 NIC3", "SYS SYS SYS PIX", false, "legend is missing"},
    {"4xv100-nv12-mlx-sys.txt", 4, "NVL NVL NVL LOC", "2 1 2 0", "? ? ? ?", "0-15", "mlx5_0", "SYS",
     false, ""},
    {"6gpu-soc-no-affinity.txt", 6, "SYS SYS SYS SYS PIX LOC", "0 0 0 0 0 0", "? ? ? ? ? ?", "", "",
     "", false, ""},
    {"8gpu-2switch-flat.txt", 8, "PHB PHB PHB PHB PIX PIX PIX LOC", "0 0 0 0 0 0 0 0",
     "? ? ? ? ? ? ? ?", "", "", "", false, ""},
    {"8gpu-nv18-10nic-ansi.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "18 18 18 18 18 18 18 0",
     "0 0 0 0 1 1 1 1", "64-127,192-255",
     "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9",
     "SYS SYS SYS SYS SYS SYS PIX PHB PHB PHB", true, ""},
    {"8gpu-nv18-a.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "18 18 18 18 18 18 18 0",
     "0 0 0 0 1 1 1 1", "52-103", "", "", true, ""},
    {"8gpu-nv18-smt.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "18 18 18 18 18 18 18 0",
     "0 0 0 0 1 1 1 1", "52-103,156-207", "", "", true, ""},
    {"8gpu-phb-sys-matrix-only.txt", 8, "SYS SYS SYS SYS PHB PHB PHB LOC", "0 0 0 0 0 0 0 0",
     "? ? ? ? ? ? ? ?", "", "", "", false, ""},
    {"8gpu-sxm-all-sys-nvlink-missing.txt", 8, "SYS SYS SYS SYS SYS SYS ? LOC", "0 0 0 0 0 0 -1 0",
     "0 0 0 0 1 1 ? ?", "", "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7 NIC8 NIC9",
     "? ? ? ? ? ? ? ? ? ?", false, "missing: the rows of GPU6, GPU7"},
    {"8x4090-sys-4numa.txt", 8, "SYS SYS SYS SYS SYS SYS SYS LOC", "0 0 0 0 0 0 0 0",
     "0 0 0 1 2 2 2 3", "48-63,112-127", "mlx5_0 mlx5_1", "SYS SYS", false, ""},
    {"8xh100-10nic-all-sys.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "18 18 18 18 18 18 18 0",
     "0 0 0 0 1 1 1 1", "56-111,168-223", "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7 NIC8 NIC9",
     "SYS SYS SYS SYS SYS SYS SYS SYS SYS PIX", true, "missing: the rows of NIC3, NIC4"},
    {"8xh100-9nic-snc-truncated.txt", 8, "NVL NVL NVL NVL NVL NVL ? LOC", "18 18 18 18 18 18 -1 0",
     "0 0 0 1 2 2 ? ?", "", "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7 NIC8", "? ? ? ? ? ? ? ? ?",
     true, "missing: the rows of GPU6, GPU7"},
    {"8xh20-8nic.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "18 18 18 18 18 18 18 0",
     "0 0 0 0 1 1 1 1", "48-95,144-191", "mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8",
     "SYS SYS SYS SYS PHB PHB PHB PIX", true, ""},
    {"8xh200-12nic-one-cell-glued.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC",
     "18 18 18 18 18 18 18 0", "0 0 0 0 0 0 0 0", "0-191",
     "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7 NIC8 NIC9 NIC10 NIC11",
     "PHB PHB PHB PHB PHB PHB PHB PHB PHB PHB PHB PIX", true, "'PIXNODE' is 2 cells glued"},
    {"8xh800-9nic-interleaved-truncated.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC",
     "8 8 8 8 8 8 8 0", "0 0 0 0 1 1 1 ?", "", "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7 NIC8",
     "? ? ? ? ? ? ? ? ?", true, "missing: the row of GPU7"},
    {"8xv100-2hca-numa.txt", 8, "NVL NVB NVB NVB NVL NVL NVL LOC", "2 0 0 0 1 2 1 0",
     "0 0 0 0 1 1 1 1", "24-47,72-95", "mlx5_0 mlx5_1", "SYS PIX", false, ""},
    {"aws-g5-4xa10g-phb.txt", 4, "PHB PHB PHB LOC", "0 0 0 0", "0 0 0 0", "0-47", "", "", false,
     ""},
    {"dgx-a100-10nic.txt", 8, "NVL NVL NVL NVL NVL NVL NVL LOC", "12 12 12 12 12 12 12 0",
     "3 3 1 1 7 7 5 5", "80-95,208-223",
     "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9",
     "SYS SYS SYS SYS SYS SYS PXB PXB SYS SYS", true, "NUMA nodes without a GPU"},
    {"dgx1-v100-4hca.txt", 8, "NVB NVB NVB NVL NVL NVL NVL LOC", "0 0 0 1 2 1 2 0",
     "? ? ? ? ? ? ? ?", "20-39,60-79", "mlx5_0 mlx5_2 mlx5_1 mlx5_3", "SYS PHB SYS PIX", false, ""},
    {"gb200-4gpu-8nic.txt", 4, "NVL NVL NVL LOC", "18 18 18 0", "0 0 1 1", "72-143",
     "NIC0 NIC1 NIC2 NIC3 NIC4 NIC5 NIC6 NIC7", "SYS SYS SYS SYS SYS SYS SYS SYS", true,
     "NUMA nodes 0,3-9,11-17 the first"},
    {"p2p-8gpu-ok.topo-p2p.txt", 8, "", "", "? ? ? ? ? ? ? ?", "", "", "", false, ""},
    {"rocm-4gpu-oldformat.showtopo.txt", 4, "NVL NVL NVL LOC", "-1 -1 -1 0", "0 1 2 3", "", "", "",
     false, ""},
    {"rocm-8gpu-numa-only.showtoponuma.txt", 8, "", "", "0 0 0 0 1 1 1 1", "", "", "", false,
     "paths between the GPUs are unknown"},
    {"rocm-8gpu-two-hives.showtopo.txt", 8, "SYS SYS SYS SYS NVL NVL NVL LOC", "0 0 0 0 -1 -1 -1 0",
     "? ? ? ? ? ? ? ?", "", "", "", false, "section of NUMA nodes is missing"},
    {"threadripper-2gpu-2nic.txt", 2, "PHB LOC", "0 0", "0 0", "0-23", "mlx5_0 mlx5_1", "PHB PHB",
     false, ""},
    {"vm-2xv100-nv1-phb.txt", 2, "NVL LOC", "1 0", "? ?", "0-7", "mlx5_0", "PHB", false, ""},
};

void check(const Row& row, const detect::Machine& machine) {
    REQUIRE(machine.gpus.size() == row.gpus);
    CHECK(machine.gpus_known);
    CHECK(machine.gpus[0].vendor == (row.file.starts_with("rocm") ? "amd" : "nvidia"));
    CHECK(path_row(machine, row.gpus - 1) == row.paths);
    CHECK(link_row(machine, row.gpus - 1) == row.links);
    CHECK(numa_nodes(machine) == row.numa);
    CHECK(machine.gpus.back().cpus.text() == row.last_cpus);
    CHECK(machine.nics_known == !row.nics.empty());
    CHECK(nic_names(machine) == row.nics);
    CHECK(nic_row(machine, row.gpus - 1) == row.nic_paths);
    CHECK(machine.nvswitch == row.nvswitch);
    const std::string notes = join(machine.notes, "; ");
    CAPTURE(notes);
    CHECK((row.note.empty() ? machine.notes.empty() : has_note(machine, row.note)));
}

}  // namespace

TEST_CASE("every collected table of GPUs is read to its right answer") {
    check_shared_folder("data/topo-m", kRows, check);
}
