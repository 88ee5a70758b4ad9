#include "env/p2p_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace toporun::env {
namespace {

using detect::PathType;
using profiles::Measured;
using profiles::MeasuredPair;

/// How much faster a way must be to count as faster: copies between two GPUs of an idle machine
/// repeat within a few per cent, and a ring gains less than its copies do.
constexpr double kMargin = 1.1;

std::string differs(const std::string& what, const std::string& there, const std::string& here) {
    const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
    return there == here
               ? ""
               : fmt::format("{} {} was measured, {} is here", what, known(there), known(here));
}

std::optional<int> position_of(const detect::Machine& machine, const std::string& pci) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        if (machine.gpus[i].pci && machine.gpus[i].pci->text() == pci) return static_cast<int>(i);
    return std::nullopt;
}

/// Why these are not the machine's GPUs; "" when they are.
std::string gpu_misfit(const Measured& measured, const detect::Machine& machine) {
    if (measured.gpus.size() != machine.gpus.size())
        return fmt::format("{} GPUs were measured, {} are here", measured.gpus.size(),
                           machine.gpus.size());
    for (const profiles::MeasuredGpu& gpu : measured.gpus) {
        const auto position = position_of(machine, gpu.pci);
        if (!position) return fmt::format("there is no GPU {} here", gpu.pci);
        const auto& here = machine.gpus[static_cast<std::size_t>(*position)];
        if (here.uuid.value_or("") != gpu.uuid)
            return fmt::format("GPU {} has another UUID", gpu.pci);
    }
    return "";
}

std::string software_misfit(const Measured& measured, const detect::Software& software) {
    for (std::string text : {differs("driver", measured.driver, software.driver.value_or("")),
                             differs("kernel", measured.kernel, software.kernel),
                             differs("IOMMU mode", measured.iommu, software.iommu_mode)})
        if (!text.empty()) return text;
    return "";
}

bool is_p2p(const std::string& transport) {
    return transport == "P2P" || transport == "P2P-indirect";
}

bool better(double speed, double other) {
    return speed >= kMargin * other;
}

/// What a level changes, against the default.
struct Change {
    bool allowed = true;
    int changed = 0;
    std::vector<GpuPair> gained;
};

class Judge {
  public:
    Judge(const Inputs& inputs, const PairMatrix& matrix, const TransportSwitches& defaults,
          const MeasuredMachine& measured, const std::vector<GpuPair>& bad)
        : inputs_(inputs), matrix_(matrix), defaults_(defaults), measured_(measured), bad_(bad) {}

    Change judge(PathType level) const {
        TransportSwitches switches = defaults_;
        switches.level = level;
        Change change;
        const std::vector<int> gpus = gpus_in_job(inputs_);
        for (std::size_t i = 0; i < gpus.size() && change.allowed; ++i)
            for (std::size_t j = i + 1; j < gpus.size() && change.allowed; ++j)
                look_at({std::min(gpus[i], gpus[j]), std::max(gpus[i], gpus[j])}, switches, change);
        return change;
    }

  private:
    void look_at(const GpuPair& pair, const TransportSwitches& switches, Change& change) const {
        const auto& [a, b] = pair;
        const std::string before = pair_transport(inputs_, matrix_, a, b, defaults_);
        const std::string after = pair_transport(inputs_, matrix_, a, b, switches);
        const bool is_bad = std::find(bad_.begin(), bad_.end(), pair) != bad_.end();
        if (is_bad && is_p2p(after)) change.allowed = false;
        if (before == after) return;
        ++change.changed;
        const PathType path = matrix_.path(a, b);
        const MeasuredPair* seen = measured_.pair(a, b);
        if (is_nvlink(path) || before == "NET" || before == "NONE")
            change.allowed = false;
        else if (is_bad)
            change.gained.push_back(pair);
        else if (seen == nullptr || !seen->p2p_gbytes_per_s || !seen->shm_gbytes_per_s)
            change.allowed = false;
        else
            weigh(pair, *seen, is_p2p(after), change);
    }

    static void weigh(const GpuPair& pair, const MeasuredPair& seen, bool to_p2p, Change& change) {
        const double p2p = *seen.p2p_gbytes_per_s, shm = *seen.shm_gbytes_per_s;
        if (to_p2p ? !seen.intact || p2p < shm : seen.intact && shm < p2p) {
            change.allowed = false;
        } else if (to_p2p ? better(p2p, shm) : !seen.intact || better(shm, p2p)) {
            change.gained.push_back(pair);
        }
    }

    const Inputs& inputs_;
    const PairMatrix& matrix_;
    const TransportSwitches& defaults_;
    const MeasuredMachine& measured_;
    const std::vector<GpuPair>& bad_;
};

