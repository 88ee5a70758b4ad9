#include "detect/topology/fold_switches.hpp"

#include <algorithm>

namespace toporun::detect {
namespace {

/// Generation of a Broadcom switch that is folded, 0 for every other bridge. Level 0 is the upper
/// one (getBcmGen).
int broadcom_generation(const PciIds& ids, unsigned level, int version) {
    if (ids.vendor != 0x1000 || ids.subsystem_vendor != 0x1000) return 0;
    const unsigned kind = ids.subsystem_device & 0xf000u;
    if (version >= 2'09'08 && ids.device == 0xc010 && kind == 0xa000) return 4;
    if (version >= 2'20'00 && ids.device == 0xc030 && kind == level * 0x1000) return 5;
    return 0;
}

/// Every device that hangs on switch `from` hangs on `to` then.
void rehang(SystemTree& tree, std::size_t from, std::size_t to) {
    const auto move = [&](auto& devices) {
        for (auto& device : devices)
            if (device.parent.pci_switch == from) device.parent.pci_switch = to;
    };
    move(tree.switches);
    move(tree.gpus);
    move(tree.adapters);
    const PciAddress old_name = tree.switches[from].address;
    const PciAddress new_name = tree.switches[to].address;
    for (TreeSwitch& other : tree.switches)
        std::replace(other.peers.begin(), other.peers.end(), old_name, new_name);
    auto& peers = tree.switches[to].peers;
    peers.insert(peers.end(), tree.switches[from].peers.begin(), tree.switches[from].peers.end());
}

/// Takes the switches out that are marked; nothing hangs on them any more.
void remove_switches(SystemTree& tree, const std::vector<bool>& removed) {
    std::vector<std::size_t> position(removed.size());
    std::vector<TreeSwitch> kept;
    for (std::size_t i = 0; i < removed.size(); ++i) {
        position[i] = kept.size();
        if (!removed[i]) kept.push_back(std::move(tree.switches[i]));
    }
    tree.switches = std::move(kept);
    const auto renumber = [&](auto& devices) {
        for (auto& device : devices)
            if (device.parent.pci_switch)
                device.parent.pci_switch = position[*device.parent.pci_switch];
    };
    renumber(tree.switches);
    renumber(tree.gpus);
    renumber(tree.adapters);
}

}  // namespace

void fold_switches(SystemTree& tree, std::optional<int> nccl_version) {
    const int version = nccl_version.value_or(kNewestNccl);
    std::vector<bool> removed(tree.switches.size());
    for (std::size_t upper = 0; upper < tree.switches.size(); ++upper) {
        const int generation = broadcom_generation(tree.switches[upper].ids, 0, version);
        if (removed[upper] || generation == 0) continue;
        // One level only: what hung on a lower switch is not folded into the upper one again.
        std::vector<std::size_t> lower;
        for (std::size_t i = 0; i < tree.switches.size(); ++i)
            if (!removed[i] && tree.switches[i].parent.pci_switch == upper &&
                broadcom_generation(tree.switches[i].ids, 1, version) == generation)
                lower.push_back(i);
        for (const std::size_t i : lower) {
            rehang(tree, i, upper);
            removed[i] = true;
        }
    }
    remove_switches(tree, removed);
}

}  // namespace toporun::detect
