#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace toporun {
namespace {

constexpr rlim_t kMostNumbers = 1048576;

bool contains(std::span<const int> numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

/// Closes `first` to `last`; an empty range is no failure.
bool close_between(unsigned first, unsigned last) {
    return first > last || syscall(SYS_close_range, first, last, 0u) == 0;
}

/// Closes the gaps between the numbers to keep, lowest first.
bool close_by_range(std::span<const int> keep) {
    for (unsigned from = 0;;) {
        unsigned kept = UINT_MAX;
        for (const int fd : keep)
            if (fd >= 0 && static_cast<unsigned>(fd) >= from)
                kept = std::min(kept, static_cast<unsigned>(fd));
        if (kept == UINT_MAX) return close_between(from, UINT_MAX);
        if (kept > 0 && !close_between(from, kept - 1)) return false;
        from = kept + 1;
    }
}

/// /proc/self/fd, -1 without it. When no number is left for it, one that is closed anyway makes
/// room.
int open_list(std::span<const int> keep) {
    for (int victim = 0;; ++victim) {
        const int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (list >= 0 || errno != EMFILE) return list;
        while (contains(keep, victim)) ++victim;
        if (close(victim) != 0 && errno == EBADF) return -1;
    }
}

/// The kernel's struct linux_dirent64 (getdents64(2)); readdir would take memory.
struct Entry {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
};

/// Closes what the directory lists. An entry's place in /proc/self/fd follows from its number, so
/// that closing while reading skips none.
bool close_by_list(std::span<const int> keep) {
    const int list = open_list(keep);
    if (list < 0) return false;
    alignas(Entry) char buffer[4096];
    for (;;) {
        const long size = syscall(SYS_getdents64, list, buffer, sizeof(buffer));
        if (size <= 0) {
            close(list);
            return size == 0;
        }
        for (long at = 0; at < size;) {
            const char* const entry = buffer + at;
            unsigned short length = 0;
            std::memcpy(&length, entry + offsetof(Entry, size), sizeof(length));
            const char* const name = entry + offsetof(Entry, name);
            int fd = -1;
            const auto [end, error] = std::from_chars(name, name + std::strlen(name), fd);
            if (error == std::errc() && *end == '\0' && fd != list && !contains(keep, fd))
                close(fd);
            at += length;
        }
    }
}

void close_by_number(std::span<const int> keep) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = kMostNumbers;
    const int end = static_cast<int>(std::min(limit.rlim_cur, kMostNumbers));
    for (int fd = 0; fd < end; ++fd)
        if (!contains(keep, fd)) close(fd);
}

}  // namespace

void Descriptor::reset(int fd) {
    const int before = std::exchange(fd_, fd);
    if (before < 0) return;
    const int error = errno;
    close(before);
    errno = error;
}

void close_descriptors_except(std::span<const int> keep) {
    if (close_by_range(keep) || close_by_list(keep)) return;
    close_by_number(keep);
}

bool file_size_allowed(std::size_t bytes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return true;
    return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace toporun
