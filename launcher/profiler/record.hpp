#pragma once

#include <stddef.h>
#include <stdint.h>

/// The ring file: what the profiler plugin writes and toporun reads, on one machine, while it is
/// written. Plain structs of fixed width in the byte order of the machine; the plugin changes them
/// through atomic stores only. Layout, growth and publication: docs/profiler-record.md.
namespace toporun::profiler {

/// "TOPORING" as it lies in the file of a little-endian machine.
inline constexpr uint64_t kRingMagic = 0x474e49524f504f54u;

/// Grows by one when fields are added. A reader accepts every version from 1 up, takes the sizes
/// from the header and ignores bytes it does not know; an incompatible change gets another magic.
inline constexpr uint32_t kRingVersion = 1;

/// What the plugin reads its orders from: an absolute path, and a number of slots (ring_slots.hpp).
inline constexpr char kDirectoryVariable[] = "TOPORUN_PROFILE_DIR";
inline constexpr char kSlotsVariable[] = "TOPORUN_PROFILE_SLOTS";

inline constexpr uint32_t kDefaultSlots = 16384;  ///< 1 MiB: 160 ms of a collective each 10 us
inline constexpr uint32_t kMinimumSlots = 64;
inline constexpr uint32_t kMaximumSlots = 1u << 20;  ///< 64 MiB, the budget of a whole node
inline constexpr uint32_t kCommunicatorCapacity = 512;

/// `Record::communicator` of an operation whose communicator has no entry in the table.
inline constexpr uint16_t kNoCommunicator = 0xffff;
inline constexpr uint8_t kUnknownCode = 0xff;

/// NCCL's own numbers (nccl src/include/device.h, nccl.h); kUnknownCode for a name it does not
/// list.
enum Function : uint8_t {
    kBroadcast = 0,
    kReduce = 1,
    kAllGather = 2,
    kReduceScatter = 3,
    kAllReduce = 4,
    kSendRecv = 5,
    kSend = 6,
    kRecv = 7,
    kAllToAll = 8,
    kScatter = 9,
    kGather = 10,
    kAllGatherV = 11
};
enum Datatype : uint8_t {
    kInt8 = 0,
    kUint8 = 1,
    kInt32 = 2,
    kUint32 = 3,
    kInt64 = 4,
    kUint64 = 5,
    kFloat16 = 6,
    kFloat32 = 7,
    kFloat64 = 8,
    kBfloat16 = 9,
    kFloat8e4m3 = 10,
    kFloat8e5m2 = 11
};
enum Algorithm : uint8_t {
    kTree = 0,
    kRing = 1,
    kCollNetDirect = 2,
    kCollNetChain = 3,
    kNvls = 4,
    kNvlsTree = 5,
    kPat = 6
};
enum Protocol : uint8_t { kLL = 0, kLL128 = 1, kSimple = 2 };

/// Start of the file. Written before the file can be seen as valid: `magic` is stored last.
struct RingHeader {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;           ///< from the start of the file to the communicator table
    uint32_t communicator_bytes;     ///< of one entry of the table
    uint32_t communicator_capacity;  ///< entries
    uint32_t record_bytes;           ///< of one record
    uint32_t slots;                  ///< records, a power of two
    uint32_t abi;                    ///< version of the plugin interface that NCCL chose: 4, 5
    int32_t rank;                    ///< of the first communicator, which is usually the world
    uint32_t restart;                ///< TORCHELASTIC_RESTART_COUNT, 0 without
    uint32_t pid;                    ///< in the PID namespace of the process
    uint64_t monotonic_ns;           ///< CLOCK_MONOTONIC when the file was made
    uint64_t realtime_ns;            ///< CLOCK_REALTIME at the same moment
    uint32_t communicators;          ///< entries in use; stored with release
    uint32_t communicators_refused;  ///< communicators that found the table full
    uint8_t reserved0[56];
    uint64_t next_ticket;  ///< operations begun so far; the only contended word
    uint8_t reserved1[56];
    uint64_t stale;  ///< stamps of operations whose record had been overwritten
    uint8_t reserved2[56];
};

enum CommunicatorState : uint32_t { kCommunicatorActive = 1, kCommunicatorFinalized = 2 };

struct RingCommunicator {
    uint64_t id;  ///< equal on all ranks of the communicator
    int32_t rank;
    int32_t ranks;
    int32_t nodes;
    uint32_t state;  ///< CommunicatorState
    char name[32];   ///< cut to fit, always ends in NUL
    uint8_t reserved[8];
};

/// One operation on one GPU. `word` tells what the rest is:
///   0                never used
///   2 * ticket + 1   being filled: stamps of some channels are missing
///   2 * ticket + 2   complete, and not touched again until the slot is reused
/// The operation with ticket t lies in slot t % slots.
struct Record {
    uint64_t word;
    uint64_t sequence;  ///< NCCL's seqNumber of (communicator, function); 0 for send and receive
    uint64_t count;     ///< elements, as NCCL passes them
    uint64_t start_ns;  ///< GPU clock, smallest over the channels; UINT64_MAX = none yet
    uint64_t stop_ns;   ///< GPU clock, largest over the channels; 0 = none yet
    uint16_t communicator;  ///< position in the table
    uint8_t function;
    uint8_t datatype;
    uint8_t algorithm;
    uint8_t protocol;
    uint8_t channels;  ///< expected
    uint8_t channels_begun;
    uint8_t channels_ended;
    uint8_t reserved0[3];
    int32_t peer;  ///< of send and receive, root of a collective; -1 = none
    uint8_t reserved1[8];
};

static_assert(sizeof(RingHeader) == 256 && offsetof(RingHeader, next_ticket) == 128);
static_assert(offsetof(RingHeader, stale) == 192 && offsetof(RingHeader, monotonic_ns) == 48);
static_assert(sizeof(RingCommunicator) == 64 && offsetof(RingCommunicator, name) == 24);
static_assert(sizeof(Record) == 64 && offsetof(Record, communicator) == 40);
static_assert(offsetof(Record, peer) == 52);

/// Where the parts of a file made by this version lie, in bytes.
inline constexpr size_t kTableOffset = sizeof(RingHeader);
inline constexpr size_t kRecordsOffset =
    kTableOffset + kCommunicatorCapacity * sizeof(RingCommunicator);
inline constexpr size_t ring_bytes(uint32_t slots) {
    return kRecordsOffset + static_cast<size_t>(slots) * sizeof(Record);
}

}  // namespace toporun::profiler
