#include "env/network_inside.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "detect/topology/system_tree.hpp"
#include "env/inputs.hpp"

namespace toporun::env {
namespace {

using detect::PathType;

/// The fastest adapter that the GPU reaches at PXB or nearer, GB/s; 0 without one. From 2.20 on
/// the ports of one card count as one adapter.
double adapter_gbytes_per_s(const Inputs& inputs, int gpu) {
    const detect::Machine& machine = inputs.machine;
    const auto position = static_cast<std::size_t>(gpu);
    if (position >= machine.gpu_nic_paths.size()) return 0;
    const auto& paths = machine.gpu_nic_paths[position];
    const detect::Gpu& own = machine.gpus[position];
    const bool merges = !inputs.nccl || *inputs.nccl >= 22000;
    std::map<std::tuple<std::uint32_t, int, int, std::size_t>, double> cards;
    for (std::size_t i = 0; i < std::min(paths.size(), machine.nics.size()); ++i) {
        const detect::Nic& nic = machine.nics[i];
        if (!paths[i] || *paths[i] > PathType::PXB || !rdma_usable(nic) || !nic.speed_gbits)
            continue;
        const bool known = merges && nic.pci;
        cards[known ? std::tuple(nic.pci->domain, int{nic.pci->bus}, int{nic.pci->device},
                                 std::size_t{0})
                    : std::tuple(std::uint32_t{0}, -1, -1, i)] +=
            std::min(*nic.speed_gbits / 8,
                     detect::pcie_gbytes_per_s(nic.pcie_generation, nic.pcie_width));
    }
    double fastest = 0;
    for (const auto& card : cards) fastest = std::max(fastest, card.second);
    return std::min(fastest, detect::pcie_gbytes_per_s(own.pcie_generation, own.pcie_width));
}

/// The groups into which NCCL parts the GPUs of a host: each joins the lowest group of a GPU before
/// it that it reaches without the network (ncclTopoTrimSystem).
template <class Apart>
std::map<int, std::size_t> groups_of(const std::vector<int>& gpus, Apart apart) {
    std::map<int, std::size_t> group;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        group[gpus[i]] = i;
        for (std::size_t j = 0; j < i; ++j)
            if (!apart(gpus[i], gpus[j])) group[gpus[i]] = std::min(group[gpus[i]], group[gpus[j]]);
    }
    return group;
}

}  // namespace

std::vector<std::vector<bool>> network_pairs(const Inputs& inputs, const PairMatrix& matrix,
                                             const std::vector<int>& gpus) {
    const detect::Machine& machine = inputs.machine;
    if (inputs.rccl || (inputs.nccl && *inputs.nccl < 21400) || !matrix.known() ||
        machine.software.verbs_devices == 0)
        return {};
    std::map<int, double> adapter;
    for (const int gpu : gpus) adapter[gpu] = adapter_gbytes_per_s(inputs, gpu);
    if (std::none_of(adapter.begin(), adapter.end(),
                     [](const auto& one) { return one.second > 0; }))
        return {};
    const auto apart = [&](int a, int b) {
        const auto bandwidth = matrix.path_gbytes_per_s(a, b);
        return bandwidth && adapter[a] > *bandwidth && adapter[b] > *bandwidth;
    };
    const auto group = groups_of(gpus, apart);
    const std::size_t size = machine.gpus.size();
    std::vector<std::vector<bool>> pairs(size, std::vector<bool>(size, false));
    bool any = false;
    for (const int a : gpus)
        for (const int b : gpus) {
            if (a == b || (group.at(a) == group.at(b) && !apart(a, b))) continue;
            pairs[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = any = true;
        }
    return any ? pairs : std::vector<std::vector<bool>>{};
}

}  // namespace toporun::env
