#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "fake_host.hpp"
#include "launcher/profiler/codes.hpp"
#include "launcher/profiler/ring_reader.hpp"

namespace toporun::tests {
namespace {

using profiler::Collective;
using profiler::DescriptorV4;
using profiler::DescriptorV5;
using profiler::ring_files;
using profiler::RingReader;

/// A directory for the rings, named to the plugin, and the plugin.
struct Fixture {
    TemporaryDirectory directory;
    std::filesystem::path rings;
    Variable dir, slots, restart;
    Plugin plugin;

    explicit Fixture(const char* slot_count = nullptr)
        : rings(directory.path() / "rings"),
          dir("TOPORUN_PROFILE_DIR", make(rings)),
          slots("TOPORUN_PROFILE_SLOTS", slot_count),
          restart("TORCHELASTIC_RESTART_COUNT", nullptr),
          plugin(directory.path()) {}

    static const char* make(const std::filesystem::path& path) {
        std::filesystem::create_directory(path);
        return path.c_str();
    }
    RingReader reader() const {
        const auto files = ring_files(rings);
        REQUIRE(files.size() == 1);
        return RingReader(files[0]);
    }
};

}  // namespace

TEST_CASE("A collective of eight channels becomes one record with the outer stamps") {
    const Fixture fixture;
    const Host host(fixture.plugin, 0xabc, 8, 3, "a communicator with a name longer than its room");
    CHECK(host.mask == (2 | 4 | 64));
    void* coll = host.coll(17, 8, 1 << 20);
    REQUIRE(coll != nullptr);
    RingReader reader = fixture.reader();
    void* handles[8];
    for (unsigned c = 0; c < 8; ++c) {
        handles[c] = host.channel_start(coll, static_cast<int>(c), 1000 + 10 * (7 - c));
    }
    CHECK(reader.poll().empty());
    for (unsigned c = 0; c < 8; ++c) host.channel_stop(handles[c], 5000 + c);
    const std::vector<Collective> found = reader.poll();
    REQUIRE(found.size() == 1);
    CHECK(found[0].communicator == 0xabc);
    CHECK(found[0].rank == 3);
    CHECK(found[0].ranks == 8);
    CHECK(found[0].function == profiler::kAllReduce);
    CHECK(found[0].datatype == profiler::kFloat32);
    CHECK(found[0].algorithm == profiler::kRing);
    CHECK(found[0].protocol == profiler::kSimple);
    CHECK(found[0].sequence == 17);
    CHECK(found[0].count == 1 << 20);
    CHECK(found[0].channels == 8);
    CHECK(found[0].channels_seen == 8);
    CHECK(found[0].start_ns == 1000);
    CHECK(found[0].stop_ns == 5007);
    CHECK(reader.key().rank == 3);
    CHECK(reader.key().pid == getpid());
    CHECK(reader.abi() == 5);
    CHECK(reader.communicators()[0].name == "a communicator with a name long");
    CHECK_FALSE(reader.communicators()[0].finalized);
    host.table->finalize(host.context);
    CHECK(reader.poll().empty());
    CHECK(reader.communicators()[0].finalized);
}

TEST_CASE("Through ABI v4 a group has a handle and a collective gives the same record") {
    const Fixture fixture;
    const profiler::ProfilerV4& table = *fixture.plugin.v4;
    void* context = nullptr;
    int mask = 0;
    REQUIRE(table.init(&context, &mask, nullptr, 0xabc, 1, 2, 0, no_logger) == 0);
    CHECK(mask == (2 | 4 | 64));
    auto start = [&](DescriptorV4 descriptor) {
        void* handle = nullptr;
        REQUIRE(table.start_event(context, &handle, &descriptor) == 0);
        return handle;
    };
    void* group = start(event<DescriptorV4>(profiler::kGroupEvent));
    REQUIRE(group != nullptr);
    auto descriptor = event<DescriptorV4>(profiler::kP2pEvent, group, 0);
    descriptor.p2p = {"Send", nullptr, "ncclBfloat16", 77, 1, 1};
    void* send = start(descriptor);
    REQUIRE(send != nullptr);
    CHECK(table.stop_event(send) == 0);
    CHECK(table.stop_event(group) == 0);
    auto channel = event<DescriptorV4>(profiler::kKernelChannelEvent, send);
    channel.kernel_channel.gpu_ns = 10;
    void* kernel = start(channel);
    profiler::StateArguments stop = {};
    stop.kernel_channel_ns = 30;
    table.record_event_state(kernel, profiler::kKernelChannelStop, &stop);
    table.stop_event(kernel);
    RingReader reader = fixture.reader();
    const std::vector<Collective> found = reader.poll();
    REQUIRE(found.size() == 1);
    CHECK(found[0].function == profiler::kSend);
    CHECK(found[0].datatype == profiler::kBfloat16);
    CHECK(found[0].peer == 1);
    CHECK(found[0].count == 77);
    CHECK(found[0].stop_ns - found[0].start_ns == 20);
    CHECK(reader.abi() == 4);
}

TEST_CASE("Events that are not measured get no handle through ABI v5") {
    const Fixture fixture;
    const Host host(fixture.plugin, 1);
    for (const std::uint64_t type :
         {1u, 8u, 16u, 32u, 128u, 256u, 512u, 1024u, 2048u, 4096u, 0u, 3u}) {
        CAPTURE(type);
        CHECK(host.start(event<DescriptorV5>(type)) == nullptr);
    }
    CHECK(host.start(event<DescriptorV5>(std::uint64_t{1} << 40)) == nullptr);
    auto own = event<DescriptorV5>(profiler::kP2pEvent, nullptr, 4);
    own.p2p = {"Send", nullptr, "ncclFloat32", 1, 4, 1};
    CHECK(host.start(own) == nullptr);  // to itself: a copy without a kernel channel
}

TEST_CASE("NCCL's names become its numbers and unknown ones stay unknown") {
    using namespace profiler;
    const struct {
        std::uint8_t (*code)(const char*);
        const char* name;
        std::uint8_t expected;
    } rows[] = {{function_code, "AllReduce", kAllReduce},
                {function_code, "AllGather", kAllGather},
                {function_code, "AllGatherV", kAllGatherV},
                {function_code, "AlltoAll", kAllToAll},
                {function_code, "Broadcast", kBroadcast},
                {function_code, "Reduce", kReduce},
                {function_code, "ReduceScatter", kReduceScatter},
                {function_code, "Send", kSend},
                {function_code, "Recv", kRecv},
                {function_code, "SendRecv", kSendRecv},
                {function_code, "Scatter", kScatter},
                {function_code, "Gather", kGather},
                {function_code, "A", kUnknownCode},
                {function_code, "", kUnknownCode},
                {function_code, nullptr, kUnknownCode},
                {function_code, "AllReduceX", kUnknownCode},
                {datatype_code, "ncclInt8", kInt8},
                {datatype_code, "ncclUint8", kUint8},
                {datatype_code, "ncclInt32", kInt32},
                {datatype_code, "ncclUint32", kUint32},
                {datatype_code, "ncclInt64", kInt64},
                {datatype_code, "ncclUint64", kUint64},
                {datatype_code, "ncclFloat16", kFloat16},
                {datatype_code, "ncclFloat32", kFloat32},
                {datatype_code, "ncclFloat64", kFloat64},
                {datatype_code, "ncclBfloat16", kBfloat16},
                {datatype_code, "ncclFloat8e4m3", kFloat8e4m3},
                {datatype_code, "ncclFloat8e5m2", kFloat8e5m2},
                {datatype_code, "Unknown", kUnknownCode},
                {datatype_code, "nccl", kUnknownCode},
                {datatype_code, nullptr, kUnknownCode},
                {algorithm_code, "TREE", kTree},
                {algorithm_code, "RING", kRing},
                {algorithm_code, "COLLNET_DIRECT", kCollNetDirect},
                {algorithm_code, "COLLNET_CHAIN", kCollNetChain},
                {algorithm_code, "NVLS", kNvls},
                {algorithm_code, "NVLS_TREE", kNvlsTree},
                {algorithm_code, "PAT", kPat},
                {algorithm_code, nullptr, kUnknownCode},
                {protocol_code, "LL", kLL},
                {protocol_code, "LL128", kLL128},
                {protocol_code, "SIMPLE", kSimple},
                {protocol_code, "L", kUnknownCode}};
    for (const auto& row : rows) {
        CAPTURE(std::string(row.name == nullptr ? "NULL" : row.name));
        CHECK(row.code(row.name) == row.expected);
    }
}

TEST_CASE("Without a usable directory the plugin does nothing and says success") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "").string();
    const std::string missing = (directory.path() / "missing").string();
    const struct {
        const char* name;
        const char* value;
    } rows[] = {{"unset", nullptr},
                {"empty", ""},
                {"relative", "rings"},
                {"no such", missing.c_str()},
                {"a file", file.c_str()}};
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            const Variable dir("TOPORUN_PROFILE_DIR", row.value);
            const Plugin plugin(directory.path());
            const Host host(plugin, 1);
            CHECK(host.mask == 0);
            CHECK(host.context != nullptr);
            CHECK(host.coll(0, 1) == nullptr);
            CHECK(host.channel_start(nullptr, 0, 1) == nullptr);
            CHECK(host.table->finalize(host.context) == 0);
            CHECK(ring_files(directory.path()).empty());
        }
    }
}

