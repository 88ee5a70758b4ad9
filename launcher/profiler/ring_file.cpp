#include "launcher/profiler/ring_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace toporun::profiler {
namespace {

constexpr int kNameTries = 16;

uint64_t clock_ns(clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

/// The number in the variable, `otherwise` when it is unset or not a plain number.
uint64_t number(const char* variable, uint64_t otherwise) {
    const char* text = getenv(variable);
    if (text == nullptr || *text < '0' || *text > '9') return otherwise;
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0 ? value : otherwise;
}

/// The wanted number of slots, within the bounds, rounded down to a power of two.
uint32_t wanted_slots() {
    const uint64_t wanted = number(kSlotsVariable, kDefaultSlots);
    uint32_t slots = kMinimumSlots;
    while (slots < kMaximumSlots && uint64_t{slots} * 2 <= wanted) slots *= 2;
    return slots;
}

bool size_allowed(size_t bytes) {
    rlimit limit = {};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/// A new file `<rank>.<restart>.<pid>.<4 letters>.ring` in `directory`, -1 without. The letters
/// keep processes of several PID namespaces apart.
int create_file(int directory, int rank, uint32_t restart, char (&name)[96]) {
    uint64_t random = clock_ns(CLOCK_MONOTONIC) ^ reinterpret_cast<uintptr_t>(&random);
    for (int attempt = 0; attempt < kNameTries; ++attempt) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        char letters[5] = {};
        for (int i = 0; i < 4; ++i) {
            letters[i] = static_cast<char>('a' + (random >> (32 + 7 * i)) % 26);
        }
        snprintf(name, sizeof name, "%d.%u.%d.%s.ring", rank, restart, getpid(), letters);
        const int file =
            openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

void* map_file(int file, size_t bytes) {
    int result = EINTR;
    for (int attempt = 0; attempt < kNameTries && result == EINTR; ++attempt) {
        result = posix_fallocate(file, 0, static_cast<off_t>(bytes));
    }
    if (result != 0) return nullptr;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

void fill_header(RingHeader& header, uint32_t slots, uint32_t abi, int rank, uint32_t restart) {
    header.version = kRingVersion;
    header.header_bytes = sizeof(RingHeader);
    header.communicator_bytes = sizeof(RingCommunicator);
    header.communicator_capacity = kCommunicatorCapacity;
    header.record_bytes = sizeof(Record);
    header.slots = slots;
    header.abi = abi;
    header.rank = rank;
    header.restart = restart;
    header.pid = static_cast<uint32_t>(getpid());
    header.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    header.realtime_ns = clock_ns(CLOCK_REALTIME);
    __atomic_store_n(&header.magic, kRingMagic, __ATOMIC_RELEASE);
}

RingMapping create_in(int directory, int rank, uint32_t abi) {
    const uint32_t slots = wanted_slots();
    const size_t bytes = ring_bytes(slots);
    if (!size_allowed(bytes)) return {};
    const uint32_t restart = static_cast<uint32_t>(number("TORCHELASTIC_RESTART_COUNT", 0));
    char name[96];
    const int file = create_file(directory, rank, restart, name);
    if (file < 0) return {};
    void* memory = map_file(file, bytes);
    close(file);
    if (memory == nullptr) {
        unlinkat(directory, name, 0);
        return {};
    }
    char* start = static_cast<char*>(memory);
    RingMapping mapping;
    mapping.header = reinterpret_cast<RingHeader*>(start);
    mapping.table = reinterpret_cast<RingCommunicator*>(start + kTableOffset);
    mapping.records = reinterpret_cast<Record*>(start + kRecordsOffset);
    mapping.slot_mask = slots - 1;
    fill_header(*mapping.header, slots, abi, rank, restart);
    return mapping;
}

}  // namespace

RingMapping create_ring(int rank, uint32_t abi) {
    const char* path = getenv(kDirectoryVariable);
    if (path == nullptr || path[0] != '/') return {};
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return {};
    const RingMapping mapping = create_in(directory, rank, abi);
    close(directory);
    return mapping;
}

}  // namespace toporun::profiler
