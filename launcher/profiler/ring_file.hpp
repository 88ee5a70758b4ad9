#pragma once

#include "launcher/profiler/record.hpp"

namespace toporun::profiler {

/// A ring file mapped for writing, or nothing: `header` is null.
struct RingMapping {
    RingHeader* header = nullptr;
    RingCommunicator* table = nullptr;
    Record* records = nullptr;
    uint64_t slot_mask = 0;
};

/// Creates the ring file of this process, for the directory and size that TOPORUN_PROFILE_DIR and
/// TOPORUN_PROFILE_SLOTS name. All blocks are allocated and all pages mapped before it returns, so
/// that a full disk or a file size limit shows here and never as a signal. Leaves no file behind
/// when it fails.
RingMapping create_ring(int rank, uint32_t abi);

}  // namespace toporun::profiler
