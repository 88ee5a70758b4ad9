#include "env/pair_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detect/topology/link_bandwidth.hpp"
#include "detect/topology/system_tree.hpp"
#include "env/matrix.hpp"
#include "env/nccl_defaults.hpp"

namespace toporun::env {
namespace {

using detect::PathType;

constexpr double kBetweenCpus = 10;  ///< GB/s, NCCL's for Intel Skylake, the lowest in use
constexpr double kMostGbytes = 5000;

bool is_known(PathType path) {
    return is_nvlink(path) || path == PathType::C2C || path == PathType::PIX ||
           path == PathType::PXB || path == PathType::PHB || path == PathType::SYS;
}

class Estimate {
  public:
    Estimate(const Inputs& inputs, const PairMatrix& matrix, int ranks)
        : inputs_(inputs), matrix_(matrix) {
        switches_.level = default_p2p_level(inputs, ranks).level;
        switches_ = with_users_switches(inputs, std::move(switches_));
    }

    /// Over links of the pair's own, or PCIe where it has none.
    double pair(int a, int b) const {
        const PathType path = matrix_.path(a, b);
        const double pcie = over_pcie(a, b);
        const std::string transport = pair_transport(inputs_, matrix_, a, b, switches_);
        if (transport == "NONE") return 0;
        if (transport == "NET") return pcie / 10;
        if (path == PathType::NVB) return pcie / 2;  // as without the third GPU
        if (transport == "SHM" || (!is_nvlink(path) && through_root(a, b))) return pcie / 2;
        if (path == PathType::NVL) return over_links(a, b);
        return path == PathType::PHB && intel() ? pcie * 5 / 6 : pcie;
    }

    bool goes_direct(int a, int b) const {
        return matrix_.path(a, b) == PathType::NVL &&
               pair_transport(inputs_, matrix_, a, b, switches_) == "P2P";
    }

    bool goes_through_third(int a, int b) const {
        return matrix_.path(a, b) == PathType::NVB &&
               pair_transport(inputs_, matrix_, a, b, switches_) == "P2P-indirect";
    }

    double over_links(int a, int b) const {
        if (const auto known = figure(a, b)) return *known;
        const auto one = [&](int gpu) {
            const detect::Gpu& facts = at(gpu);
            return facts.vendor == "amd"
                       ? detect::xgmi_gbytes_per_s(facts.architecture)
                       : detect::nvlink_gbytes_per_s(facts.compute_capability, inputs_.nccl);
        };
        return std::max(1, matrix_.links(a, b)) * std::min(one(a), one(b));
    }

  private:
    const detect::Gpu& at(int gpu) const {
        return inputs_.machine.gpus[static_cast<std::size_t>(gpu)];
    }

    bool intel() const { return inputs_.machine.cpu.vendor == "GenuineIntel"; }

    std::optional<double> figure(int a, int b) const {
        const auto& figures = inputs_.machine.gpu_path_gbytes_per_s;
        const auto row = static_cast<std::size_t>(a), column = static_cast<std::size_t>(b);
        if (row >= figures.size() || column >= figures[row].size()) return std::nullopt;
        const auto known = figures[row][column];
        // Files of strangers hold any number.
        if (!known || !std::isfinite(*known) || *known <= 0) return std::nullopt;
        return std::min(*known, kMostGbytes);
    }

    double own_pcie(int gpu) const {
        const detect::Gpu& facts = at(gpu);
        const bool narrowed = facts.pcie_width_now && facts.pcie_width &&
                              *facts.pcie_width_now > 0 &&
                              *facts.pcie_width_now < *facts.pcie_width;
        return detect::pcie_gbytes_per_s(facts.pcie_generation,
                                         narrowed ? facts.pcie_width_now : facts.pcie_width);
    }

    /// The way over PCIe, whatever else joins the two.
    double over_pcie(int a, int b) const {
        const PathType path = matrix_.path(a, b);
        const double own = std::min(own_pcie(a), own_pcie(b));
        if (is_nvlink(path)) return own;
        if (const auto known = figure(a, b)) {
            const bool told = at(a).pcie_generation && at(b).pcie_generation;
            return told ? std::min(*known, own) : *known;
        }
        return path == PathType::SYS ? std::min(own, kBetweenCpus) : own;
    }

