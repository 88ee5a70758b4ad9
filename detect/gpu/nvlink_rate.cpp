#include "detect/gpu/nvlink_rate.hpp"

namespace toporun::detect {
namespace {

/// GB/s of one NVLink in one direction by NVIDIA's data sheets (P100 160, V100 300, A100 600,
/// H100 900, B200 1800 GB/s in both directions over 4, 6, 12, 18, 18 links). Only the data centre
/// parts: links of bridges differ within a generation.
struct LinkRate {
    int compute_capability;
    double gbytes_per_s;
};
constexpr LinkRate kLinkRates[] = {{60, 20}, {70, 25}, {80, 25}, {90, 25}, {100, 50}, {103, 50}};

/// Drivers state the rate of the wire (26.562 for H100) or what is left of it after coding. The
/// coding takes 64 of 68 bits (64 of 66 before NVLink 4).
constexpr double kNominalRates[] = {20, 25, 50};
constexpr double kMostCoding = 1.07;

}  // namespace

std::optional<double> nominal_nvlink_gbytes_per_s(const Gpu& gpu) {
    for (const GpuLink& link : gpu.links) {
        if (!link.speed_gbytes_per_s) continue;
        for (const double nominal : kNominalRates)
            if (*link.speed_gbytes_per_s >= nominal &&
                *link.speed_gbytes_per_s < nominal * kMostCoding)
                return nominal;
        return link.speed_gbytes_per_s;
    }
    for (const LinkRate& rate : kLinkRates)
        if (gpu.vendor == "nvidia" && gpu.compute_capability == rate.compute_capability)
            return rate.gbytes_per_s;
    return std::nullopt;
}

}  // namespace toporun::detect
