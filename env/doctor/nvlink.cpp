#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"
#include "env/matrix.hpp"

/// NVLinks: those that are down, and modules that have none.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::GpuLink;
using detect::Machine;
using detect::PathType;

constexpr std::string_view kFamily = "nvlink";

struct LinkCount {
    int active = 0;
    int inactive = 0;
    int unknown = 0;
    std::vector<std::string> down;  ///< numbers
};

LinkCount count_links(const Gpu& gpu) {
    LinkCount count;
    for (const GpuLink& link : gpu.links) {
        if (!link.active)
            ++count.unknown;
        else if (*link.active)
            ++count.active;
        else {
            ++count.inactive;
            count.down.push_back(std::to_string(link.link));
        }
    }
    return count;
}

/// NVIDIA GPUs with link states. MIG switches NVLink off.
std::vector<int> gpus_with_links(const Patient& patient) {
    std::vector<int> found;
    for (std::size_t i = 0; i < patient.machine().gpus.size(); ++i) {
        const Gpu& gpu = patient.machine().gpus[i];
        if (gpu.vendor != "amd" && gpu.mig != true && !gpu.links.empty())
            found.push_back(static_cast<int>(i));
    }
    return found;
}

/// Whether some, but not all, links of a card may be inactive by design: large PCIe cards with
/// several bridge connectors, of which one or two are fitted.
bool may_be_part_fitted(const Gpu& gpu, const LinkCount& count) {
    if (is_sxm(gpu)) return false;
    if (has_bridge_connectors(gpu)) return true;
    return gpu.name.empty() ? false : count.active + count.inactive > 4;
}

void links_down(const Patient& patient, Verdict& verdict) {
    const std::vector<int> gpus = gpus_with_links(patient);
    if (gpus.empty()) {
        const auto sxm = visible_gpus(patient, [](const Gpu& gpu) { return is_sxm(gpu); });
        if (sxm.size() > 1) verdict.unknown("the NVLink states");
        return;
    }
    for (const int position : gpus) {
        const Gpu& gpu = gpu_at(patient, position);
        const LinkCount count = count_links(gpu);
        const int all = count.active + count.inactive + count.unknown;
        if (count.inactive == 0 || count.active == 0 || may_be_part_fitted(gpu, count)) continue;
        verdict.slow({.what = fmt::format("GPU {}: NVLink{} {} inactive, {} of {} up", gpu.index,
                                          count.inactive == 1 ? "" : "s", and_list(count.down),
                                          count.active, all),
                      .evidence = fmt::format("nvidia-smi nvlink -s -i {}", gpu.index),
                      .effect = fmt::format("{:.0f} % of the GPU's NVLink bandwidth is lost, and "
                                            "every ring through it runs at that pace",
                                            100.0 * count.inactive / all),
                      .fix = "nvidia-smi --gpu-reset",
                      .remark = "Xid 74 in dmesg tells of the link; reseat the bridge, then ask "
                                "for repair; until then leave the GPU out (CUDA_VISIBLE_DEVICES)",
                      .where = fmt::format("GPU {}", gpu.index)});
    }
}

/// Of a capture that knows no names a card without bridge cannot be told from a fault.
void all_down(const Patient& patient, Verdict& verdict) {
    std::vector<int> fault, perhaps;
    int links = 0;
    for (const int position : gpus_with_links(patient)) {
        const Gpu& gpu = gpu_at(patient, position);
        const LinkCount count = count_links(gpu);
        if (count.inactive == 0 || count.active > 0 || count.unknown > 0) continue;
        links = std::max(links, count.inactive);
        if (is_sxm(gpu))
            fault.push_back(position);
        else if (gpu.name.empty() || is_sold_bridged(gpu))
            perhaps.push_back(position);
    }
    if (patient.machine().gpus.size() < 2) return;  // one GPU of a board needs no NVLink
    if (!fault.empty())
        verdict.broken(
            {.what = fmt::format("all {} NVLinks of {} are down", links,
                                 gpus_text(patient.machine(), fault)),
             .evidence = "nvidia-smi nvlink -s",
             .effect = "the GPUs fall back to PCIe, about a tenth of the bandwidth, or CUDA does "
                       "not start (error 802)",
             .fix = "nvidia-smi --gpu-reset",
             .remark = "or a reboot; where there are NVSwitches look at systemctl status "
                       "nvidia-fabricmanager first"});
    if (perhaps.empty()) return;
    verdict.note({.what = fmt::format("no NVLink in use: all {} links of {} are down", links,
                                      gpus_text(patient.machine(), perhaps)),
                  .evidence = "nvidia-smi nvlink -s",
                  .effect = "the GPUs talk over PCIe; that is normal for cards without a bridge",
                  .fix = "nvidia-smi --gpu-reset",
                  .remark = "after the bridges, where they are fitted, were reseated"});
}

