#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "launcher/log/reader.hpp"

using namespace toporun::launcher;
namespace fs = std::filesystem;

namespace {

struct Row {
    std::string run;
    int ranks;
    int nodes;
    const char* network;
    std::string transports;  ///< "KIND count" in alphabetic order
};

// From what the programs do: all-to-all connects every ordered pair (of 8 ranks 56; of two nodes of
// 4 ranks 2 x 12 within and 2 x 16 between them), a ring of 8 has 8 pairs. The split run is the
// ring of all ranks and one ring each of the even and the odd ranks. On the cube mesh each GPU has
// 4 NVLink neighbours and reaches the other 3 through one of them.
const std::vector<Row> kRuns = {
    {"2x4-mixed-lo", 8, 2, "Socket", "NET 32 P2P 12 SHM 12 "},
    {"h100-nvswitch-8", 8, 1, "Socket", "P2P 56 "},
    {"h100-nvswitch-8-split", 8, 1, "Socket", "P2P 16 "},
    {"h100-nvswitch-8-threads", 8, 1, "Socket", "P2P 8 "},
    {"v100-cube-mesh-8", 8, 1, "Socket", "P2P 32 P2P-indirect 24 "},
};

}  // namespace

TEST_CASE("runs of the real library give the ranks and pairs of their machines") {
    const fs::path logs = fs::path(TOPORUN_SHARED) / "logs/rig";
    if (!fs::is_directory(logs)) {
        MESSAGE("skipped: no captured logs at " << logs.string());
        return;
    }
    for (const Row& row : kRuns) {
        CAPTURE(row.run);
        LogModel model;
        for (const auto& entry : fs::directory_iterator(logs / row.run)) {
            if (entry.path().extension() == ".log") add_log_file(model, entry.path());
        }
        const LogSummary summary = model.summary();
        CHECK(summary.versions == std::vector<std::string>{"2.28.9"});
        CHECK(summary.rank_count == row.ranks);
        CHECK(summary.ranks.size() == static_cast<std::size_t>(row.ranks));
        CHECK(summary.nodes.size() == static_cast<std::size_t>(row.nodes));
        CHECK(summary.node_count == row.nodes);
        CHECK(summary.networks == std::vector<std::string>{row.network});
        std::map<std::string, int> transports;
        for (const LogTransport& pair : summary.transports) {
            ++transports[std::string(transport_name(pair.transport))];
        }
        std::string text;
        for (const auto& [name, count] : transports)
            text += name + " " + std::to_string(count) + " ";
        CHECK(text == row.transports);
        CHECK(summary.other_connections == 0);
        CHECK(summary.torn == 0);
    }
}
