/// libtoporun-nccl.so: the profiler plugin, the only code of toporun inside the training process.
///
/// It notes for each collective, send and receive when its kernel began and ended on the GPU
/// (kernel-channel stamps) in a ring file that toporun reads from outside. On the path of a
/// callback there is no lock, no allocation and no system call; an operation costs one atomic
/// addition, everything else is a plain store. Handles and contexts are numbers, never followed as
/// pointers: one of another process (PXN), of an overwritten record or of nothing at all is
/// recognised and ignored.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "launcher/profiler/codes.hpp"
#include "launcher/profiler/nccl_abi.hpp"
#include "launcher/profiler/record.hpp"
#include "launcher/profiler/ring_file.hpp"

namespace toporun::profiler {
namespace {

constexpr int kEventMask = kCollEvent | kP2pEvent | kKernelChannelEvent;

/// A handle is 8 bits of tag and 56 bits of ticket, or of table position for a context.
enum Tag : uint64_t {
    kOperationTag = 0xa1,
    kChannelTag = 0xa2,
    kGroupTag = 0xa3,
    kContextTag = 0xa4,
};
constexpr int kTagShift = 56;
constexpr uint64_t kPayload = (uint64_t{1} << kTagShift) - 1;

void* to_handle(Tag tag, uint64_t payload) {
    return reinterpret_cast<void*>(uint64_t{tag} << kTagShift | (payload & kPayload));
}
uint64_t tag_of(const void* handle) {
    return reinterpret_cast<uint64_t>(handle) >> kTagShift;
}
uint64_t payload_of(const void* handle) {
    return reinterpret_cast<uint64_t>(handle) & kPayload;
}

template <typename T>
T load(const T& from) {
    return __atomic_load_n(&from, __ATOMIC_RELAXED);
}
/// A release store: nothing stored before it can become visible after it. Free on x86-64.
template <typename T>
void publish(T& to, T value) {
    __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

/// The ring of this process. `header` is stored last and read first; null switches every callback
/// off.
struct {
    RingHeader* header;
    RingCommunicator* table;
    Record* records;
    uint64_t slot_mask;
} ring;

pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;  // init only, several may run at once
bool tried = false;                                      // a ring was made, or will not be

/// A forked child has the mapping but not the communicators: it must leave its parent's records
/// alone. If it makes communicators of its own it gets a ring of its own.
void after_fork_in_child() {
    publish(ring.header, static_cast<RingHeader*>(nullptr));
    tried = false;
    pthread_mutex_init(&init_mutex, nullptr);
}

/// Makes the ring at the first communicator. One try a process.
void ensure_ring(int rank, uint32_t abi) {
    if (tried) return;
    tried = true;
    static bool watching_forks = false;
    if (!watching_forks && pthread_atfork(nullptr, nullptr, after_fork_in_child) != 0) return;
    watching_forks = true;
    const RingMapping made = create_ring(rank, abi);
    if (made.header == nullptr) return;
    ring.table = made.table;
    ring.records = made.records;
    ring.slot_mask = made.slot_mask;
    publish(ring.header, made.header);
}

/// The ring if this process made it. Compares the pid for children that no fork handler saw (raw
/// clone).
RingHeader* own_ring() {
    RingHeader* header = __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE);
    return header != nullptr && header->pid == static_cast<uint32_t>(getpid()) ? header : nullptr;
}

/// The position of a new table entry, kNoCommunicator when the table is full.
uint16_t add_communicator(RingHeader& header, uint64_t id, const char* name, int nodes, int ranks,
                          int rank) {
    const uint32_t position = header.communicators;
    if (position >= kCommunicatorCapacity) {
        publish(header.communicators_refused, header.communicators_refused + 1);
        return kNoCommunicator;
    }
    RingCommunicator& entry = ring.table[position];
    entry.id = id;
    entry.rank = rank;
    entry.ranks = ranks;
    entry.nodes = nodes;
    if (name != nullptr) strncpy(entry.name, name, sizeof entry.name - 1);
    publish(entry.state, static_cast<uint32_t>(kCommunicatorActive));
    publish(header.communicators, position + 1);
    return static_cast<uint16_t>(position);
}

/// Never fails: after an error NCCL 2.28 goes on calling the plugin with whatever context was left.
/// The mask is one word of the whole process and is written last; without a ring it stays as it is.
int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
         uint32_t abi) {
    if (context == nullptr || mask == nullptr) return 0;
    *context = to_handle(kContextTag, kNoCommunicator);
    pthread_mutex_lock(&init_mutex);
    ensure_ring(rank, abi);
    RingHeader* header = own_ring();
    if (header != nullptr) {
        const uint16_t position = add_communicator(*header, id, name, nodes, ranks, rank);
        *context = to_handle(kContextTag, position);
        __atomic_fetch_or(mask, kEventMask, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&init_mutex);
    return 0;
}

int init_v4(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks,
            int rank, Logger) {
    return init(context, id, mask, name, nodes, ranks, rank, 4);
}
int init_v5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
            int rank, Logger) {
    return init(context, id, mask, name, nodes, ranks, rank, 5);
}

struct Operation {
    uint64_t sequence;
    uint64_t count;
    int32_t peer;
    uint8_t function, datatype, algorithm, protocol;
    uint8_t channels;
};

/// A thread that was stopped for a whole turn of the ring while it changed a record has changed a
/// newer one: that one is void. Only several GPUs in one process can come to that.
void check_still_open(Record& record, uint64_t ticket) {
    if (load(record.word) != 2 * ticket + 1) publish(record.word, uint64_t{0});
}

/// Takes the next slot and fills it. The word is made odd before anything else changes, so that a
/// reader that saw the slot's former record knows that its copy is void.
uint64_t begin(RingHeader& header, const void* context, const Operation& operation) {
    const uint64_t ticket = __atomic_fetch_add(&header.next_ticket, 1, __ATOMIC_RELAXED);
    Record& record = ring.records[ticket & ring.slot_mask];
    publish(record.word, 2 * ticket + 1);
    publish(record.sequence, operation.sequence);
    publish(record.count, operation.count);
    publish(record.start_ns, ~uint64_t{0});
    publish(record.stop_ns, uint64_t{0});
    publish(record.communicator, tag_of(context) == kContextTag
                                     ? static_cast<uint16_t>(payload_of(context))
                                     : kNoCommunicator);
    publish(record.function, operation.function);
    publish(record.datatype, operation.datatype);
    publish(record.algorithm, operation.algorithm);
    publish(record.protocol, operation.protocol);
    publish(record.channels, operation.channels);
    publish(record.channels_begun, uint8_t{0});
    publish(record.channels_ended, uint8_t{0});
    publish(record.peer, operation.peer);
    check_still_open(record, ticket);
    return ticket;
}

uint64_t begin_coll(RingHeader& header, const void* context, const CollEvent& event) {
    return begin(header, context,
                 {event.sequence, event.count, event.root, function_code(event.function),
                  datatype_code(event.datatype), algorithm_code(event.algorithm),
                  protocol_code(event.protocol), event.channels});
}

uint64_t begin_p2p(RingHeader& header, const void* context, const P2pEvent& event) {
    return begin(header, context,
                 {0, event.count, event.peer, function_code(event.function),
                  datatype_code(event.datatype), kUnknownCode, kUnknownCode, event.channels});
}

/// The record with this ticket while it is being filled; null when it is complete or overwritten.
/// One thread, the progress thread of the communicator, changes a record from here on.
Record* open_record(uint64_t ticket) {
    Record& record = ring.records[ticket & ring.slot_mask];
    return load(record.word) == 2 * ticket + 1 ? &record : nullptr;
}

void count_stale(RingHeader& header) {
    __atomic_fetch_add(&header.stale, 1, __ATOMIC_RELAXED);  // rare
}

void* begin_channel(RingHeader& header, const void* context, const void* parent,
                    const KernelChannelEvent& event) {
    uint64_t ticket;
    if (tag_of(parent) == kOperationTag) {
        ticket = payload_of(parent);
    } else {  // NCCL does not know the operation: its time counts all the same
        ticket = begin(header, context,
                       {0, 0, -1, kUnknownCode, kUnknownCode, kUnknownCode, kUnknownCode, 1});
    }
    Record* record = open_record(ticket);
    if (record == nullptr) {
        count_stale(header);
        return nullptr;
    }
    if (event.gpu_ns < load(record->start_ns)) publish(record->start_ns, event.gpu_ns);
    publish(record->channels_begun, static_cast<uint8_t>(load(record->channels_begun) + 1));
    check_still_open(*record, ticket);
    return to_handle(kChannelTag, ticket);
}

template <typename Descriptor>
void* start(RingHeader& header, const void* context, const Descriptor& event) {
    switch (event.type) {
        case kKernelChannelEvent:
            return begin_channel(header, context, event.parent, event.kernel_channel);
        case kCollEvent:
            return to_handle(kOperationTag, begin_coll(header, context, event.coll));
        case kP2pEvent:  // a rank's message to itself is a copy: it has no kernel channel
            if (event.p2p.peer == event.rank) return nullptr;
            return to_handle(kOperationTag, begin_p2p(header, context, event.p2p));
        // NCCL up to 2.27 sends no Coll and no P2p event below a group without a handle.
        case kGroupEvent:
            return sizeof(Descriptor) == sizeof(DescriptorV4) ? to_handle(kGroupTag, 0) : nullptr;
        default:
            return nullptr;
    }
}

template <typename Descriptor>
int start_event(void* context, void** handle, Descriptor* descriptor) {
    RingHeader* header = __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE);
    if (handle == nullptr) return 0;
    *handle =
        header == nullptr || descriptor == nullptr ? nullptr : start(*header, context, *descriptor);
    return 0;
}

