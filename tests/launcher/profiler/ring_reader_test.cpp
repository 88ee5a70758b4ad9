#include "launcher/profiler/ring_reader.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "files.hpp"

namespace toporun::profiler {
namespace {

using tests::TemporaryDirectory;

constexpr std::uint32_t kSlots = 64;

/// A ring file in memory, as the plugin would have written it; parts may be larger than today's.
struct Image {
    RingHeader header = {};
    std::vector<unsigned char> bytes;

    explicit Image(std::uint32_t header_extra = 0, std::uint32_t record_extra = 0) {
        header.magic = kRingMagic;
        header.version = kRingVersion;
        header.header_bytes = sizeof(RingHeader) + header_extra;
        header.communicator_bytes = sizeof(RingCommunicator) + header_extra;
        header.communicator_capacity = 4;
        header.record_bytes = sizeof(Record) + record_extra;
        header.slots = kSlots;
        header.abi = 5;
        header.rank = 2;
        header.pid = 4711;
        header.communicators = 1;
        bytes.resize(records() + header.slots * header.record_bytes);
        RingCommunicator world = {};
        world.id = 0xabc;
        world.rank = 2;
        world.ranks = 4;
        world.nodes = 1;
        std::memcpy(&bytes[header.header_bytes], &world, sizeof world);
    }
    std::size_t records() const {
        return header.header_bytes + header.communicator_capacity * header.communicator_bytes;
    }
    void complete(std::uint64_t ticket) {
        Record record = {};
        record.word = 2 * ticket + 2;
        record.sequence = ticket;
        record.start_ns = 10;
        record.stop_ns = 20;
        std::memcpy(&bytes[records() + ticket % kSlots * header.record_bytes], &record,
                    sizeof record);
        if (header.next_ticket <= ticket) header.next_ticket = ticket + 1;
    }
    std::filesystem::path save(const TemporaryDirectory& directory) {
        std::memcpy(bytes.data(), &header, sizeof header);
        return directory.write("image.ring", std::string(bytes.begin(), bytes.end()));
    }
};

}  // namespace

TEST_CASE("Each complete record is returned once, also when earlier ones complete later") {
    const TemporaryDirectory directory;
    Image image;
    for (const std::uint64_t ticket : {0u, 2u, 3u, 5u}) image.complete(ticket);
    RingReader reader(image.save(directory));
    CHECK(reader.poll().size() == 4);
    CHECK(reader.unfinished() == 2);
    CHECK(reader.poll().empty());
    image.complete(1);
    image.complete(7);
    image.save(directory);
    const auto found = reader.poll();
    REQUIRE(found.size() == 2);
    CHECK(found[0].sequence == 1);
    CHECK(found[1].sequence == 7);
    CHECK(reader.unfinished() == 2);
    CHECK(reader.lost() == 0);
    CHECK(reader.key() == RankKey{2, 0, 4711});
}

TEST_CASE("What was taken is not read again behind an operation that does not end") {
    const TemporaryDirectory directory;
    Image image;
    for (std::uint64_t ticket = 0; ticket < 60; ++ticket) {
        if (ticket != 3) image.complete(ticket);
    }
    const std::filesystem::path file = image.save(directory);
    RingReader reader(file);
    CHECK(reader.poll().size() == 59);
    std::filesystem::resize_file(file, image.records() + 4 * sizeof(Record));
    CHECK(reader.poll().empty());
    CHECK(reader.notes().empty());
    CHECK(reader.unfinished() == 1);
}

TEST_CASE("A turn ends early, the next one goes on") {
    const TemporaryDirectory directory;
    Image image;
    for (std::uint64_t ticket = 40; ticket < 104; ++ticket) image.complete(ticket);
    RingReader reader(image.save(directory));
    // 64 slots are two spans here: up to the end of the ring, then from its beginning.
    const auto first = reader.poll(1);
    REQUIRE(first.size() == 24);
    CHECK(first.front().sequence == 40);
    CHECK(reader.poll(0).empty());
    const auto second = reader.poll(1000);
    REQUIRE(second.size() == 40);
    CHECK(second.back().sequence == 103);
    CHECK(reader.poll(1).empty());
    CHECK(reader.unfinished() == 0);
    CHECK(reader.lost() == 40);
}

TEST_CASE("Operations that were overwritten unread are counted") {
    const TemporaryDirectory directory;
    Image image;
    for (std::uint64_t ticket = 0; ticket < 10; ++ticket) {
        if (ticket != 4) image.complete(ticket);
    }
    RingReader reader(image.save(directory));
    CHECK(reader.poll().size() == 9);
    for (std::uint64_t ticket = 100; ticket < 164; ++ticket) image.complete(ticket);
    image.save(directory);
    CHECK(reader.poll().size() == 64);
    CHECK(reader.lost() == 91);  // 4 and 10 to 99
    CHECK(reader.unfinished() == 0);
    for (std::uint64_t ticket = 164; ticket < 170; ++ticket) image.complete(ticket);
    image.save(directory);
    CHECK(reader.poll().size() == 6);
    CHECK(reader.lost() == 91);
}

TEST_CASE("A later version with larger parts is read as far as it is known") {
    const TemporaryDirectory directory;
    Image image(128, 64);
    image.header.version = 9;
    image.complete(0);
    image.complete(1);
    RingReader reader(image.save(directory));
    const auto found = reader.poll();
    REQUIRE(found.size() == 2);
    CHECK(found[1].sequence == 1);
    CHECK(found[1].communicator == 0xabc);
    CHECK(found[1].ranks == 4);
}

TEST_CASE("What is no ring file is refused with its reason") {
    const struct {
        const char* name;
        void (*damage)(Image&);
    } rows[] = {
        {"magic", [](Image& image) { image.header.magic ^= 1; }},
        {"version", [](Image& image) { image.header.version = 0; }},
        {"small header", [](Image& image) { image.header.header_bytes = 8; }},
        {"huge header", [](Image& image) { image.header.header_bytes = UINT32_MAX; }},
        {"small entries", [](Image& image) { image.header.communicator_bytes = 63; }},
        {"no table", [](Image& image) { image.header.communicator_capacity = 0; }},
        {"huge table", [](Image& image) { image.header.communicator_capacity = UINT32_MAX; }},
        {"small records", [](Image& image) { image.header.record_bytes = 0; }},
        {"no slots", [](Image& image) { image.header.slots = 0; }},
        {"odd slots", [](Image& image) { image.header.slots = 65; }},
        {"huge slots", [](Image& image) { image.header.slots = 1u << 31; }},
        {"short", [](Image& image) { image.bytes.resize(sizeof(RingHeader)); }},
    };
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            const TemporaryDirectory directory;
            Image image;
            row.damage(image);
            const auto file = image.save(directory);
            if (std::string(row.name) == "short") {
                std::filesystem::resize_file(file, sizeof(RingHeader) - 1);
            }
            CHECK_THROWS_AS(RingReader{file}, Error);
        }
    }
}

