#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

/// The right answer for a collected file, as a careful reader finds it. In lists of paths "*"
/// stands for what its reader leaves open: RCCL's rule for several hops is another than NCCL's.
struct Row {
    std::string file;
    std::string vendor;
    std::string numa;   ///< of each GPU
    std::string paths;  ///< of the first GPU to all
    std::string links;  ///< likewise; "" = not in the file
    std::size_t numa_nodes;
    std::size_t nics;
    std::string nic_paths;  ///< of the first GPU to the first adapters
    std::string note;       ///< part of one that must be there
};

const std::vector<Row> kRows = {
    {"2gpu-desktop.xml", "nvidia", "3 2", "LOC SYS", "0 0", 2, 2, "PHB PHB", ""},
    {"4x-a6000-dual-socket.xml", "nvidia", "0 0 1 1", "LOC PHB SYS SYS", "0 0 0 0", 2, 10,
     "PHB PHB", ""},
    {"aws-p4d-24xl.xml", "nvidia", "0 0 0 0 1 1 1 1", "LOC PIX PHB PHB SYS SYS SYS SYS", "", 2, 4,
     "PIX PHB SYS SYS", "whether NVLinks join them"},
    {"aws-p4de-24xl.xml", "nvidia", "0 0 0 0 1 1 1 1", "LOC PIX PHB PHB SYS SYS SYS SYS", "", 2, 4,
     "PIX PHB SYS SYS", "whether NVLinks join them"},
    {"azure-nc48v4-2gpu.xml", "nvidia", "0 1", "LOC NVL", "0 12", 2, 1, "", ""},
    {"azure-ncv4-a100pcie.xml", "nvidia", "0 1 2 3", "LOC SYS SYS SYS", "0 0 0 0", 4, 1, "",
     "links of 4 GPUs lead to that GPU itself"},
    {"azure-ndv2-v100.xml", "nvidia", "0 0 0 0 1 1 1 1", "LOC PHB PHB PHB SYS SYS SYS SYS", "", 2,
     1, "PHB", "whether NVLinks join them"},
    {"azure-ndv4-a100.xml", "nvidia", "1 1 0 0 3 3 2 2", "LOC PIX SYS SYS SYS SYS SYS SYS", "", 4,
     8, "SYS SYS PIX PIX SYS SYS SYS SYS", "whether NVLinks join them"},
    {"oci-bm-a100-b4-flattened.xml", "nvidia", "3 3 1 1 7 7 5 5", "LOC PIX SYS SYS SYS SYS SYS SYS",
     "", 4, 8, "PIX PIX SYS SYS SYS SYS SYS SYS", "whether NVLinks join them"},
    {"oci-bm-a100-flattened.xml", "nvidia", "3 3 1 1 7 7 5 5", "LOC PIX SYS SYS SYS SYS SYS SYS",
     "", 4, 8, "PIX PIX SYS SYS SYS SYS SYS SYS", "whether NVLinks join them"},
    {"rccl-topo_16p1h.xml", "amd", "0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3",
     "LOC NVL NVL * NVL * * * * * * * * * * *", "0 4 1 0 2 0 0 0 0 0 0 0 0 0 0 0", 4, 8,
     "PXB PXB * SYS SYS SYS SYS SYS", ""},
    {"rccl-topo_4p2h.xml", "amd", "0 0 0 0 0 0 0 0", "LOC NVL NVL * * * * *", "0 1 1 0 0 0 0 0", 1,
     1, "PXB", ""},
    {"rccl-topo_4p3l_ia.xml", "amd", "0 0 0 0 0 0 0 0", "LOC NVL NVL NVL * * * *",
     "0 1 1 1 0 0 0 0", 1, 1, "PHB", ""},
    {"rccl-topo_4p_940.xml", "amd", "2 3 0 1", "LOC NVL NVL NVL", "0 1 1 1", 4, 4,
     "PHB SYS SYS SYS", "200000 Gb/s"},
    {"rccl-topo_8p1h_4.xml", "amd", "1 1 1 1 3 3 3 3", "LOC NVL NVL * * * NVL *", "0 4 1 0 0 0 2 0",
     2, 8, "PXB PXB * PHB SYS SYS * SYS", ""},
    {"rccl-topo_8p_940vm.xml", "amd", "0 0 0 0 1 1 1 1", "LOC NVL NVL NVL NVL NVL NVL NVL",
     "0 1 1 1 1 1 1 1", 2, 8, "PHB PHB PHB PHB SYS SYS SYS SYS", ""},
    {"rccl-topo_8p_pcie.xml", "amd", "0 0 0 0 0 0 0 0", "LOC PXB PXB PXB PHB PHB PHB PHB",
     "0 0 0 0 0 0 0 0", 1, 1, "PXB", ""},
    {"rccl-topo_8p_rome_n4.xml", "amd", "1 2 2 3 5 5 6 7", "LOC * NVL NVL * * * *",
     "0 0 1 1 0 0 0 0", 7, 1, "SYS", ""},
};

/// Whether `words` begin with those of `pattern`.
bool matches(const std::string& words, const std::string& pattern) {
    if (pattern.empty()) return true;
    const std::vector<std::string> found = split(words, ' ');
    const std::vector<std::string> wanted = split(pattern, ' ');
    if (found.size() < wanted.size()) return false;
    return std::equal(wanted.begin(), wanted.end(), found.begin(),
                      [](const std::string& want, const std::string& word) {
                          return want == "*" || want == word;
                      });
}

void check(const Row& row, const detect::Machine& machine) {
    CHECK(numa_nodes(machine) == row.numa);
    CHECK(std::all_of(machine.gpus.begin(), machine.gpus.end(),
                      [&](const detect::Gpu& gpu) { return gpu.vendor == row.vendor && gpu.pci; }));
    const std::string paths = path_row(machine, 0);
    CAPTURE(paths);
    CHECK(matches(paths, row.paths));
    CHECK(machine.gpu_paths.size() == machine.gpus.size());
    CHECK(link_row(machine, 0) == row.links);
    CHECK(machine.cpu.numa_nodes.size() == row.numa_nodes);
    CHECK(machine.nics.size() == row.nics);
    const std::string nic_paths = nic_row(machine, 0);
    CAPTURE(nic_paths);
    CHECK(matches(nic_paths, row.nic_paths));
    CHECK((row.note.empty() || has_note(machine, row.note)));
    CHECK_FALSE(has_note(machine, "damaged"));
    CHECK_FALSE(has_note(machine, "not understood"));
}

}  // namespace

TEST_CASE("every collected topology file is read to its right answer") {
    check_shared_folder("data/nccl-topo-xml", kRows, check);
}
