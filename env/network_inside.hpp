#pragma once

#include <vector>

#include "env/matrix.hpp"

namespace toporun::env {

struct Inputs;

/// Pairs that NCCL 2.14 and later join over the network although they share a host: both GPUs reach
/// adapters below their own PCIe switches (PXB at most) with more bandwidth than each other
/// (ncclTopoCheckNet in NCCL src/graph/paths.cc). Square over Machine::gpus, symmetric; empty when
/// there is no such pair among `gpus`, the job's GPUs. Only RDMA adapters count, on jobs of one
/// node too (checked with NCCL 2.28.9 over virtual GPUs).
std::vector<std::vector<bool>> network_pairs(const Inputs& inputs, const PairMatrix& matrix,
                                             const std::vector<int>& gpus);

}  // namespace toporun::env
