#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "launcher/profiler/nccl_abi.hpp"
#include "nccl_log.hpp"

namespace ring_allreduce {

/// CLOCK_MONOTONIC in nanoseconds: what stands in for a GPU's global timer.
std::uint64_t now_ns();

struct CommunicatorShape {
    std::uint64_t id = 0;
    int nodes = 1;
    int ranks = 1;
    int rank = 0;
};

/// Loads a profiler plugin as NCCL 2.28 does (NCCL_PROFILER_PLUGIN; ncclProfiler_v5, then _v4) and
/// calls it in NCCL's order: API, group and collective events from the caller's thread,
/// kernel-channel events from a progress thread. Without a plugin, or with an empty event mask, it
/// calls nothing.
class ProfilerHost {
  public:
    ProfilerHost(Log& log, const CommunicatorShape& shape);
    ~ProfilerHost();
    ProfilerHost(const ProfilerHost&) = delete;
    ProfilerHost& operator=(const ProfilerHost&) = delete;

    /// A collective was enqueued. The result goes into `channel`.
    void* collective(std::uint64_t sequence, std::size_t count, int channels);
    /// The kernel of a channel ran from `start_ns` to `stop_ns`.
    void channel(void* parent, int channel, std::uint64_t start_ns, std::uint64_t stop_ns);

  private:
    struct Kernel {
        void* parent;
        int channel;
        std::uint64_t start_ns, stop_ns;
    };
    void load(Log& log);
    void* open(const std::string& name, std::string& file) const;
    void* collective_v4(std::uint64_t sequence, std::size_t count, int channels);
    void* collective_v5(std::uint64_t sequence, std::size_t count, int channels);
    template <typename Table, typename Descriptor>
    void report(const Table& table, const Kernel& kernel);
    void progress();

    Log& log_;
    CommunicatorShape shape_;
    void* library_ = nullptr;
    const toporun::profiler::ProfilerV4* v4_ = nullptr;
    const toporun::profiler::ProfilerV5* v5_ = nullptr;
    void* context_ = nullptr;
    int mask_ = 0;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Kernel> queue_;
    bool ending_ = false;
    std::thread progress_;
};

}  // namespace ring_allreduce
