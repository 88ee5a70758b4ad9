#include "detect/gpu/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace toporun::detect {
namespace {

/// Compute capabilities from `first` up to the next row's.
struct Architecture {
    int first;
    const char* name;
    int nvlink;  ///< generation, 0 = none
};
constexpr Architecture kByCapability[] = {
    {30, "Kepler", 0},     {50, "Maxwell", 0}, {60, "Pascal", 1}, {70, "Volta", 2},
    {75, "Turing", 2},     {80, "Ampere", 3},  {89, "Ada", 0},    {90, "Hopper", 4},
    {100, "Blackwell", 5}, {130, "", 0},
};

struct Number {
    int number;
    const char* name;
};
constexpr Number kByNvml[] = {
    {2, "Kepler"}, {3, "Maxwell"}, {4, "Pascal"}, {5, "Volta"},      {6, "Turing"},
    {7, "Ampere"}, {8, "Ada"},     {9, "Hopper"}, {10, "Blackwell"}, {13, "Rubin"},
};

const Architecture* find(int compute_capability) {
    const auto after = std::upper_bound(
        std::begin(kByCapability), std::end(kByCapability), compute_capability,
        [](int capability, const Architecture& row) { return capability < row.first; });
    return after == std::begin(kByCapability) ? nullptr : std::prev(after);
}

}  // namespace

std::string nvidia_architecture(int compute_capability) {
    const Architecture* found = find(compute_capability);
    return found == nullptr ? "" : found->name;
}

std::string nvml_architecture(int number) {
    const auto* found = std::find_if(std::begin(kByNvml), std::end(kByNvml),
                                     [&](const Number& row) { return row.number == number; });
    return found == std::end(kByNvml) ? "" : found->name;
}

std::optional<int> nvlink_generation(int compute_capability) {
    const Architecture* found = find(compute_capability);
    if (found == nullptr || found->nvlink == 0) return std::nullopt;
    return found->nvlink;
}

std::string amd_architecture(long long gfx_target_version) {
    if (gfx_target_version < 10'000 || gfx_target_version >= 1'000'000) return "";
    return fmt::format("gfx{}{:x}{:x}", gfx_target_version / 10'000, gfx_target_version / 100 % 100,
                       gfx_target_version % 100);
}

}  // namespace toporun::detect