/// The end of a channel's kernel. Ends of Coll and P2p events say "enqueued" only and are not used.
int stop_event(void* handle) {
    if (tag_of(handle) != kChannelTag) return 0;
    if (__atomic_load_n(&ring.header, __ATOMIC_ACQUIRE) == nullptr) return 0;
    const uint64_t ticket = payload_of(handle);
    Record* record = open_record(ticket);
    if (record == nullptr) return 0;
    const uint8_t ended = static_cast<uint8_t>(load(record->channels_ended) + 1);
    publish(record->channels_ended, ended);
    if (ended >= load(record->channels)) publish(record->word, 2 * ticket + 2);
    return 0;
}

int record_event_state(void* handle, int state, StateArguments* arguments) {
    if (tag_of(handle) != kChannelTag || state != kKernelChannelStop || arguments == nullptr) {
        return 0;
    }
    RingHeader* header = __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE);
    if (header == nullptr) return 0;
    const uint64_t ticket = payload_of(handle);
    Record* record = open_record(ticket);
    if (record == nullptr) {
        count_stale(*header);
        return 0;
    }
    const uint64_t stop_ns = arguments->kernel_channel_ns;
    if (stop_ns > load(record->stop_ns)) {
        publish(record->stop_ns, stop_ns);
        check_still_open(*record, ticket);
    }
    return 0;
}