    bool through_root(int a, int b) const {
        return matrix_.acs_redirect(a, b) == detect::AcsRedirect::on ||
               inputs_.machine.software.iommu_translating.value_or(false);
    }

    const Inputs& inputs_;
    const PairMatrix& matrix_;
    TransportSwitches switches_;
};

int tenths(double gbytes_per_s) {
    return static_cast<int>(std::lround(gbytes_per_s * 10));
}

}  // namespace

PairRates::PairRates(int gpus)
    : size_(gpus), rates_(static_cast<std::size_t>(gpus) * static_cast<std::size_t>(gpus), 0) {}

void PairRates::set(int a, int b, int rate) {
    rates_[place(a, b)] = rates_[place(b, a)] = rate;
}

void PairRates::set_links(int a, int b, int rate) {
    if (links_.empty()) links_.assign(rates_.size(), 0);
    links_[place(a, b)] = links_[place(b, a)] = rate;
}

void PairRates::add_way(int a, int b, int third, int rate) {
    ways_.push_back({a, b, third, rate});
}

std::vector<int> PairRates::part_of(const std::vector<int>& matrix,
                                    std::span<const int> gpus) const {
    const std::size_t count = gpus.size();
    std::vector<int> part(count * count, 0);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < count; ++j)
            if (i != j) part[i * count + j] = matrix[place(gpus[i], gpus[j])];
    return part;
}

std::vector<int> PairRates::links_among(std::span<const int> gpus) const {
    return links_.empty() ? std::vector<int>{} : part_of(links_, gpus);
}

std::vector<int> PairRates::among(std::span<const int> gpus) const {
    const std::size_t count = gpus.size();
    std::vector<int> rates = part_of(rates_, gpus);
    if (ways_.empty()) return rates;
    std::vector<int> position(static_cast<std::size_t>(size_), -1);
    for (std::size_t i = 0; i < count; ++i)
        position[static_cast<std::size_t>(gpus[i])] = static_cast<int>(i);
    for (const Way& way : ways_) {
        const int a = position[static_cast<std::size_t>(way.a)];
        const int b = position[static_cast<std::size_t>(way.b)];
        if (a < 0 || b < 0 || position[static_cast<std::size_t>(way.third)] < 0) continue;
        const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
        const int rate = std::max(rates[x * count + y], way.rate);
        rates[x * count + y] = rates[y * count + x] = rate;
    }
    return rates;
}

namespace {

/// No GPU has more NVLinks than this (NCCL src/graph/topo.h); more together are those to a switch,
/// counted once for each partner.
constexpr int kMostLinks = 18;

bool has_switches(const Inputs& inputs, const PairMatrix& matrix) {
    if (inputs.machine.nvswitch) return true;
    const int size = static_cast<int>(inputs.machine.gpus.size());
    for (int a = 0; a < size; ++a) {
        int links = 0;
        for (int b = 0; b < size; ++b)
            if (a != b) links += matrix.links(a, b);
        if (links > kMostLinks) return true;
    }
    return false;
}

}  // namespace

std::optional<PairRates> estimate_pair_rates(const Inputs& inputs, int ranks) {
    const PairMatrix matrix(inputs.machine);
    const int size = static_cast<int>(inputs.machine.gpus.size());
    if (!matrix.known()) return std::nullopt;
    const Estimate estimate(inputs, matrix, ranks);
    const bool switches = has_switches(inputs, matrix);
    PairRates rates(size);
    for (int a = 0; a < size; ++a)
        for (int b = a + 1; b < size; ++b) {
            if (!is_known(matrix.path(a, b))) return std::nullopt;
            const int rate = tenths(estimate.pair(a, b));
            rates.set(a, b, rate);
            if (!switches && estimate.goes_direct(a, b)) rates.set_links(a, b, rate);
            if (!estimate.goes_through_third(a, b)) continue;
            for (int third = 0; third < size; ++third)
                if (third != a && third != b && matrix.direct_nvlink(a, third) &&
                    matrix.direct_nvlink(third, b))
                    rates.add_way(a, b, third,
                                  tenths(std::min(estimate.over_links(a, third),
                                                  estimate.over_links(third, b))));
        }
    return rates;
}

std::string rate_text(long long rate) {
    return rate % 10 == 0 ? fmt::format("{} GB/s", rate / 10)
                          : fmt::format("{}.{} GB/s", rate / 10, rate % 10);
}

}  // namespace toporun::env
