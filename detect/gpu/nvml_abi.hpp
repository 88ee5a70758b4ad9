#pragma once

#include <cstddef>

/// The part of NVML's public C interface that toporun calls, declared here because nvml.h is in a
/// package of its own that is often absent. Sizes and numbers are those of nvml.h on LP64 (CUDA 12
/// and 13).
namespace toporun::detect::nvml {

using Result = int;
using Device = void*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidArgument = 2;
inline constexpr Result kNoPermission = 4;  ///< a GPU of others: counted, but not to be asked
inline constexpr unsigned kMostLinks = 36;  ///< NVML_NVLINK_MAX_LINKS of CUDA 13; 18 before
inline constexpr unsigned kOldMostLinks = 18;
inline constexpr int kP2pRead = 0;  ///< nvmlGpuP2PCapsIndex_t
inline constexpr int kP2pWrite = 1;
inline constexpr int kP2pOk = 0;              ///< nvmlGpuP2PStatus_t
inline constexpr int kUncorrectedErrors = 1;  ///< nvmlMemoryErrorType_t
inline constexpr int kVolatileCounter = 0;    ///< nvmlEccCounterType_t: since the driver's start
inline constexpr int kMostComputeMode = 3;    ///< nvmlComputeMode_t

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

/// nvmlValueType_t: what a field's value is.
enum class ValueType : int { real, u32, unsigned_long, u64, i64, i32, u16 };

/// nvmlFieldValue_t. The call succeeds while single fields fail: look at `result` first.
struct FieldValue {
    unsigned field;
    unsigned scope;  ///< the link, for fields of links
    long long timestamp;
    long long latency_us;
    ValueType type;
    Result result;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
        long long i64;
        int i32;
        unsigned short u16;
    } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

// Field numbers, NVML_FI_DEV_*.
inline constexpr unsigned kNvlinkCommonSpeed = 90;  ///< MB/s of all active links
inline constexpr unsigned kNvlinkCount = 91;
inline constexpr unsigned kNvlinkSpeed = 164;  ///< MB/s, scope = link
inline constexpr unsigned kNvlinkState = 165;  ///< 0 inactive, 1 active, 2 asleep; scope = link
inline constexpr unsigned kC2cCount = 170;
inline constexpr unsigned kC2cStatus = 171;    ///< 1 active; scope = link
inline constexpr unsigned kC2cMaxSpeed = 172;  ///< MB/s; scope = link

/// nvmlGpuFabricInfo_t.
struct FabricInfo {
    unsigned char cluster[16];
    Result status;  ///< counts only when the state is kFabricCompleted
    unsigned clique;
    unsigned char state;
};
static_assert(sizeof(FabricInfo) == 28);

/// nvmlGpuFabricInfo_v3_t; version 2 is its first 36 bytes.
struct FabricInfoV {
    unsigned version;  ///< to be set before the call
    unsigned char cluster[16];
    Result status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary;
};
static_assert(sizeof(FabricInfoV) == 40 && offsetof(FabricInfoV, health_summary) == 36);
inline constexpr unsigned kFabricVersion3 = 0x03000028;
inline constexpr unsigned kFabricVersion2 = 0x02000024;
inline constexpr int kFabricCompleted = 3;

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
    Result (*nvmlDeviceGetArchitecture)(Device, unsigned*);
    Result (*nvmlDeviceGetGpuMaxPcieLinkGeneration)(Device, unsigned*);
    Result (*nvmlDeviceGetMaxPcieLinkGeneration)(Device, unsigned*);
    Result (*nvmlDeviceGetMaxPcieLinkWidth)(Device, unsigned*);
    Result (*nvmlDeviceGetCurrPcieLinkGeneration)(Device, unsigned*);
    Result (*nvmlDeviceGetCurrPcieLinkWidth)(Device, unsigned*);
    Result (*nvmlDeviceGetPersistenceMode)(Device, unsigned*);
    Result (*nvmlDeviceGetEccMode)(Device, unsigned* current, unsigned* pending);
    Result (*nvmlDeviceGetComputeMode)(Device, unsigned*);
    Result (*nvmlDeviceGetTotalEccErrors)(Device, int type, int counter, unsigned long long*);
    Result (*nvmlDeviceGetRemappedRows)(Device, unsigned* corrected, unsigned* uncorrected,
                                        unsigned* pending, unsigned* failed);
    Result (*nvmlDeviceGetCurrentClocksEventReasons)(Device, unsigned long long*);
    Result (*nvmlDeviceGetCurrentClocksThrottleReasons)(Device, unsigned long long*);
    Result (*nvmlDeviceGetFieldValues)(Device, int count, FieldValue*);
    Result (*nvmlDeviceGetNvLinkState)(Device, unsigned link, unsigned* active);
    Result (*nvmlDeviceGetNvLinkVersion)(Device, unsigned link, unsigned* version);
    Result (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(Device, unsigned link, PciInfo*);
    Result (*nvmlDeviceGetNvLinkRemoteDeviceType)(Device, unsigned link, unsigned* type);
    Result (*nvmlDeviceGetGpuFabricInfoV)(Device, FabricInfoV*);
    Result (*nvmlDeviceGetGpuFabricInfo)(Device, FabricInfo*);
    Result (*nvmlDeviceGetP2PStatus)(Device, Device, int index, int* status);
    Result (*nvmlDeviceGetTopologyCommonAncestor)(Device, Device, int* level);
};

}  // namespace toporun::detect::nvml
