#pragma once

#include <optional>
#include <span>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// What each two GPUs of a machine could exchange, one direction, in tenths of GB/s; symmetric,
/// indexed by position in Machine::gpus. Estimates that rank sets and orders of GPUs.
class PairRates {
  public:
    explicit PairRates(int gpus);

    int size() const { return size_; }
    void set(int a, int b, int rate);
    /// Without ways through a third GPU.
    int direct(int a, int b) const { return rates_[place(a, b)]; }
    /// NVLinks that belong to the pair alone, as on boards without NVSwitch: rings and trees over
    /// different links run at a time. Elsewhere all traffic of a GPU shares one port.
    void set_links(int a, int b, int rate);
    bool has_links() const { return !links_.empty(); }
    /// NVLink through a third GPU: counts only where that one is in the job too, for NCCL knows no
    /// others.
    void add_way(int a, int b, int third, int rate);
    /// The rates of a job over `gpus`: row-major, gpus.size() squared, 0 on the diagonal.
    std::vector<int> among(std::span<const int> gpus) const;
    /// The links of their own alone; empty when there are none.
    std::vector<int> links_among(std::span<const int> gpus) const;

  private:
    struct Way {
        int a, b, third, rate;
    };
    std::size_t place(int a, int b) const {
        return static_cast<std::size_t>(a) * static_cast<std::size_t>(size_) +
               static_cast<std::size_t>(b);
    }
    std::vector<int> part_of(const std::vector<int>& matrix, std::span<const int> gpus) const;
    int size_;
    std::vector<int> rates_;
    std::vector<int> links_;  ///< empty: no pair has links of its own
    std::vector<Way> ways_;
};

/// The rates in a job with `ranks` GPUs of this host; nothing when a pair's path is not known.
///
/// P2P: the bandwidth of the path by NCCL's constants (src/graph/topo.h), between Intel root ports
/// 5/6 of it (topo.h, INTEL_P2P_OVERHEAD). Through shared memory half of the PCIe way, for the data
/// crosses host memory twice; a tenth through the network stack; 0 where NCCL would stop. P2P over
/// PCIe that access control or a translating IOMMU sends through the root complex counts as shared
/// memory. Where a figure is not known: NCCL's own assumption (generation 3, 16 lanes, NVLinks of
/// compute capability 80), between CPUs 10 GB/s. A card that trained down to fewer lanes has those
/// lanes only.
std::optional<PairRates> estimate_pair_rates(const Inputs& inputs, int ranks);

/// "24 GB/s", "7.5 GB/s": of a rate in tenths.
std::string rate_text(long long rate);

}  // namespace toporun::env