std::string evidence_text(const MeasuredMachine& measured, const std::vector<GpuPair>& gained) {
    constexpr std::size_t kNamed = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kNamed, gained.size()); ++i) {
        const auto& [a, b] = gained[i];
        const MeasuredPair* seen = measured.pair(a, b);
        if (seen == nullptr || !seen->p2p_gbytes_per_s || !seen->shm_gbytes_per_s) continue;
        text += fmt::format("{}GPU {} and GPU {}: {:.1f} GB/s by P2P{}, {:.1f} through memory",
                            text.empty() ? "" : "; ", a, b, *seen->p2p_gbytes_per_s,
                            seen->intact ? "" : " (data wrong)", *seen->shm_gbytes_per_s);
    }
    if (gained.size() > kNamed)
        text += fmt::format("; and {} more pair{}", gained.size() - kNamed,
                            gained.size() - kNamed == 1 ? "" : "s");
    return fmt::format("{}, measured {} ({})", text.empty() ? "P2P of some pairs is bad" : text,
                       measured.profile->date, measured.profile->tool);
}

}  // namespace

const MeasuredPair* MeasuredMachine::pair(int a, int b) const {
    const auto found = pairs.find({std::min(a, b), std::max(a, b)});
    return found == pairs.end() ? nullptr : found->second;
}

bool measured_here(const detect::Machine& machine, const Measured& measured) {
    return gpu_misfit(measured, machine).empty() &&
           software_misfit(measured, machine.software).empty();
}

MeasuredMachine measured_machine(const Inputs& inputs) {
    MeasuredMachine found;
    const detect::Machine& machine = inputs.machine;
    for (const Measured& measured : inputs.knowledge.measured) {
        const std::string gpus = gpu_misfit(measured, machine);
        const std::string why = gpus.empty() ? software_misfit(measured, machine.software) : gpus;
        if (why.empty()) {
            if (found.profile == nullptr || measured.date > found.profile->date)
                found.profile = &measured;
        } else if (found.misfit.empty() || (gpus.empty() && !found.stale)) {
            found.misfit = fmt::format("measured profile '{}': {}", measured.name, why);
            found.stale = gpus.empty();
        }
    }
    if (found.profile == nullptr) return found;
    found.misfit.clear();
    found.stale = false;
    for (const MeasuredPair& pair : found.profile->pairs) {
        const auto a = position_of(machine, pair.a), b = position_of(machine, pair.b);
        if (a && b) found.pairs.emplace(std::minmax(*a, *b), &pair);
    }
    return found;
}

std::optional<MeasuredLevel> measured_level(const Inputs& inputs, const PairMatrix& matrix,
                                            const TransportSwitches& defaults,
                                            const MeasuredMachine& measured,
                                            const std::vector<GpuPair>& bad) {
    if (measured.profile == nullptr || inputs.rccl) return std::nullopt;
    if (inputs.nccl && *inputs.nccl < 20600) return std::nullopt;  // no names yet
    const Judge judge(inputs, matrix, defaults, measured, bad);
    std::optional<MeasuredLevel> best;
    Change most;
    constexpr std::array kLevels = {PathType::LOC, PathType::NVL, PathType::NVB, PathType::PIX,
                                    PathType::PXB, PathType::PHB, PathType::SYS};
    for (const PathType level : kLevels) {
        if (level == PathType::NVB && (!inputs.nccl || *inputs.nccl < 20800)) continue;
        Change change = judge.judge(level);
        const bool wins = change.gained.size() > most.gained.size() ||
                          (!change.gained.empty() && change.gained.size() == most.gained.size() &&
                           change.changed < most.changed);
        if (!change.allowed || !wins) continue;
        best = MeasuredLevel{level, evidence_text(measured, change.gained)};
        most = std::move(change);
    }
    return best;
}

std::vector<Finding> measured_findings(const Inputs& inputs, const PairMatrix& matrix,
                                       const MeasuredMachine& measured) {
    std::vector<Finding> findings;
    if (measured.stale)
        findings.push_back({"measured-stale", Severity::note,
                            "what was measured on these GPUs does not hold any longer",
                            measured.misfit, "it is not used", "measure again", ""});
    std::vector<GpuPair> links;
    const std::vector<int> gpus = gpus_in_job(inputs);
    for (std::size_t i = 0; i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j)
            if (matrix.path(gpus[i], gpus[j]) <= PathType::NVB)
                links.emplace_back(std::min(gpus[i], gpus[j]), std::max(gpus[i], gpus[j]));
    const auto broken = measured_broken(measured, links);
    if (broken.empty()) return findings;
    const P2pFault fault = measured_fault(broken, *measured.profile);
    findings.push_back({fault.id, Severity::broken, "data does not arrive over NVLink",
                        fault.evidence,
                        "wrong data or a hang; P2P stays on, NVLink has no safe "
                        "setting that is fast",
                        "nvidia-smi nvlink -e", "",
                        "it shows the errors of the links: leave these GPUs out "
                        "(CUDA_VISIBLE_DEVICES) until they are repaired"});
    return findings;
}

std::vector<GpuPair> measured_broken(const MeasuredMachine& measured,
                                     const std::vector<GpuPair>& pairs) {
    std::vector<GpuPair> broken;
    for (const GpuPair& pair : pairs)
        if (const MeasuredPair* seen = measured.pair(pair.first, pair.second);
            seen != nullptr && !seen->intact)
            broken.push_back(pair);
    return broken;
}

}  // namespace toporun::env