TEST_CASE("The ring has the wanted size within the bounds") {
    const struct {
        const char* name;
        const char* value;
        std::uint32_t slots;
    } rows[] = {{"default", nullptr, 16384},
                {"rounded down", "1000", 512},
                {"too small", "1", 64},
                {"negative", "-4", 16384},
                {"no number", "many", 16384},
                {"trailing text", "128k", 16384},
                {"overflow", "99999999999999999999", 16384}};
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            const Fixture fixture(row.value);
            const Host host(fixture.plugin, 1);
            const auto files = ring_files(fixture.rings);
            REQUIRE(files.size() == 1);
            CHECK(std::filesystem::file_size(files[0]) == profiler::ring_bytes(row.slots));
        }
    }
}

TEST_CASE("The file is private and named by rank, restart and pid") {
    Fixture fixture;
    const Variable restart("TORCHELASTIC_RESTART_COUNT", "3");
    const Host host(fixture.plugin, 1, 8, 5);
    const auto files = ring_files(fixture.rings);
    REQUIRE(files.size() == 1);
    struct stat status = {};
    REQUIRE(stat(files[0].c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    const std::string start = "5.3." + std::to_string(getpid()) + ".";
    const std::string name = files[0].filename().string();
    CHECK(name.substr(0, start.size()) == start);
    CHECK(name.size() == start.size() + 9);
    CHECK(RingReader(files[0]).key().restart == 3);
}

TEST_CASE("A file size limit switches the plugin off without a signal") {
    const Fixture fixture;
    CHECK(in_child([&] {
        const rlimit limit = {65536, 65536};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
        const Host host(fixture.plugin, 1);
        return host.mask == 0 && host.coll(0, 1) == nullptr;
    }));
    CHECK(std::filesystem::is_empty(fixture.rings));
}

/// A small file system at `directory`, in a mount namespace of this process.
static bool mount_small(const std::filesystem::path& directory) {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=256k") == 0;
}

TEST_CASE("A full disk switches the plugin off and leaves no file") {
    const Fixture fixture;
    if (!in_child([&] { return mount_small(fixture.rings); })) {
        MESSAGE("skipped: no right to mount a small file system here");
        return;
    }
    CHECK(in_child([&] {
        if (!mount_small(fixture.rings)) return false;
        const Host host(fixture.plugin, 1);
        return host.mask == 0 && std::filesystem::is_empty(fixture.rings);
    }));
}

TEST_CASE("Null pointers, foreign handles and late callbacks are survived") {
    const Fixture fixture;
    const Host host(fixture.plugin, 1);
    const profiler::ProfilerV5& table = *host.table;
    int mask = 0;
    void* handle = nullptr;
    auto coll = event<DescriptorV5>(profiler::kCollEvent);
    CHECK(table.init(nullptr, 1, &mask, nullptr, 1, 1, 0, nullptr) == 0);
    CHECK(table.init(&handle, 1, nullptr, nullptr, 1, 1, 0, nullptr) == 0);
    CHECK(table.start_event(host.context, nullptr, &coll) == 0);
    CHECK(table.start_event(host.context, &handle, nullptr) == 0);
    CHECK(handle == nullptr);
    CHECK(table.start_event(nullptr, &handle, &coll) == 0);  // context NULL, names NULL
    CHECK(table.stop_event(nullptr) == 0);
    CHECK(table.record_event_state(nullptr, 22, nullptr) == 0);
    int object = 0;
    for (const std::uint64_t bits :
         {std::uint64_t{1}, reinterpret_cast<std::uint64_t>(&object), ~std::uint64_t{0},
          std::uint64_t{0xa1} << 56 | 0xffffffffffffu, std::uint64_t{0xa2} << 56 | 12345,
          std::uint64_t{0xa4} << 56 | 0xfffffffffffu}) {
        CAPTURE(bits);
        void* foreign = reinterpret_cast<void*>(bits);
        profiler::StateArguments stop = {};
        CHECK(table.stop_event(foreign) == 0);
        CHECK(table.record_event_state(foreign, 22, &stop) == 0);
        CHECK(table.finalize(foreign) == 0);
        host.channel_start(foreign, 0, 1);
        auto proxy = event<DescriptorV5>(8, foreign);  // PXN: the parent of another process
        CHECK(host.start(proxy) == nullptr);
    }
    void* late = host.coll(9, 1);
    CHECK(table.finalize(host.context) == 0);
    CHECK(table.finalize(nullptr) == 0);
    host.channel(late, 0, 100, 200);
    RingReader reader = fixture.reader();
    const auto found = reader.poll();
    const bool kept = std::any_of(found.begin(), found.end(), [](const Collective& collective) {
        return collective.sequence == 9 && collective.stop_ns == 200;
    });
    CHECK(kept);
}

TEST_CASE("A kernel whose operation is unknown counts as an operation of its own") {
    const Fixture fixture;
    const Host host(fixture.plugin, 0xabc);
    host.channel(nullptr, 0, 100, 250);
    RingReader reader = fixture.reader();
    const auto found = reader.poll();
    REQUIRE(found.size() == 1);
    CHECK(found[0].communicator == 0xabc);
    CHECK(found[0].function == profiler::kUnknownCode);
    CHECK(found[0].stop_ns - found[0].start_ns == 150);
}

TEST_CASE("A handle that is held while the ring wraps touches no newer record") {
    const Fixture fixture("64");
    const Host host(fixture.plugin, 1);
    void* old_coll = host.coll(0, 2);
    void* old_kernel = host.channel_start(old_coll, 0, 1);
    for (std::uint64_t i = 1; i <= 64; ++i) {
        void* coll = host.coll(i, 1);
        if (i == 64) {  // the slot of the old one, not complete yet
            host.channel_stop(old_kernel, 999999);
            CHECK(host.channel_start(old_coll, 1, 1) == nullptr);
        }
        host.channel(coll, 0, 1000 + i, 2000 + i);
    }
    RingReader reader = fixture.reader();
    const auto found = reader.poll();
    REQUIRE(found.size() == 64);
    CHECK(reader.lost() == 1);
    CHECK(reader.unfinished() == 0);
    CHECK(found.back().sequence == 64);
    CHECK(found.back().start_ns == 1064);
    CHECK(found.back().stop_ns == 2064);
}

TEST_CASE("A complete record is not changed by more channels than announced") {
    const Fixture fixture;
    const Host host(fixture.plugin, 1);
    void* coll = host.coll(0, 1);
    host.channel(coll, 0, 10, 20);
    host.channel(coll, 1, 5, 50);
    RingReader reader = fixture.reader();
    const auto found = reader.poll();
    REQUIRE(found.size() == 1);
    CHECK(found[0].start_ns == 10);
    CHECK(found[0].stop_ns == 20);
}

TEST_CASE("A forked child leaves the parent's ring alone and may have its own") {
    const Fixture fixture;
    const Host host(fixture.plugin, 1);
    CHECK(in_child([&] {
        if (host.coll(1, 1) != nullptr) return false;
        host.table->finalize(host.context);
        const Host own(fixture.plugin, 2);
        void* coll = own.coll(5, 1);
        own.channel(coll, 0, 1, 2);
        return own.mask != 0 && coll != nullptr;
    }));
    const auto files = ring_files(fixture.rings);
    REQUIRE(files.size() == 2);
    for (const auto& file : files) {
        RingReader reader(file);
        const bool parent = reader.key().pid == getpid();
        const auto found = reader.poll();
        CHECK(found.size() == (parent ? 0 : 1));
        CHECK_FALSE(reader.communicators()[0].finalized);
    }
}

TEST_CASE("After dlclose and a new load the same ring goes on") {
    Fixture fixture;
    void* coll = nullptr;
    {
        const Host host(fixture.plugin, 1);
        coll = host.coll(1, 1);
        host.table->finalize(host.context);
    }
    fixture.plugin.close();
    fixture.plugin.open();
    const Host host(fixture.plugin, 2);
    CHECK(host.mask == (2 | 4 | 64));
    host.channel(coll, 0, 1, 2);
    host.channel(host.coll(2, 1), 0, 3, 4);
    RingReader reader = fixture.reader();
    CHECK(reader.poll().size() == 2);
    CHECK(reader.communicators().size() == 2);
}

TEST_CASE("More communicators than the table holds are measured without their name") {
    const Fixture fixture;
    for (std::uint64_t i = 0; i < profiler::kCommunicatorCapacity; ++i) {
        const Host filler(fixture.plugin, i + 1);
    }
    const Host host(fixture.plugin, 0xabc);
    host.channel(host.coll(1, 1), 0, 1, 2);
    RingReader reader = fixture.reader();
    const auto found = reader.poll();
    REQUIRE(found.size() == 1);
    CHECK(found[0].communicator == 0);
    CHECK(reader.communicators().size() == profiler::kCommunicatorCapacity);
}

TEST_CASE("Two ranks of one process write while a reader polls and nothing is torn") {
    const Fixture fixture("1024");
    constexpr std::uint64_t kOperations = 30000;
    const Host hosts[2] = {Host(fixture.plugin, 1, 2, 0), Host(fixture.plugin, 1, 2, 1)};
    std::atomic<int> running = 2;
    const auto write = [&](const Host& host, std::uint64_t salt) {
        for (std::uint64_t i = 1; i <= kOperations; ++i) {
            void* coll = host.coll(i, 2, 3 * i + salt);
            void* first = host.channel_start(coll, 0, 7 * i + salt);
            void* second = host.channel_start(coll, 1, 7 * i + salt + 1);
            host.channel_stop(second, 9 * i + salt);
            host.channel_stop(first, 9 * i + salt + 1);
        }
        --running;
    };
    std::thread one(write, std::cref(hosts[0]), 0), two(write, std::cref(hosts[1]), 1);
    RingReader reader = fixture.reader();
    std::uint64_t read = 0, torn = 0;
    const auto take = [&] {
        for (const Collective& found : reader.poll()) {
            const std::uint64_t salt = static_cast<std::uint64_t>(found.rank);
            ++read;
            torn += found.count != 3 * found.sequence + salt ||
                    found.start_ns != 7 * found.sequence + salt ||
                    found.stop_ns != 9 * found.sequence + salt + 1;
        }
    };
    while (running > 0) take();
    one.join();
    two.join();
    take();
    CHECK(torn == 0);
    CHECK(read > 0);
    CHECK(read + reader.lost() + reader.unfinished() == 2 * kOperations);
    CHECK(reader.notes().empty());
}

}  // namespace toporun::tests
