#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace toporun {

/// A file descriptor that is closed with the scope. Moved, never copied; -1 stands for none.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() { reset(); }
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        reset(other.release());
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    /// Gives the number away without closing it.
    int release() { return std::exchange(fd_, -1); }
    /// Closes what it holds and takes `fd`. errno stays as it was.
    void reset(int fd = -1);

  private:
    int fd_ = -1;
};

/// Whether a file of `bytes` is within the limit of file sizes (ulimit -f). A write beyond it would
/// end the process by SIGXFSZ.
bool file_size_allowed(std::size_t bytes);

/// Closes every descriptor of this process but those in `keep` (any order, -1 and repetitions are
/// fine). For a forked child with one thread: takes no lock and no memory, and errno is undefined
/// afterwards. Where the kernel has no close_range (before Linux 5.9, or a seccomp filter that
/// does not know it) the numbers come from /proc/self/fd; without /proc every number below the
/// soft limit of open files is tried, 1048576 of them at most (the kernel's default fs.nr_open).
void close_descriptors_except(std::span<const int> keep);

}  // namespace toporun
