#pragma once

#include <cstddef>

/// The part of NVML's public C interface that toporun calls, declared here because nvml.h is in a
/// package of its own that is often absent. Sizes are those of nvml.h on LP64 (CUDA 12 and 13).
namespace toporun::detect::nvml {

using Result = int;
using Device = void*;

inline constexpr Result kSuccess = 0;
inline constexpr unsigned kMostLinks = 18;  ///< NVML_NVLINK_MAX_LINKS
inline constexpr int kP2pRead = 0;          ///< nvmlGpuP2PCapsIndex_t
inline constexpr int kP2pWrite = 1;
inline constexpr int kP2pOk = 0;  ///< nvmlGpuP2PStatus_t

struct PciInfo {
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char bus_id[32];  ///< "00000000:18:00.0", capitals
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
static_assert(sizeof(Memory) == 24);

/// Function pointers, named as the symbols. The first five are required, the rest may be null:
/// older drivers lack them.
struct Functions {
    Result (*nvmlInit_v2)();
    const char* (*nvmlErrorString)(Result);
    Result (*nvmlDeviceGetCount_v2)(unsigned*);
    Result (*nvmlDeviceGetHandleByIndex_v2)(unsigned, Device*);
    Result (*nvmlDeviceGetPciInfo_v3)(Device, PciInfo*);

    Result (*nvmlSystemGetDriverVersion)(char*, unsigned);
    Result (*nvmlDeviceGetName)(Device, char*, unsigned);
    Result (*nvmlDeviceGetUUID)(Device, char*, unsigned);
    Result (*nvmlDeviceGetMemoryInfo)(Device, Memory*);
    Result (*nvmlDeviceGetMigMode)(Device, unsigned* current, unsigned* pending);
    Result (*nvmlDeviceGetCudaComputeCapability)(Device, int* major, int* minor);
    Result (*nvmlDeviceGetGpuMaxPcieLinkGeneration)(Device, unsigned*);
    Result (*nvmlDeviceGetMaxPcieLinkGeneration)(Device, unsigned*);
    Result (*nvmlDeviceGetMaxPcieLinkWidth)(Device, unsigned*);
    Result (*nvmlDeviceGetNvLinkState)(Device, unsigned link, int* active);
    Result (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(Device, unsigned link, PciInfo*);
    Result (*nvmlDeviceGetP2PStatus)(Device, Device, int index, int* status);
    Result (*nvmlDeviceGetTopologyCommonAncestor)(Device, Device, int* level);
};

}  // namespace toporun::detect::nvml
