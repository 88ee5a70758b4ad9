#include "detect/gpu/nvlink_rate.hpp"

#include <doctest/doctest.h>

namespace toporun::detect {

TEST_CASE("what an NVLink carries is its maker's figure") {
    struct Row {
        const char* name;
        const char* vendor;
        std::optional<int> compute_capability;
        std::optional<double> driver;
        std::optional<double> rate;
    };
    const Row rows[] = {
        {"H100 by the wire's rate", "nvidia", 90, 26.562, 25.0},
        {"V100 by the wire's rate", "nvidia", 70, 25.781, 25.0},
        {"A6000 by the driver", "nvidia", 86, 14.062, 14.062},
        {"B200 by the wire's rate", "nvidia", 100, 53.125, 50.0},
        {"P100 by its generation", "nvidia", 60, {}, 20.0},
        {"A100 by its generation", "nvidia", 80, {}, 25.0},
        {"a bridge is not the same within a generation", "nvidia", 86, {}, {}},
        {"an AMD GPU has another numbering", "amd", 90, {}, {}},
        {"nothing known", "nvidia", {}, {}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Gpu gpu;
        gpu.vendor = row.vendor;
        gpu.compute_capability = row.compute_capability;
        gpu.links.resize(2);
        gpu.links[1].speed_gbytes_per_s = row.driver;
        CHECK(nominal_nvlink_gbytes_per_s(gpu) == row.rate);
    }
}

}  // namespace toporun::detect
