#pragma once

#include <string_view>

namespace toporun::launcher::failures {

/// An out-of-memory text of PyTorch (c10/cuda/CUDACachingAllocator.cpp, 1.12 to 2.8) of which the
/// figures say that the memory was there, in pieces: PyTorch holds more than it uses by what was
/// asked for, and by a quarter of what it uses.
bool tells_fragmentation(std::string_view text);

}  // namespace toporun::launcher::failures
