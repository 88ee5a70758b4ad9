#pragma once

#include <optional>
#include <string>

namespace toporun::detect {

/// Name of an NVIDIA GPU's architecture by its compute capability (major * 10 + minor): "Hopper"
/// for 90; "" for one that is not known. Source: NVIDIA's list of CUDA GPUs and its compute
/// capabilities in the CUDA programming guide.
std::string nvidia_architecture(int compute_capability);

/// The same by NVML's number (NVML_DEVICE_ARCH_* of nvml.h); "" for one that is not known.
std::string nvml_architecture(int number);

/// NVLink generation that GPUs of a compute capability have: 4 for 90; nothing when unknown.
std::optional<int> nvlink_generation(int compute_capability);

/// Name of an AMD GPU's instruction set, as compilers want it, by KFD's gfx_target_version
/// (major * 10000 + minor * 100 + stepping): "gfx942" for 90402, "gfx90a" for 90010; "" for no
/// version.
std::string amd_architecture(long long gfx_target_version);

}  // namespace toporun::detect