/// Frees nothing: callbacks of a communicator can come after its finalize (shared progress
/// threads).
int finalize(void* context) {
    RingHeader* header = own_ring();
    if (header == nullptr || tag_of(context) != kContextTag) return 0;
    const uint64_t position = payload_of(context);
    if (position < load(header->communicators)) {
        publish(ring.table[position].state, static_cast<uint32_t>(kCommunicatorFinalized));
    }
    return 0;
}

}  // namespace
}  // namespace toporun::profiler

/// NCCL takes the newest of these data symbols that it knows.
extern "C" {
__attribute__((visibility("default"))) extern const toporun::profiler::ProfilerV4 ncclProfiler_v4;
__attribute__((visibility("default"))) extern const toporun::profiler::ProfilerV5 ncclProfiler_v5;

const toporun::profiler::ProfilerV4 ncclProfiler_v4 = {
    "toporun",
    toporun::profiler::init_v4,
    toporun::profiler::start_event<toporun::profiler::DescriptorV4>,
    toporun::profiler::stop_event,
    toporun::profiler::record_event_state,
    toporun::profiler::finalize};
const toporun::profiler::ProfilerV5 ncclProfiler_v5 = {
    "toporun",
    toporun::profiler::init_v5,
    toporun::profiler::start_event<toporun::profiler::DescriptorV5>,
    toporun::profiler::stop_event,
    toporun::profiler::record_event_state,
    toporun::profiler::finalize};
}
