#pragma once

#include <cstdint>

/// The log lines of NCCL 2.28.9 that ring_allreduce writes, after "NCCL INFO " or "NCCL WARN ". A
/// `{}` stands for one word, `{...}` for the rest of the line. tests/launcher/profiler compares
/// each with lines that the library itself wrote.
namespace ring_allreduce {

/// Bits of NCCL_DEBUG_SUBSYS (NCCL src/include/debug.h).
enum Subsystem : std::uint64_t {
    kInit = 0x1,
    kP2p = 0x4,
    kNet = 0x10,
    kEnv = 0x80,
    kBootstrap = 0x1000,
};

/// What `strings` finds in libnccl.so.2, and where a launcher looks for the version.
inline constexpr char kVersionLine[] = "NCCL version 2.28.9+cuda13.0";

struct LogTemplate {
    std::uint64_t subsystems;  ///< printed when one of them is on
    const char* text;
};

inline constexpr LogTemplate kSetByEnvironment = {kEnv, "{} set by environment to {...}"};
inline constexpr LogTemplate kInterfaceSetTo = {kNet, "NCCL_SOCKET_IFNAME set to {...}"};
inline constexpr LogTemplate kBootstrapUsing = {kBootstrap, "Bootstrap: Using {}"};
inline constexpr LogTemplate kNoInterface = {~std::uint64_t{0},
                                             "Bootstrap : no socket interface found"};
inline constexpr LogTemplate kVersion = {~std::uint64_t{0}, kVersionLine};
inline constexpr LogTemplate kNoNetPlugin = {kInit | kNet,
                                             "NET/Plugin: Could not find: libnccl-net.so"};
inline constexpr LogTemplate kSocketUsing = {kInit | kNet, "NET/Socket : Using {...}"};
inline constexpr LogTemplate kNetInitialized = {kInit | kNet, "Initialized NET plugin Socket"};
inline constexpr LogTemplate kNetAssigned = {kInit | kNet, "Assigned NET plugin Socket to comm"};
inline constexpr LogTemplate kUsingNetwork = {kInit | kNet, "Using network Socket"};
inline constexpr LogTemplate kInitStart = {
    kInit,
    "ncclCommInitRank comm {} rank {} nranks {} cudaDev {} nvmlDev {} busId {} commId {} - Init "
    "START"};
inline constexpr LogTemplate kInitComplete = {
    kInit,
    "ncclCommInitRank comm {} rank {} nranks {} cudaDev {} nvmlDev {} busId {} commId {} - Init "
    "COMPLETE"};
inline constexpr LogTemplate kCommShape = {
    kInit, "comm {} rank {} nRanks {} nNodes {} localRanks {} localRank {} MNNVL 0"};
inline constexpr LogTemplate kRingOrder = {kInit, "Channel {} : {...}"};
inline constexpr LogTemplate kNoProfiler = {kInit,
                                            "PROFILER/Plugin: Could not find: libnccl-profiler.so"};
inline constexpr LogTemplate kProfilerLoaded = {kInit, "PROFILER/Plugin: Loaded {} ({})"};
inline constexpr LogTemplate kProfilerFile = {kInit,
                                              "Successfully loaded external profiler plugin {...}"};
inline constexpr LogTemplate kProfilerClosing = {kInit,
                                                 "PROFILER/Plugin: Closing profiler plugin {...}"};
inline constexpr LogTemplate kViaShm = {kInit | kP2p,
                                        "Channel {} : {} -> {} via SHM/direct/direct"};
inline constexpr LogTemplate kViaNet = {kInit | kNet,
                                        "Channel {} : {} -> {} [send] via NET/Socket/0"};
inline constexpr LogTemplate kConnectedRings = {kInit, "Connected all rings, use ring PXN 0 GDR 1"};
inline constexpr LogTemplate kDestroyComplete = {
    kInit, "comm {} rank {} nranks {} cudaDev {} busId {} - Destroy COMPLETE"};

inline constexpr const LogTemplate* kLogTemplates[] = {
    &kSetByEnvironment, &kInterfaceSetTo, &kBootstrapUsing,  &kNoInterface, &kVersion,
    &kNoNetPlugin,      &kSocketUsing,    &kNetInitialized,  &kNetAssigned, &kUsingNetwork,
    &kInitStart,        &kInitComplete,   &kCommShape,       &kRingOrder,   &kNoProfiler,
    &kProfilerLoaded,   &kProfilerFile,   &kProfilerClosing, &kViaShm,      &kViaNet,
    &kConnectedRings,   &kDestroyComplete};

}  // namespace ring_allreduce
