#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "launcher/profiler/collective.hpp"

namespace toporun::profiler {

/// Operations of one rank that are added up before the next rank's turn: half of what
/// Matching::kPending lets wait.
inline constexpr std::size_t kPollTurn = 2048;

/// Follows one ring file while a training process writes it. Reads with pread only, so that a file
/// which is cut meanwhile is a note and never a signal; trusts nothing in it. Memory: one bit a
/// slot and what one poll returns.
class RingReader {
  public:
    /// Throws Error when `file` cannot be opened or is no ring file of a known form.
    explicit RingReader(const std::filesystem::path& file);

    /// The operations that have become complete since the last call, in the order of their launch
    /// as far as they completed in it. Never throws for what the file holds: a fault becomes a
    /// note. Ends early once about `most` have been found: several rings that are read in turns of
    /// kPollTurn, until none fills its turn, keep the ranks together, as matching needs it.
    std::vector<Collective> poll(std::size_t most = SIZE_MAX);

    RankKey key() const { return key_; }
    int abi() const { return abi_; }  ///< plugin interface that NCCL chose: 4, 5
    const std::vector<Communicator>& communicators() const { return communicators_; }
    /// Operations overwritten before they were read, known so far.
    std::uint64_t lost() const { return lost_; }
    /// Operations begun that were not complete at the last poll.
    std::uint64_t unfinished() const { return unfinished_; }
    /// What is wrong with the file, each kind once.
    const std::vector<std::string>& notes() const { return notes_; }

  private:
    void read_header(const std::filesystem::path& file);
    void read_communicators();
    bool read_at(std::uint64_t offset, void* to, std::size_t size);
    void give_up_below(std::uint64_t first);
    bool is_taken(std::uint64_t ticket) const { return taken_[ticket & (slots_ - 1)]; }
    void take_span(std::uint64_t first, std::uint64_t last, std::vector<Collective>& out);
    Collective collective(const Record& record) const;
    void note(const std::string& text);

    Descriptor descriptor_;
    RankKey key_;
    int abi_ = 0;
    std::uint64_t table_offset_ = 0, records_offset_ = 0;
    std::uint32_t communicator_bytes_ = 0, communicator_capacity_ = 0;
    std::uint32_t record_bytes_ = 0, slots_ = 0;
    std::vector<Communicator> communicators_;
    std::uint64_t tail_ = 0;   ///< every ticket below has been dealt with
    std::vector<bool> taken_;  ///< per slot: the ticket in [tail_, next) there was returned
    std::uint64_t lost_ = 0, unfinished_ = 0;
    std::vector<std::string> notes_;
};

/// The ring files in `directory`, by name. Empty when the directory cannot be read.
std::vector<std::filesystem::path> ring_files(const std::filesystem::path& directory);

}  // namespace toporun::profiler