/// A100: the first modules that eight of are joined by switches on every board.
constexpr int kAmpere = 80;

/// SXM modules have NVLink on every board.
std::vector<int> modules(const Patient& patient) {
    return visible_gpus(patient, [](const Gpu& gpu) { return is_sxm(gpu) && gpu.mig != true; });
}

bool nvlink_path(PathType path) {
    return path == PathType::NVL || path == PathType::NVB;
}

/// GPUs without a name that look like a board of modules: four or more, each with an adapter of its
/// own below its switch. Rows that a cut capture lost do not count.
bool looks_like_modules(const Patient& patient) {
    const std::vector<int> unnamed = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.name.empty() && gpu.vendor != "amd" && gpu.links.empty();
    });
    if (unnamed.size() != patient.machine().gpus.size()) return false;
    std::set<std::size_t> own;
    std::size_t told = 0;
    for (const int gpu : unnamed) {
        std::optional<std::size_t> below_switch;
        bool any = false;
        for (std::size_t nic = 0; nic < patient.machine().nics.size(); ++nic) {
            const auto path = nic_path(patient.machine(), gpu, static_cast<int>(nic));
            any = any || path;
            if (path == PathType::PIX && !below_switch) below_switch = nic;
        }
        if (any) ++told;
        if (below_switch) own.insert(*below_switch);
    }
    return told >= 4 && own.size() == told;
}

/// The number of NVLinks of every pair is told, be it 0. Where it is not, paths over PCIe are what
/// the source knows of, and no sign of NVLinks that are missing.
bool link_counts_known(const Machine& machine) {
    const std::size_t size = machine.gpus.size();
    return machine.gpu_links.size() == size &&
           std::all_of(machine.gpu_links.begin(), machine.gpu_links.end(),
                       [&](const std::vector<int>& row) {
                           return row.size() == size &&
                                  std::none_of(row.begin(), row.end(),
                                               [](int links) { return links < 0; });
                       });
}

/// A capture that shows no names: modules without NVLink are a fault, cards without are not.
void perhaps_missing(const Patient& patient, Verdict& verdict) {
    const PairMatrix matrix(patient.machine());
    const std::size_t count = patient.machine().gpus.size();
    const auto& links = patient.machine().gpu_links;
    if (!matrix.known() || links.size() != count) return;
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = i + 1; j < count; ++j) {
            const PathType path = matrix.path(static_cast<int>(i), static_cast<int>(j));
            if (path == PathType::DIS) continue;  // a cut capture does not tell the pair
            if (path != PathType::SYS || links[i].size() != count || links[i][j] != 0) return;
        }
    verdict.note(
        {.what = "no pair of GPUs has NVLink, and every pair is SYS",
         .evidence = fmt::format("{} GPUs, each with an adapter of its own", count),
         .effect = "normal for PCIe cards; of SXM modules the NVLinks are not up, which leaves "
                   "about a tenth of the bandwidth",
         .fix = "nvidia-smi -L",
         .remark = "it tells the model; of SXM modules look at systemctl status "
                   "nvidia-fabricmanager, in a guest at the passthrough of the NVSwitches"});
}

/// H100 NVL and H200 NVL are sold in pairs or fours with a bridge. On Azure's NC80adis_H100_v5
/// NVLink was missing after half of the boots (Azure/azhpc-images issue 443).
void missing_bridge(const Patient& patient, Verdict& verdict) {
    const std::vector<int> cards = visible_gpus(
        patient, [](const Gpu& gpu) { return is_sold_bridged(gpu) && gpu.mig != true; });
    const PairMatrix matrix(patient.machine());
    if (cards.size() < 2 || !matrix.known() || !link_counts_known(patient.machine())) return;
    for (std::size_t i = 0; i < cards.size(); ++i)
        for (std::size_t j = i + 1; j < cards.size(); ++j)
            if (const PathType path = matrix.path(cards[i], cards[j]);
                nvlink_path(path) || path == PathType::DIS)
                return;
    verdict.note(
        {.what = fmt::format("{} are cards that are sold with NVLink bridges, but no pair "
                             "has NVLink",
                             gpus_text(patient.machine(), cards)),
         .evidence = fmt::format("{}, with 0 NVLinks", gpu_at(patient, cards.front()).name),
         .effect = "the GPUs talk over PCIe, about a tenth of the bandwidth",
         .fix = "nvidia-smi nvlink -s",
         .remark = "links that are inactive: look at the bridges, in a guest reboot; no "
                   "bridge was bought: nothing to do"});
}

