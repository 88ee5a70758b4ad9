#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "detect/import/import.hpp"
#include "files.hpp"
#include "known_machines.hpp"

/// Machines from all saved topologies, and answers found by trying everything.
namespace toporun::tests {

using Matrix = std::vector<int>;  ///< row-major, symmetric

/// Whether a ring over `rest` closes the path: depth first, with nothing clever about it.
inline bool closes(const Matrix& rates, int count, int least, int last, std::vector<int>& rest) {
    const auto rate = [&](int a, int b) { return rates[static_cast<std::size_t>(a * count + b)]; };
    if (rest.empty()) return rate(last, 0) >= least;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if (rate(last, rest[i]) < least) continue;
        const int next = rest[i];
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
        const bool found = closes(rates, count, least, next, rest);
        rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(i), next);
        if (found) return true;
    }
    return false;
}

inline int brute_ring(const Matrix& rates, int count) {
    if (count == 2) return rates[1];
    Matrix levels = rates;
    std::sort(levels.rbegin(), levels.rend());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    for (const int level : levels) {
        if (level < 1) break;
        bool possible = true;  // two neighbours each, or the depth-first search takes for ever
        for (int a = 0; a < count && possible; ++a) {
            int near = 0;
            for (int b = 0; b < count; ++b)
                near += a != b && rates[static_cast<std::size_t>(a * count + b)] >= level ? 1 : 0;
            possible = near >= 2;
        }
        std::vector<int> rest;
        for (int i = 1; i < count; ++i) rest.push_back(i);
        if (possible && closes(rates, count, level, 0, rest)) return level;
    }
    return 0;
}

inline int brute_cut(const Matrix& links, int count) {
    if (links.empty()) return 0;
    int smallest = -1;
    for (unsigned side = 1; side < 1U << (count - 1); ++side) {
        int cut = 0;
        for (int a = 0; a < count; ++a)
            for (int b = a + 1; b < count; ++b)
                if (((side >> a) & 1U) != ((side >> b) & 1U))
                    cut += links[static_cast<std::size_t>(a * count + b)];
        smallest = smallest < 0 ? cut : std::min(smallest, cut);
    }
    return std::max(smallest, 0);
}

/// Every topology that is saved here and, where they are, in the shared material.
inline std::vector<std::pair<std::string, detect::Machine>> saved_topologies() {
    namespace fs = std::filesystem;
    auto machines = known_machines();
    const fs::path data(TOPORUN_TEST_DATA), shared(TOPORUN_SHARED);
    for (const fs::path& folder :
         {data / "detect/topology", data / "detect/import/nccl-topo-xml",
          data / "detect/import/nvidia_topo", data / "detect/import/hwloc-xml", shared / "rig/topo",
          shared / "data/nccl-topo-xml", shared / "data/topo-m", shared / "data/hwloc-xml"}) {
        if (!fs::is_directory(folder)) continue;
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        for (const fs::path& file : files) {
            if (file.extension() != ".xml" && file.extension() != ".txt") continue;
            const detect::Capture capture{file.string(), read_file(file)};
            try {
                machines.emplace_back(file.filename().string(),
                                      detect::import_captures({&capture, 1}));
            } catch (const Error&) {  // some are there to be refused
            }
        }
    }
    return machines;
}

}  // namespace toporun::tests
