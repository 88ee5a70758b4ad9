#include "nccl_profiler_host.hpp"

#include <dlfcn.h>
#include <strings.h>
#include <time.h>

#include <chrono>
#include <cstring>

namespace ring_allreduce {

using toporun::profiler::DescriptorV4;
using toporun::profiler::DescriptorV5;
using toporun::profiler::ProfilerV4;
using toporun::profiler::ProfilerV5;
using toporun::profiler::StateArguments;

namespace {

constexpr std::chrono::milliseconds kPollInterval{5};

void no_logger(int, unsigned long, const char*, int, const char*, ...) {}

template <typename Descriptor>
Descriptor descriptor(std::uint64_t type, void* parent, int rank) {
    Descriptor event;
    std::memset(&event, 0, sizeof event);
    event.type = static_cast<decltype(event.type)>(type);
    event.parent = parent;
    event.rank = rank;
    return event;
}

template <typename Descriptor>
Descriptor coll_descriptor(void* parent, int rank, std::uint64_t sequence, std::size_t count,
                           int channels) {
    Descriptor event = descriptor<Descriptor>(toporun::profiler::kCollEvent, parent, rank);
    event.coll.sequence = sequence;
    event.coll.function = "AllReduce";
    event.coll.count = count;
    event.coll.datatype = "ncclFloat32";
    event.coll.channels = static_cast<std::uint8_t>(channels);
    event.coll.warps = 1;
    event.coll.algorithm = "RING";
    event.coll.protocol = "SIMPLE";
    return event;
}

template <typename Table, typename Descriptor>
void* begin(const Table& table, void* context, Descriptor event) {
    void* handle = nullptr;
    table.start_event(context, &handle, &event);
    return handle;
}

template <typename Table>
void end(const Table& table, void* handle) {
    if (handle != nullptr) table.stop_event(handle);
}

}  // namespace

std::uint64_t now_ns() {
    timespec time = {};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(time.tv_nsec);
}

ProfilerHost::ProfilerHost(Log& log, const CommunicatorShape& shape) : log_(log), shape_(shape) {
    load(log);
    if (v5_ != nullptr) {
        v5_->init(&context_, shape.id, &mask_, nullptr, shape.nodes, shape.ranks, shape.rank,
                  no_logger);
    } else if (v4_ != nullptr) {
        v4_->init(&context_, &mask_, nullptr, shape.id, shape.nodes, shape.ranks, shape.rank,
                  no_logger);
    }
    if (mask_ != 0) progress_ = std::thread([this] { progress(); });
}

ProfilerHost::~ProfilerHost() {
    if (progress_.joinable()) {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        wake_.notify_one();
        progress_.join();
    }
    const char* name = nullptr;
    if (v5_ != nullptr) {
        name = v5_->name;
        if (context_ != nullptr) v5_->finalize(context_);
    } else if (v4_ != nullptr) {
        name = v4_->name;
        if (context_ != nullptr) v4_->finalize(context_);
    }
    if (name != nullptr) log_.info(kProfilerClosing, {name});
    if (library_ != nullptr) dlclose(library_);
}

/// As is, then as libnccl-profiler-NAME.so for a bare name. `file` becomes the name that worked.
void* ProfilerHost::open(const std::string& name, std::string& file) const {
    const bool is_static =
        !name.empty() && strncasecmp(name.c_str(), "STATIC_PLUGIN", name.size()) == 0;
    file = name.empty() ? "libnccl-profiler.so" : name;
    if (is_static) return dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const bool bare = !name.empty() && name.find('/') == std::string::npos &&
                      name.find(".so") == std::string::npos;
    if (library != nullptr || !bare) return library;
    file = "libnccl-profiler-" + name + ".so";
    return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void ProfilerHost::load(Log& log) {
    const std::string name = environment("NCCL_PROFILER_PLUGIN");
    log.variable("NCCL_PROFILER_PLUGIN");
    if (strcasecmp(name.c_str(), "none") == 0) return;
    std::string file;
    library_ = open(name, file);
    if (library_ == nullptr) return log.info(kNoProfiler);
    v5_ = static_cast<const ProfilerV5*>(dlsym(library_, "ncclProfiler_v5"));
    if (v5_ == nullptr) v4_ = static_cast<const ProfilerV4*>(dlsym(library_, "ncclProfiler_v4"));
    if (v5_ == nullptr && v4_ == nullptr) return;
    log.info(kProfilerLoaded,
             {v5_ != nullptr ? v5_->name : v4_->name, v5_ != nullptr ? "v5" : "v4"});
    log.info(kProfilerFile, {file});
}

void* ProfilerHost::collective(std::uint64_t sequence, std::size_t count, int channels) {
    if (mask_ == 0) return nullptr;
    return v5_ != nullptr ? collective_v5(sequence, count, channels)
                          : collective_v4(sequence, count, channels);
}

/// NCCL 2.27: a group without a handle has no collectives.
void* ProfilerHost::collective_v4(std::uint64_t sequence, std::size_t count, int channels) {
    void* group =
        begin(*v4_, context_,
              descriptor<DescriptorV4>(toporun::profiler::kGroupEvent, nullptr, shape_.rank));
    if (group == nullptr) return nullptr;
    void* coll =
        begin(*v4_, context_,
              coll_descriptor<DescriptorV4>(group, shape_.rank, sequence, count, channels));
    end(*v4_, coll);
    end(*v4_, group);
    return coll;
}

/// NCCL 2.28: the call's events, then those of the launch below them.
void* ProfilerHost::collective_v5(std::uint64_t sequence, std::size_t count, int channels) {
    namespace abi = toporun::profiler;
    DescriptorV5 event = descriptor<DescriptorV5>(abi::kGroupApiEvent, nullptr, shape_.rank);
    event.group_api.depth = 1;
    void* group_api = begin(*v5_, context_, event);
    if (group_api != nullptr) v5_->record_event_state(group_api, abi::kGroupStartApiStop, nullptr);
    event = descriptor<DescriptorV5>(abi::kCollApiEvent, group_api, shape_.rank);
    event.coll_api = {"AllReduce", count, "ncclFloat32", 0, nullptr, false};
    void* coll_api = begin(*v5_, context_, event);
    end(*v5_, coll_api);
    if (group_api != nullptr) v5_->record_event_state(group_api, abi::kGroupEndApiStart, nullptr);
    void* group =
        begin(*v5_, context_, descriptor<DescriptorV5>(abi::kGroupEvent, nullptr, shape_.rank));
    void* coll =
        begin(*v5_, context_,
              coll_descriptor<DescriptorV5>(coll_api, shape_.rank, sequence, count, channels));
    end(*v5_, coll);
    end(*v5_, group);
    end(*v5_, group_api);
    return coll;
}

void ProfilerHost::channel(void* parent, int channel, std::uint64_t start_ns,
                           std::uint64_t stop_ns) {
    if (mask_ == 0 || (mask_ & static_cast<int>(toporun::profiler::kKernelChannelEvent)) == 0) {
        return;
    }
    const std::lock_guard lock(mutex_);
    queue_.push_back({parent, channel, start_ns, stop_ns});
}

template <typename Table, typename Descriptor>
void ProfilerHost::report(const Table& table, const Kernel& kernel) {
    Descriptor event =
        descriptor<Descriptor>(toporun::profiler::kKernelChannelEvent, kernel.parent, shape_.rank);
    event.kernel_channel.channel = static_cast<std::uint8_t>(kernel.channel);
    event.kernel_channel.gpu_ns = kernel.start_ns;
    void* handle = begin(table, context_, event);
    if (handle == nullptr) return;
    StateArguments stop = {};
    stop.kernel_channel_ns = kernel.stop_ns;
    table.record_event_state(handle, toporun::profiler::kKernelChannelStop, &stop);
    table.stop_event(handle);
}

/// Polls as NCCL's progress thread does, at an interval that leaves the CPU to the training. Nobody
/// wakes it: a system call after each collective would be counted as communication.
void ProfilerHost::progress() {
    std::unique_lock lock(mutex_);
    while (true) {
        if (queue_.empty()) {
            if (ending_) return;
            wake_.wait_for(lock, kPollInterval);
            continue;
        }
        const Kernel kernel = queue_.front();
        queue_.pop_front();
        lock.unlock();
        if (v5_ != nullptr) {
            report<ProfilerV5, DescriptorV5>(*v5_, kernel);
        } else {
            report<ProfilerV4, DescriptorV4>(*v4_, kernel);
        }
        lock.lock();
    }
}

}  // namespace ring_allreduce
