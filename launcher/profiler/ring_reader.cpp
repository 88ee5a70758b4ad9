#include "launcher/profiler/ring_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.hpp"

namespace toporun::profiler {
namespace {

constexpr std::uint32_t kLargestPart = 4096;       // bytes of a header, an entry or a record
constexpr std::uint32_t kLargestTable = 1u << 16;  // entries
constexpr std::uint64_t kSpanBytes = 64 * 1024;    // read at once
constexpr int kMaximumRank = 1 << 24;
constexpr std::uint64_t kMaximumTicket = std::uint64_t{1} << 56;  // of a handle in the plugin

bool between(std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    return value >= low && value <= high;
}

/// What makes the header unusable; "" when nothing does.
std::string header_fault(const RingHeader& header) {
    if (header.magic != kRingMagic) return "it does not begin with TOPORING";
    if (header.version == 0) return "its version is 0";
    if (!between(header.header_bytes, sizeof(RingHeader), kLargestPart) ||
        !between(header.communicator_bytes, sizeof(RingCommunicator), kLargestPart) ||
        !between(header.record_bytes, sizeof(Record), kLargestPart) ||
        !between(header.communicator_capacity, 1, kLargestTable) ||
        !between(header.slots, 1, kMaximumSlots) || !std::has_single_bit(header.slots)) {
        return "the sizes in its header are impossible";
    }
    return {};
}

/// Record bytes at `from`, which holds at least sizeof(Record).
Record record_at(const unsigned char* from) {
    Record record;
    std::memcpy(&record, from, sizeof record);
    return record;
}

}  // namespace

RingReader::RingReader(const std::filesystem::path& file)
    : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    if (!descriptor_) {
        throw Error("cannot open the profile: " + std::string(std::strerror(errno)), file.string());
    }
    read_header(file);
}

void RingReader::read_header(const std::filesystem::path& file) {
    struct stat status = {};
    if (fstat(descriptor_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        throw Error("the profile is not a regular file", file.string());
    }
    RingHeader header = {};
    if (!read_at(0, &header, sizeof header)) {
        throw Error("the profile is shorter than its header", file.string());
    }
    const std::string fault = header_fault(header);
    if (!fault.empty()) {
        throw Error("not a profile of toporun: " + fault, file.string(),
                    "only files that libtoporun-nccl.so wrote on this kind of machine can be read");
    }
    key_ = {header.rank, static_cast<int>(std::min<std::uint32_t>(header.restart, INT32_MAX)),
            header.pid};
    abi_ = static_cast<int>(std::min<std::uint32_t>(header.abi, INT32_MAX));
    table_offset_ = header.header_bytes;
    communicator_bytes_ = header.communicator_bytes;
    communicator_capacity_ = header.communicator_capacity;
    record_bytes_ = header.record_bytes;
    slots_ = header.slots;
    records_offset_ = table_offset_ + std::uint64_t{communicator_bytes_} * communicator_capacity_;
    const std::uint64_t bytes = records_offset_ + std::uint64_t{record_bytes_} * slots_;
    if (static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0)) < bytes) {
        note("the profile is shorter than its header says");
    }
    taken_.assign(slots_, false);
}