TEST_CASE("Missing files, directories, links and pipes are refused and do not block") {
    const TemporaryDirectory directory;
    Image image;
    const auto file = image.save(directory);
    std::filesystem::create_symlink(file, directory.path() / "link.ring");
    REQUIRE(mkfifo((directory.path() / "pipe.ring").c_str(), 0600) == 0);
    for (const char* name : {"missing.ring", "", "link.ring", "pipe.ring"}) {
        CAPTURE(name);
        CHECK_THROWS_AS(RingReader{directory.path() / name}, Error);
    }
    CHECK(ring_files(directory.path()).size() == 3);
    CHECK(ring_files(directory.path() / "missing").empty());
}

TEST_CASE("A file that is cut while it is read is a note") {
    const TemporaryDirectory directory;
    Image image;
    for (std::uint64_t ticket = 0; ticket < 10; ++ticket) image.complete(ticket);
    const auto file = image.save(directory);
    RingReader reader(file);
    for (const std::uint64_t size : {image.records() + 100, std::size_t{300}, std::size_t{0}}) {
        std::filesystem::resize_file(file, size);
        CHECK(reader.poll().empty());
    }
    REQUIRE(reader.notes().size() == 1);
    CHECK(reader.notes()[0] == "the profile was cut");
    RingReader again(Image().save(directory));
    CHECK(again.notes().empty());
}

TEST_CASE("Impossible counts in a valid header are notes") {
    const TemporaryDirectory directory;
    Image image;
    image.header.next_ticket = UINT64_MAX;
    image.header.communicators = UINT32_MAX;
    RingReader reader(image.save(directory));
    CHECK(reader.poll().empty());
    CHECK(reader.notes().size() == 1);
    image.header.next_ticket = 5;
    image.save(directory);
    CHECK(reader.poll().empty());
    CHECK(reader.communicators().size() == 4);
    image.header.next_ticket = 4;
    image.save(directory);
    CHECK(reader.poll().empty());
}

TEST_CASE("Damaged files of every kind never harm the reader") {
    const TemporaryDirectory directory;
    std::uint64_t random = 7;
    const auto next = [&] {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return random >> 33;
    };
    int opened = 0;
    for (int round = 0; round < 500; ++round) {
        Image image;
        for (std::uint64_t ticket = 0; ticket < next() % 200; ++ticket) image.complete(ticket);
        const auto file = image.save(directory);
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        for (int change = 0; change < 8; ++change) {
            const bool in_header = next() % 2 == 0;
            out.seekp(static_cast<std::streamoff>(next() % (in_header ? 256 : image.bytes.size())));
            out.put(static_cast<char>(next()));
        }
        out.close();
        if (next() % 4 == 0) std::filesystem::resize_file(file, next() % image.bytes.size());
        try {
            RingReader reader(file);
            ++opened;
            CHECK(reader.poll().size() <= kMaximumSlots);
            CHECK(reader.poll().empty());
        } catch (const Error&) {
            continue;
        }
    }
    CHECK(opened > 50);
}

}  // namespace toporun::profiler
