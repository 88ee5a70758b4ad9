#include <algorithm>

#include "detect/topology/gpu_models.hpp"
#include "detect/topology/link_bandwidth.hpp"
#include "detect/topology/machine_paths.hpp"

namespace toporun::detect {
namespace {

/// Bandwidth where the names of the paths are all that is known of the tree.
class Estimate {
  public:
    explicit Estimate(const Machine& machine)
        : machine_(machine), version_(nccl_version_code(machine.software.nccl_version)) {
        for (const Gpu& gpu : machine.gpus) {
            const auto model = gpu_model(gpu.name);
            pcie_.push_back(pcie(gpu, model));
            link_.push_back(link(gpu, model));
        }
    }

    std::optional<double> pair(std::size_t a, std::size_t b) const {
        switch (machine_.gpu_paths[a][b]) {
            case PathType::NVL:
                return over_links(a, b);
            case PathType::NVB:
                return over_third(a, b);
            case PathType::PIX:
            case PathType::PXB:
            case PathType::PHB:
                return lower(pcie_[a], pcie_[b]);
            case PathType::SYS:
                return lower(lower(pcie_[a], pcie_[b]), between_cpus());
            default:
                return std::nullopt;
        }
    }

  private:
    static std::optional<double> lower(std::optional<double> a, std::optional<double> b) {
        if (!a || !b) return std::nullopt;
        return std::min(*a, *b);
    }

    static std::optional<double> pcie(const Gpu& gpu, const std::optional<GpuModel>& model) {
        auto generation = gpu.pcie_generation;
        if (!generation && model) generation = model->pcie_generation;
        if (!generation) return std::nullopt;
        return pcie_gbytes_per_s(generation, gpu.pcie_width);
    }

    std::optional<double> link(const Gpu& gpu, const std::optional<GpuModel>& model) const {
        if (gpu.vendor == "amd") {
            if (!gpu.architecture.empty()) return xgmi_gbytes_per_s(gpu.architecture);
            if (!model || model->amd_architecture.empty()) return std::nullopt;
            return xgmi_gbytes_per_s(model->amd_architecture);
        }
        auto capability = gpu.compute_capability;
        if (!capability && model) capability = model->compute_capability;
        if (!capability || *capability == 0) return std::nullopt;
        return nvlink_gbytes_per_s(capability, version_);
    }

    std::optional<double> over_links(std::size_t a, std::size_t b) const {
        const auto& links = machine_.gpu_links;
        const auto one = lower(link_[a], link_[b]);
        if (!one || links.size() != machine_.gpus.size() || b >= links[a].size())
            return std::nullopt;
        if (links[a][b] <= 0) return std::nullopt;
        return links[a][b] * *one;
    }

    std::optional<double> over_third(std::size_t a, std::size_t b) const {
        std::optional<double> best;
        for (std::size_t c = 0; c < machine_.gpus.size(); ++c) {
            if (c == a || c == b) continue;
            const auto way = lower(over_links(a, c), over_links(c, b));
            if (way && (!best || *way > *best)) best = way;
        }
        return best;
    }

    std::optional<double> between_cpus() const {
        const Cpu& cpu = machine_.cpu;
        TreeCpu node;
        const bool x86 = cpu.vendor == "GenuineIntel" || cpu.vendor == "AuthenticAMD";
        node.architecture = cpu.architecture.empty() && x86 ? "x86_64" : cpu.architecture;
        node.vendor = cpu.vendor;
        if (node.architecture.empty() || (node.architecture == "x86_64" && !x86))
            return std::nullopt;
        if (cpu.vendor == "GenuineIntel" && !cpu.model_number) return std::nullopt;
        node.family = cpu.family.value_or(6);
        node.model = cpu.model_number.value_or(0);
        return cpu_link_gbytes_per_s(node, version_);
    }

    const Machine& machine_;
    std::optional<int> version_;
    std::vector<std::optional<double>> pcie_;  ///< per GPU, nothing = unknown
    std::vector<std::optional<double>> link_;  ///< one NVLink or xGMI link of it
};

}  // namespace

void estimate_path_bandwidth(Machine& machine) {
    const std::size_t count = machine.gpus.size();
    const auto square = [&](const auto& matrix) {
        return matrix.size() == count &&
               std::all_of(matrix.begin(), matrix.end(),
                           [&](const auto& row) { return row.size() == count; });
    };
    if (count == 0 || !square(machine.gpu_paths) || square(machine.gpu_path_gbytes_per_s)) return;
    const Estimate estimate(machine);
    machine.gpu_path_gbytes_per_s.assign(count, std::vector<std::optional<double>>(count));
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b)
            if (a != b) machine.gpu_path_gbytes_per_s[a][b] = estimate.pair(a, b);
}

}  // namespace toporun::detect
