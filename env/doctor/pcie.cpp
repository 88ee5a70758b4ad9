#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// PCIe links of GPUs and adapters: lanes and generation against what is possible.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Nic;

constexpr std::string_view kFamily = "pcie";
/// More memory in use than a desktop or an idle context takes (some 0.5 GiB): a job runs there, and
/// the link with it.
constexpr std::uint64_t kBusyBytes = 1ull << 30;

/// GB/s of one lane in one direction, after encoding (PCI-SIG): generation 1 to 6.
constexpr std::array<double, 7> kLaneGbytesPerS = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

std::optional<double> link_gbytes_per_s(std::optional<int> generation, std::optional<int> width) {
    if (!generation || !width || *generation < 1 ||
        *generation >= static_cast<int>(kLaneGbytesPerS.size()) || *width < 1)
        return std::nullopt;
    return kLaneGbytesPerS[static_cast<std::size_t>(*generation)] * *width;
}

bool has_wider_sibling(const Patient& patient, const Gpu& gpu) {
    return std::any_of(patient.machine().gpus.begin(), patient.machine().gpus.end(),
                       [&](const Gpu& other) {
                           return other.name == gpu.name && other.pcie_width_now &&
                                  *other.pcie_width_now > *gpu.pcie_width_now;
                       });
}

/// Lanes do not depend on load. Half the lanes on all cards alike is how many desktop boards share
/// them; laptops wire fewer.
void gpu_width(const Patient& patient, Verdict& verdict) {
    std::map<std::pair<int, int>, std::vector<int>> narrow, even;
    bool known = patient.machine().gpus.empty();
    for (std::size_t i = 0; i < patient.machine().gpus.size(); ++i) {
        const Gpu& gpu = patient.machine().gpus[i];
        if (!gpu.pcie_width || !gpu.pcie_width_now) continue;
        known = true;
        const int now = *gpu.pcie_width_now, possible = *gpu.pcie_width;
        if (now < 1 || now >= possible || is_laptop_gpu(gpu)) continue;
        const bool fault =
            is_server_gpu(gpu) || has_wider_sibling(patient, gpu) || now * 4 <= possible;
        (fault ? narrow : even)[{now, possible}].push_back(static_cast<int>(i));
    }
    if (!known) return verdict.unknown("the PCIe links of the GPUs");
    const bool fault = !narrow.empty();
    for (const auto& [lanes, gpus] : fault ? narrow : even) {
        if (!fault && patient.machine().gpus.size() < 2) continue;  // one card: no NCCL traffic
        verdict.find(
            fault && !patient.machine().virtual_machine ? Severity::slow : Severity::note,
            {.what = fmt::format("{} {} {} of {} PCIe lanes", gpus_text(patient.machine(), gpus),
                                 gpus.size() == 1 ? "uses" : "use", lanes.first, lanes.second),
             .evidence = "nvidia-smi --query-gpu=pcie.link.width.current,pcie.link.width.max "
                         "--format=csv",
             .effect = fmt::format("{:.0f} % of the bandwidth to host, adapters and other GPUs",
                                   100.0 * lanes.first / lanes.second),
             .fix = "reseat the card or riser, clean the contacts, look at the slot's lanes and "
                    "bifurcation in the BIOS"});
    }
}

/// An idle GPU lowers the generation: only cards with memory in use are compared.
void gpu_generation(const Patient& patient, Verdict& verdict) {
    std::vector<int> slow;
    bool sibling_at_full = false;
    for (std::size_t i = 0; i < patient.machine().gpus.size(); ++i) {
        const Gpu& gpu = patient.machine().gpus[i];
        if (!gpu.pcie_generation || !gpu.pcie_generation_now) continue;
        if (gpu.memory_used_bytes.value_or(0) < kBusyBytes) continue;
        if (*gpu.pcie_generation_now >= *gpu.pcie_generation)
            sibling_at_full = true;
        else
            slow.push_back(static_cast<int>(i));
    }
    if (slow.empty() || !sibling_at_full) return;
    const Gpu& first = gpu_at(patient, slow.front());
    verdict.slow(
        {.what = fmt::format("{} {} at PCIe generation {} of {} while others in use are "
                             "at full speed",
                             gpus_text(patient.machine(), slow), slow.size() == 1 ? "is" : "are",
                             *first.pcie_generation_now, *first.pcie_generation),
         .evidence = "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max "
                     "--format=csv, with memory in use",
         .effect = "each generation less halves the bandwidth",
         .fix = "look again under load; if it stays: reseat the card or riser, set the "
                "slot's generation in the BIOS"});
}

