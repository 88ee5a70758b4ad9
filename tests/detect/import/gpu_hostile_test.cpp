#include <random>

#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

/// Reads what may be anything: a machine whose matrices fit its lists, or an Error with a place.
void survive(const std::string& text) {
    try {
        const detect::Machine machine = import_text(text);
        const std::size_t gpus = machine.gpus.size();
        CHECK((machine.gpu_paths.empty() || machine.gpu_paths.size() == gpus));
        CHECK((machine.gpu_links.empty() || machine.gpu_links.size() == gpus));
        CHECK((machine.peer_access.empty() || machine.peer_access.size() == gpus));
        CHECK((machine.gpu_nic_paths.empty() || machine.gpu_nic_paths.size() == gpus));
        for (const auto& row : machine.gpu_nic_paths) CHECK(row.size() == machine.nics.size());
        for (const auto& row : machine.gpu_paths) CHECK(row.size() == gpus);
    } catch (const Error& error) {
        CHECK(error.where().starts_with("x.txt:"));
    }
}

std::vector<std::string> own_captures() {
    std::vector<std::string> texts;
    for (const std::string folder : {"nvidia_topo", "nvidia_p2p", "rocm_smi", "nvidia_list",
                                     "nvidia_smi", "nvidia_query", "nvidia_xml", "dcgm_links"})
        for (const auto& entry : std::filesystem::directory_iterator(
                 std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import" / folder))
            texts.push_back(read_file(entry.path()));
    return texts;
}

/// A table of `gpus` GPUs without anything else.
std::string wide_table(int gpus, const std::string& cell) {
    std::string text, row;
    for (int i = 0; i < gpus; ++i) text += "\tGPU" + std::to_string(i), row += "\t" + cell;
    text += "\tCPU Affinity\tNUMA Affinity\n";
    for (int i = 0; i < gpus; ++i)
        text += "GPU" + std::to_string(i) + row + "\t0-8191\t" + std::to_string(i) + "\n";
    return text;
}

}  // namespace

TEST_CASE("a capture may be cut anywhere") {
    for (const std::string& text : own_captures())
        for (std::size_t end = 0; end < text.size(); end += end < 400 ? 1 : 17)
            survive(text.substr(0, end));
}

TEST_CASE("a capture may be damaged anywhere") {
    std::mt19937 random(1);
    const std::string alphabet = " \t\n:|GPUNX0123456789-,._=\x1b\xff";
    for (const std::string& original : own_captures())
        for (int round = 0; round < 60; ++round) {
            std::string text = original;
            for (int change = 0; change < 1 + round / 6; ++change) {
                const std::size_t at = random() % text.size();
                if (random() % 3 == 0)
                    text.erase(at, random() % 9);
                else if (random() % 2 == 0)
                    text.insert(at, text.substr(random() % text.size(), random() % 60));
                else
                    text[at] = alphabet[random() % alphabet.size()];
                if (text.empty()) text = "x";
            }
            survive(text);
        }
}

TEST_CASE("tables beyond any machine are cut with a note") {
    const detect::Machine machine = import_text(wide_table(400, "NV18"));
    CHECK(machine.gpus.size() == 256);
    CHECK(has_note(machine, "column 'GPU256' of the header is left out"));
}

// What takes more than linear time runs into the time limit of the test.
TEST_CASE("megabytes of one kind of line are read") {
    for (const std::string unit :
         {"GPU0\tGPU1\n", "\tGPU0\tGPU1\nGPU0\tX\tBAD\tBAD\n", "GPU0 X NV1\n", "GPU0 ", "GPU0\n",
          "GPU 0: a (UUID: GPU-1)\n", "gpuId 0:\n U U U\n", "Link 0: <inactive>\n",
          "| NVIDIA-SMI | |\n", "GPU 00000000:18:00.0\n a : b\n", "NIC0: mlx5_0\n",
          "GPU[0] : (Topology) Numa Node: 0\n", "= Hops between two GPUs =\n GPU0 GPU1\nGPU0 0 1\n",
          "\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV1\tX\n\n", "0-1,", "NV18NV18"}) {
        std::string text;
        while (text.size() < 1'000'000) text += unit;
        CAPTURE(unit);
        survive(text);
    }
}
