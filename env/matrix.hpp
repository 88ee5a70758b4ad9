#pragma once

#include <optional>

#include "detect/machine.hpp"

namespace toporun::env {

/// The GPU x GPU facts of a machine, read with care: a matrix of the wrong size counts as unknown,
/// of two directions that differ the worse one holds. Positions outside the matrices are unknown
/// too.
class PairMatrix {
  public:
    explicit PairMatrix(const detect::Machine& machine);

    bool known() const { return paths_known_; }  ///< the paths are
    /// SYS when unknown.
    detect::PathType path(int a, int b) const;
    detect::PeerAccess peer_access(int a, int b) const;
    /// On when either direction says so, off when both do.
    detect::AcsRedirect acs_redirect(int a, int b) const;
    /// The driver gives the pair NVLink of its own (or through NVSwitch), and neither the link
    /// counts nor the P2P status contradict.
    bool direct_nvlink(int a, int b) const;
    /// One of the two is split into MIG instances, between which there is no P2P.
    bool mig(int a, int b) const;
    int links(int a, int b) const;  ///< 0 when unknown
    /// Whether NVLink joins the two is known: by their path, or because links were looked for.
    bool links_told(int a, int b) const;
    /// By NCCL's constants, one direction, the slower of the two; nothing when unknown.
    std::optional<double> path_gbytes_per_s(int a, int b) const;

  private:
    const detect::Machine& machine_;
    bool paths_known_ = false;
    bool access_known_ = false;
    bool redirect_known_ = false;
    bool bandwidth_known_ = false;
    bool links_known_ = false;  ///< and some pair has one
};

}  // namespace toporun::env
