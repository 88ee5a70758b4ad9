#pragma once

#include <stddef.h>
#include <stdint.h>

/// What NCCL's profiler interface looks like in memory (NCCL
/// plugins/profiler/example/nccl/profiler_v4.h and _v5.h), declared anew: only what the plugin
/// reads, at the offsets of LP64 machines. Another version is another descriptor type beside these
/// and a row in plugin.cpp.
namespace toporun::profiler {

enum EventType : uint64_t {
    kGroupEvent = 1,
    kCollEvent = 2,
    kP2pEvent = 4,
    kKernelChannelEvent = 64,
    kGroupApiEvent = 256,
    kCollApiEvent = 512,
};

/// Arguments of record_event_state (ncclProfilerEventState_v5_t).
inline constexpr int kKernelChannelStop = 22;
inline constexpr int kGroupStartApiStop = 23;
inline constexpr int kGroupEndApiStart = 24;

struct CollEvent {  // the same in v4, v5 and v6 as far as it is read
    uint64_t sequence;
    const char* function;
    const void* send_buffer;
    void* receive_buffer;
    size_t count;
    int root;
    const char* datatype;
    uint8_t channels;
    uint8_t warps;
    const char* algorithm;
    const char* protocol;
};

struct P2pEvent {
    const char* function;
    void* buffer;
    const char* datatype;
    size_t count;
    int peer;
    uint8_t channels;
};

struct GroupApiEvent {
    bool graph_captured;
    int depth;
};

struct CollApiEvent {
    const char* function;
    size_t count;
    const char* datatype;
    int root;
    void* stream;
    bool graph_captured;
};

struct KernelChannelEvent {
    uint8_t channel;
    uint64_t gpu_ns;
};

/// ncclProfilerEventDescr_v4_t: the type is one byte.
struct DescriptorV4 {
    uint8_t type;
    void* parent;
    int rank;
    union {
        CollEvent coll;
        P2pEvent p2p;
        KernelChannelEvent kernel_channel;
        uint8_t size[80];
    };
};

/// ncclProfilerEventDescr_v5_t: the type is a word, and there is a parent group at the end.
struct DescriptorV5 {
    uint64_t type;
    void* parent;
    int rank;
    union {
        CollEvent coll;
        P2pEvent p2p;
        KernelChannelEvent kernel_channel;
        GroupApiEvent group_api;
        CollApiEvent coll_api;
        uint8_t size[88];
    };
};

union StateArguments {
    uint64_t kernel_channel_ns;
    void* data;
};

/// ncclDebugLogger_t; its enums are int.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

using InitV4 = int (*)(void** context, int* mask, const char* name, uint64_t id, int nodes,
                       int ranks, int rank, Logger logger);
using InitV5 = int (*)(void** context, uint64_t id, int* mask, const char* name, int nodes,
                       int ranks, int rank, Logger logger);

/// ncclProfiler_vN_t: name, then five functions.
template <typename Init, typename Descriptor>
struct ProfilerTable {
    const char* name;
    Init init;
    int (*start_event)(void* context, void** handle, Descriptor* descriptor);
    int (*stop_event)(void* handle);
    int (*record_event_state)(void* handle, int state, StateArguments* arguments);
    int (*finalize)(void* context);
};
using ProfilerV4 = ProfilerTable<InitV4, DescriptorV4>;
using ProfilerV5 = ProfilerTable<InitV5, DescriptorV5>;

template <typename Descriptor>
constexpr bool has_layout(size_t size) {
    return sizeof(Descriptor) == size && offsetof(Descriptor, parent) == 8 &&
           offsetof(Descriptor, rank) == 16 && offsetof(Descriptor, coll) == 24 &&
           offsetof(Descriptor, p2p) == 24 && offsetof(Descriptor, kernel_channel) == 24;
}
static_assert(has_layout<DescriptorV4>(104) && has_layout<DescriptorV5>(112));
static_assert(offsetof(CollEvent, function) == 8 && offsetof(CollEvent, count) == 32);
static_assert(offsetof(CollEvent, root) == 40 && offsetof(CollEvent, datatype) == 48);
static_assert(offsetof(CollEvent, channels) == 56 && offsetof(CollEvent, algorithm) == 64);
static_assert(offsetof(CollEvent, protocol) == 72 && sizeof(CollEvent) == 80);
static_assert(offsetof(P2pEvent, datatype) == 16 && offsetof(P2pEvent, count) == 24);
static_assert(offsetof(P2pEvent, peer) == 32 && offsetof(P2pEvent, channels) == 36);
static_assert(offsetof(KernelChannelEvent, gpu_ns) == 8 && offsetof(GroupApiEvent, depth) == 4);
static_assert(offsetof(CollApiEvent, stream) == 32 && offsetof(CollApiEvent, root) == 24);
static_assert(sizeof(StateArguments) == 8 && sizeof(ProfilerV5) == 48 && sizeof(int) == 4);

}  // namespace toporun::profiler
