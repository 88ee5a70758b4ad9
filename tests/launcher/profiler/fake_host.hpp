#pragma once

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "files.hpp"
#include "launcher/profiler/nccl_abi.hpp"
#include "variable.hpp"

/// A host that calls the plugin as NCCL does, without NCCL.
namespace toporun::tests {

inline void no_logger(int, unsigned long, const char*, int, const char*, ...) {}

/// The plugin, loaded from a copy of its own: each test has a plugin that has seen nothing yet.
class Plugin {
  public:
    explicit Plugin(const std::filesystem::path& directory)
        : file_(directory / "plugin-under-test.so") {
        std::filesystem::copy_file(TOPORUN_TESTED_PLUGIN, file_,
                                   std::filesystem::copy_options::overwrite_existing);
        open();
    }
    void open() {
        library_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE_MESSAGE(library_ != nullptr, dlerror());
        v4 = static_cast<const profiler::ProfilerV4*>(dlsym(library_, "ncclProfiler_v4"));
        v5 = static_cast<const profiler::ProfilerV5*>(dlsym(library_, "ncclProfiler_v5"));
        REQUIRE(v4 != nullptr);
        REQUIRE(v5 != nullptr);
    }
    void close() { dlclose(library_); }

    const profiler::ProfilerV4* v4 = nullptr;
    const profiler::ProfilerV5* v5 = nullptr;

  private:
    std::filesystem::path file_;
    void* library_ = nullptr;
};

template <typename Descriptor>
Descriptor event(std::uint64_t type, void* parent = nullptr, int rank = 0) {
    Descriptor result;
    std::memset(&result, 0, sizeof result);
    result.type = static_cast<decltype(result.type)>(type);
    result.parent = parent;
    result.rank = rank;
    return result;
}

/// One communicator of a plugin, through ABI v5.
struct Host {
    const profiler::ProfilerV5* table;
    void* context = nullptr;
    int mask = 0;

    Host(const Plugin& plugin, std::uint64_t id, int ranks = 2, int rank = 0,
         const char* name = "world")
        : table(plugin.v5) {
        REQUIRE(table->init(&context, id, &mask, name, 1, ranks, rank, no_logger) == 0);
    }

    void* start(profiler::DescriptorV5 descriptor) const {
        void* handle = nullptr;
        REQUIRE(table->start_event(context, &handle, &descriptor) == 0);
        return handle;
    }

    /// Start and stop of a collective: "enqueued".
    void* coll(std::uint64_t sequence, int channels, std::size_t count = 1024) const {
        auto descriptor = event<profiler::DescriptorV5>(profiler::kCollEvent);
        descriptor.coll.sequence = sequence;
        descriptor.coll.function = "AllReduce";
        descriptor.coll.count = count;
        descriptor.coll.datatype = "ncclFloat32";
        descriptor.coll.channels = static_cast<std::uint8_t>(channels);
        descriptor.coll.algorithm = "RING";
        descriptor.coll.protocol = "SIMPLE";
        void* handle = start(descriptor);
        table->stop_event(handle);
        return handle;
    }

    void* channel_start(void* parent, int channel, std::uint64_t start_ns) const {
        auto descriptor = event<profiler::DescriptorV5>(profiler::kKernelChannelEvent, parent);
        descriptor.kernel_channel.channel = static_cast<std::uint8_t>(channel);
        descriptor.kernel_channel.gpu_ns = start_ns;
        return start(descriptor);
    }

    void channel_stop(void* handle, std::uint64_t stop_ns) const {
        profiler::StateArguments stop = {};
        stop.kernel_channel_ns = stop_ns;
        table->record_event_state(handle, profiler::kKernelChannelStop, &stop);
        table->stop_event(handle);
    }

    void channel(void* parent, int channel, std::uint64_t start_ns, std::uint64_t stop_ns) const {
        channel_stop(channel_start(parent, channel, start_ns), stop_ns);
    }
};

/// Runs `body` in a forked child; true when it returned true.
template <typename Body>
bool in_child(const Body& body) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(body() ? 0 : 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CAPTURE(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace toporun::tests