void missing(const Patient& patient, Verdict& verdict) {
    const std::vector<int> sxm = modules(patient);
    if (sxm.empty()) missing_bridge(patient, verdict);
    if (sxm.empty() && looks_like_modules(patient)) return perhaps_missing(patient, verdict);
    if (sxm.size() < 2) return;
    const PairMatrix matrix(patient.machine());
    if (!matrix.known()) return verdict.unknown("the paths between the GPUs");
    if (!link_counts_known(patient.machine())) return verdict.unknown("the NVLink states");
    std::set<PathType> paths;
    for (std::size_t i = 0; i < sxm.size(); ++i)
        for (std::size_t j = i + 1; j < sxm.size(); ++j) {
            const PathType path = matrix.path(sxm[i], sxm[j]);
            if (nvlink_path(path) || path == PathType::DIS) return;
            paths.insert(path);
        }
    for (const int gpu : sxm)  // nvlink-all-down tells it with the links themselves
        if (!gpu_at(patient, gpu).links.empty() && count_links(gpu_at(patient, gpu)).active == 0)
            return;
    const bool guest = patient.machine().virtual_machine;
    // V100 boards have no switches, and modules on adapters no NVLink. Behind switches CUDA does
    // not start without the fabric (NVIDIA/nccl-tests issue 260). Four H100 or A100 may be a part
    // of such a board (deepseek-ai/DeepEP issue 128) or a board without switches.
    const bool ampere =
        compute_capability(gpu_at(patient, sxm.front())).value_or(kAmpere) >= kAmpere;
    const bool switches =
        patient.machine().nvswitch || sxm.size() > 8 || (sxm.size() > 4 && ampere);
    const bool part = sxm.size() == 4 && ampere;
    const bool passed = guest && (ampere || switches);
    std::vector<std::string> words;
    for (const PathType path : paths) words.emplace_back(detect::path_name(path));
    verdict.find(
        switches || passed || part ? Severity::broken : Severity::slow,
        {.what = fmt::format("{} are SXM modules, but no pair has NVLink",
                             gpus_text(patient.machine(), sxm)),
         .evidence = fmt::format("{}: every pair is {}, with 0 NVLinks",
                                 gpu_at(patient, sxm.front()).name, join(words, " or ")),
         .effect = switches || passed
                       ? "the GPUs fall back to PCIe, about a tenth of the bandwidth, or CUDA does "
                         "not start (error 802)"
                       : "the GPUs talk over PCIe, about a tenth of the bandwidth",
         .fix = passed     ? "the hypervisor must pass the NVSwitches through, or run the fabric "
                             "manager in its shared mode"
                : switches ? "systemctl start nvidia-fabricmanager"
                           : "nvidia-smi nvlink -s",
         .remark = passed     ? ""
                   : switches ? "of the driver's version, then look at nvidia-smi nvlink -s; in a "
                                "guest at the passthrough of the NVSwitches"
                   : !ampere  ? "normal for modules on adapters or boards for one; on a board that "
                                "joins them look for Xid messages in dmesg, reset the GPUs or reboot"
                              : "look for Xid messages in dmesg, reset the GPUs or reboot; where "
                                "they are some of a board of eight, look at nvidia-fabricmanager "
                                "and, in a guest, at the passthrough of the NVSwitches"});
}

/// Boards on which every pair has the same NVLinks: A100 and later modules, and whatever stands
/// behind NVSwitches.
std::vector<int> switched_modules(const Patient& patient) {
    const bool switches = patient.machine().nvswitch;
    return visible_gpus(patient, [&](const Gpu& gpu) {
        if (gpu.mig == true || gpu.vendor == "amd") return false;
        if (switches && (gpu.name.empty() || is_sxm(gpu))) return true;
        return is_sxm(gpu) && compute_capability(gpu).value_or(kAmpere) >= kAmpere;
    });
}

