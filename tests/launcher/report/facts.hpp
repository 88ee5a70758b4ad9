#pragma once

#include "launcher/report/run_facts.hpp"

/// Composed runs. Figures are invented.
namespace toporun::tests {

/// Eight H100 behind NVSwitch under torchrun, ring over NVLink, in flight above the limit, rank 5
/// late.
launcher::RunFacts eight_gpu_run();

/// Four ranks of a CPU program under mpirun that behaves as NCCL does, below the limit.
launcher::RunFacts ring_run();

/// A plain program that never started NCCL, on a machine without a GPU.
launcher::RunFacts plain_run();

/// eight_gpu_run() with escape sequences, line ends and invalid UTF-8 in every foreign text.
launcher::RunFacts hostile_run();

}  // namespace toporun::tests