/// Reads all of `size` bytes. False at the end of the file or on a fault.
bool RingReader::read_at(std::uint64_t offset, void* to, std::size_t size) {
    char* place = static_cast<char*>(to);
    while (size > 0) {
        const ssize_t got = pread(descriptor_.get(), place, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        place += got;
        offset += static_cast<std::uint64_t>(got);
        size -= static_cast<std::size_t>(got);
    }
    return true;
}

void RingReader::read_communicators() {
    std::uint32_t used = 0;
    if (!read_at(offsetof(RingHeader, communicators), &used, sizeof used)) {
        return note("the profile was cut");
    }
    if (used > communicator_capacity_) {
        note("the profile names more communicators than it has room for");
        used = communicator_capacity_;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    communicators_.resize(std::max<std::size_t>(communicators_.size(), used));
    for (std::uint32_t i = 0; i < used; ++i) {
        RingCommunicator entry;
        if (!read_at(table_offset_ + std::uint64_t{communicator_bytes_} * i, &entry,
                     sizeof entry)) {
            return note("the profile was cut");
        }
        const std::size_t length = strnlen(entry.name, sizeof entry.name);
        communicators_[i] = {entry.id,
                             std::clamp(entry.rank, -1, kMaximumRank),
                             std::clamp(entry.ranks, 0, kMaximumRank),
                             std::clamp(entry.nodes, 0, kMaximumRank),
                             entry.state == kCommunicatorFinalized,
                             std::string(entry.name, length)};
    }
}

std::vector<Collective> RingReader::poll(std::size_t most) {
    std::vector<Collective> found;
    std::uint64_t next = 0;
    if (!read_at(offsetof(RingHeader, next_ticket), &next, sizeof next)) {
        note("the profile was cut");
        return found;
    }
    if (next < tail_ || next > kMaximumTicket) {
        note("the profile's count of operations is impossible");
        return found;
    }
    read_communicators();  // after the count: every operation below it finds its communicator
    if (next - tail_ > slots_) give_up_below(next - slots_);
    const std::uint64_t span = std::max<std::uint64_t>(1, kSpanBytes / record_bytes_);
    // A span never crosses the end of the ring.
    for (std::uint64_t first = tail_; first < next && found.size() < most;) {
        const std::uint64_t to_end = slots_ - (first & (slots_ - 1));
        std::uint64_t last = std::min({next, first + span, first + to_end});
        const std::uint64_t next_first = last;
        while (first < last && is_taken(first)) ++first;
        while (first < last && is_taken(last - 1)) --last;
        if (first < last) take_span(first, last, found);
        first = next_first;
    }
    while (tail_ < next && is_taken(tail_)) {
        taken_[tail_ & (slots_ - 1)] = false;
        ++tail_;
    }
    unfinished_ = 0;
    for (std::uint64_t ticket = tail_; ticket < next; ++ticket) {
        unfinished_ += is_taken(ticket) ? 0 : 1;
    }
    return found;
}

/// Everything below `first` has been overwritten: what had not been taken is lost.
void RingReader::give_up_below(std::uint64_t first) {
    const std::uint64_t marked_end = std::min<std::uint64_t>(first, tail_ + slots_);
    std::uint64_t taken = 0;
    for (std::uint64_t ticket = tail_; ticket < marked_end; ++ticket) {
        std::vector<bool>::reference mark = taken_[ticket & (slots_ - 1)];
        taken += mark ? 1 : 0;
        mark = false;
    }
    lost_ += first - tail_ - taken;
    tail_ = first;
}

/// Takes the complete records of the tickets [first, last). Each is read three times, the second
/// reading counts: when the first and the third hold the same even word, the writer was not there
/// in between.
void RingReader::take_span(std::uint64_t first, std::uint64_t last, std::vector<Collective>& out) {
    const std::uint64_t offset = records_offset_ + (first & (slots_ - 1)) * record_bytes_;
    const std::size_t bytes = static_cast<std::size_t>((last - first) * record_bytes_);
    std::vector<unsigned char> before(bytes), copy(bytes), after(bytes);
    for (std::vector<unsigned char>* to : {&before, &copy, &after}) {
        if (!read_at(offset, to->data(), bytes)) return note("the profile was cut");
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    for (std::uint64_t ticket = first; ticket < last; ++ticket) {
        const std::size_t at = static_cast<std::size_t>((ticket - first) * record_bytes_);
        std::vector<bool>::reference mark = taken_[ticket & (slots_ - 1)];
        const std::uint64_t complete = 2 * ticket + 2;
        const Record record = record_at(&copy[at]);
        if (mark || record.word != complete || record_at(&before[at]).word != complete ||
            record_at(&after[at]).word != complete) {
            continue;
        }
        mark = true;
        out.push_back(collective(record));
    }
}

Collective RingReader::collective(const Record& record) const {
    Collective result;
    if (record.communicator < communicators_.size()) {
        const Communicator& communicator = communicators_[record.communicator];
        result.communicator = communicator.id;
        result.rank = communicator.rank;
        result.ranks = communicator.ranks;
    }
    result.function = record.function;
    result.datatype = record.datatype;
    result.algorithm = record.algorithm;
    result.protocol = record.protocol;
    result.sequence = record.sequence;
    result.count = record.count;
    result.channels = record.channels;
    result.channels_seen = record.channels_ended;
    result.start_ns = record.start_ns;
    result.stop_ns = record.stop_ns;
    result.peer = record.peer;
    return result;
}

void RingReader::note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::vector<std::filesystem::path> ring_files(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    std::error_code fault;
    for (std::filesystem::directory_iterator at(directory, fault), end; !fault && at != end;
         at.increment(fault)) {
        if (at->path().extension() == ".ring") files.push_back(at->path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace toporun::profiler