void missing_pair(const Patient& patient, Verdict& verdict) {
    const std::vector<int> gpus = switched_modules(patient);
    const PairMatrix matrix(patient.machine());
    if (gpus.size() < 2 || !matrix.known()) return;
    std::vector<std::pair<int, int>> without;
    int with = 0;
    for (std::size_t i = 0; i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j) {
            const PathType path = matrix.path(gpus[i], gpus[j]);
            if (path == PathType::DIS) continue;
            if (nvlink_path(path))
                ++with;
            else
                without.emplace_back(gpus[i], gpus[j]);
        }
    if (with == 0 || without.empty()) return;
    const std::size_t count = without.size();
    verdict.slow(
        {.what = fmt::format("{} GPU pair{} of the board {} no NVLink, {} have", count,
                             count == 1 ? "" : "s", count == 1 ? "has" : "have", with),
         .evidence = fmt::format("pairs without: {}", pairs_text(patient.machine(), without)),
         .effect = "NCCL takes PCIe between them, and collectives run at that pace",
         .fix = "nvidia-smi nvlink -s; dmesg | grep -i xid",
         .remark = "reset the GPUs or reboot"});
}

/// Through switches the number of a pair is the smaller of both GPUs.
void uneven(const Patient& patient, Verdict& verdict) {
    const std::vector<int> gpus = switched_modules(patient);
    if (gpus.size() < 3) return;
    const PairMatrix matrix(patient.machine());
    std::map<int, std::vector<int>> by_links;
    for (const int a : gpus) {
        if (!count_links(gpu_at(patient, a)).down.empty()) return;  // nvlink-links-down tells it
        int most = 0;
        for (const int b : gpus)
            if (a != b) most = std::max(most, matrix.links(a, b));
        if (most > 0) by_links[most].push_back(a);
    }
    if (by_links.size() < 2) return;
    const int best = by_links.rbegin()->first;
    for (const auto& [links, weak] : by_links) {
        if (links == best) continue;
        verdict.slow({.what = fmt::format("{} {} {} NVLinks, the others {}",
                                          gpus_text(patient.machine(), weak),
                                          weak.size() == 1 ? "has" : "have", links, best),
                      .evidence = "the number of NVLinks of their pairs (NV in nvidia-smi topo -m)",
                      .effect = fmt::format("{:.0f} % of the NVLink bandwidth is lost there, and "
                                            "every ring runs at that pace",
                                            100.0 * (best - links) / best),
                      .fix = "nvidia-smi nvlink -s",
                      .remark = "it names the links; reset the GPUs or ask for repair"});
    }
}

void speed_uneven(const Patient& patient, Verdict& verdict) {
    std::map<std::string, std::map<double, int>> by_model;
    for (const int position : gpus_with_links(patient)) {
        const Gpu& gpu = gpu_at(patient, position);
        for (const GpuLink& link : gpu.links)
            if (link.active == true && link.speed_gbytes_per_s && link.peer_kind != "cpu")
                ++by_model[gpu.name][*link.speed_gbytes_per_s];
    }
    for (const auto& [name, speeds] : by_model) {
        if (speeds.size() < 2 || speeds.begin()->first > 0.95 * speeds.rbegin()->first) continue;
        verdict.slow(
            {.what = fmt::format("{} NVLink{} at {:g} GB/s, the others at {:g} GB/s",
                                 speeds.begin()->second, speeds.begin()->second == 1 ? "" : "s",
                                 speeds.begin()->first, speeds.rbegin()->first),
             .evidence = "nvidia-smi nvlink -s",
             .effect = "rings through them run at the lower speed",
             .fix = "nvidia-smi nvlink -e",
             .remark = "it counts errors; reset the GPUs or ask for repair",
             .where = name});
    }
}

constexpr Check kChecks[] = {
    {{"nvlink-links-down", kFamily, Severity::slow,
      "the state of each NVLink: a GPU with some of its links inactive slows every ring"},
     links_down},
    {{"nvlink-all-down", kFamily, Severity::broken,
      "GPUs whose NVLinks are all down: a fault on SXM boards, normal for cards without bridge"},
     all_down},
    {{"nvlink-missing", kFamily, Severity::broken,
      "whether SXM modules reach each other by NVLink at all: fabric manager, passthrough; slow, "
      "where the board has no NVSwitches"},
     missing},
    {{"nvlink-missing-pair", kFamily, Severity::slow,
      "whether every pair of a board with NVSwitches has NVLink"},
     missing_pair},
    {{"nvlink-uneven", kFamily, Severity::slow,
      "whether the GPUs of a board have the same number of NVLinks"},
     uneven},
    {{"nvlink-speed-uneven", kFamily, Severity::slow,
      "whether the NVLinks of GPUs of one model run at one speed"},
     speed_uneven},
};

}  // namespace

std::span<const Check> nvlink_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