/// What the slots allow, for cards of one model.
void gpu_slots(const Patient& patient, Verdict& verdict) {
    std::map<std::string, std::map<double, std::vector<int>>> by_model;
    for (const int position : patient.inputs.visible) {
        const Gpu& gpu = gpu_at(patient, position);
        if (gpu.name.empty()) continue;
        if (const auto speed = link_gbytes_per_s(gpu.pcie_generation, gpu.pcie_width))
            by_model[gpu.name][*speed].push_back(position);
    }
    for (const auto& [name, speeds] : by_model) {
        if (speeds.size() < 2) continue;
        const auto& [low, slow] = *speeds.begin();
        const double high = speeds.rbegin()->first;
        verdict.slow({.what = fmt::format("{} {} in a slower PCIe slot: {:.0f} of {:.0f} GB/s",
                                          gpus_text(patient.machine(), slow),
                                          slow.size() == 1 ? "is" : "are", low, high),
                      .evidence = "possible generation and lanes (nvidia-smi "
                                  "--query-gpu=pcie.link.gen.max,pcie.link.width.max --format=csv)",
                      .effect = "rings over PCIe run at the slowest slot",
                      .fix = "move the card, or set the slot's generation and lanes in the BIOS",
                      .where = name});
    }
}

/// An adapter whose PCIe link carries less than its port. A hypervisor may show a guest any link.
void nic_link(const Patient& patient, Verdict& verdict) {
    for (const Nic& nic : patient.machine().nics) {
        const auto now = link_gbytes_per_s(nic.pcie_generation_now, nic.pcie_width_now);
        const bool down = nic.rdma_device ? !rdma_usable(nic) : nic.state == "down";
        if (!now || !nic.speed_gbits || down || nic.virtual_function) continue;
        // Headers of PCIe packets take some 5 to 10 %: a link that just matches is meant so.
        if (*now * 8 >= 0.9 * *nic.speed_gbits) continue;
        const bool trained_down =
            (nic.pcie_width && *nic.pcie_width_now < *nic.pcie_width) ||
            (nic.pcie_generation && *nic.pcie_generation_now < *nic.pcie_generation);
        verdict.find(
            patient.machine().virtual_machine ? Severity::note : Severity::slow,
            {.what = fmt::format("{} has a port of {:g} Gb/s on a PCIe link of {:.0f} "
                                 "Gb/s",
                                 port_name(nic), *nic.speed_gbits, *now * 8),
             .evidence = fmt::format("generation {} x{} now{} (lspci -vv, LnkSta)",
                                     *nic.pcie_generation_now, *nic.pcie_width_now,
                                     trained_down && nic.pcie_generation && nic.pcie_width
                                         ? fmt::format(", generation {} x{} possible",
                                                       *nic.pcie_generation, *nic.pcie_width)
                                         : ""),
             .effect = fmt::format("at most {:.0f} % of the port's rate",
                                   100 * *now * 8 / *nic.speed_gbits),
             .fix = "move the adapter to a slot with more lanes or a newer generation, "
                    "or reseat it if the slot has them",
             .where = port_name(nic)});
    }
}

constexpr Check kChecks[] = {
    {{"gpu-pcie-width", kFamily, Severity::slow,
      "PCIe lanes in use by each GPU against the possible ones: they do not depend on load"},
     gpu_width},
    {{"gpu-pcie-generation", kFamily, Severity::slow,
      "the PCIe generation of GPUs in use: an idle GPU lowers it, a busy one does not"},
     gpu_generation},
    {{"gpu-pcie-slots-differ", kFamily, Severity::slow,
      "whether the slots of GPUs of one model allow the same PCIe speed"},
     gpu_slots},
    {{"nic-pcie-slow", kFamily, Severity::slow,
      "the PCIe link of each adapter against the rate of its port"},
     nic_link},
};

}  // namespace

std::span<const Check> pcie_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
