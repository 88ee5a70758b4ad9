#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "detect/nccl_log/collective.hpp"

namespace toporun::launcher {

/// Calls of one function and size class, as the subsystem COLL logs them.
struct LogCollective {
    std::string function;  ///< "AllReduce"
    /// Sizes in (size_class / 2, size_class] bytes, a power of two; 0 = size unknown or no bytes.
    std::uint64_t size_class = 0;
    std::uint64_t count = 0;  ///< lines: the calls of all ranks that wrote
    std::uint64_t bytes = 0;  ///< sum of the sizes as nccl-tests counts them
};

/// Calls of one function, data type, operation and number of ranks.
struct LogCallRange {
    detect::nccl_log::Function function = detect::nccl_log::Function::all_reduce;
    int datatype = 0;          ///< NCCL's code
    int op = 0;                ///< NCCL's code
    std::optional<int> ranks;  ///< of the communicator
    std::uint64_t least = 0;   ///< smallest and largest size class, of LogCollective
    std::uint64_t most = 0;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
};

/// A communicator with the calls that its members wrote.
struct LogCommunicator {
    std::string id;            ///< commId, or what else its members have in common
    std::string parent;        ///< id of the communicator it was split from, "" for none
    std::optional<int> ranks;  ///< its size
    int members = 0;           ///< ranks whose lines are in the log
    std::uint64_t count = 0;   ///< COLL lines of all members
    std::uint64_t bytes = 0;   ///< of them, as in LogCollective
    /// Calls as the program made them, when every rank wrote equally many lines: count / ranks.
    /// Sends and receives are no calls of all ranks and not counted here.
    std::optional<std::uint64_t> calls;
};

/// Adds up COLL lines in bounded memory.
class CollectiveCounts {
  public:
    /// One rank's calls in one communicator.
    struct Member {
        std::size_t process = 0;
        std::string group;  ///< LogCommunicator::id, "" when no line named it
        std::optional<int> ranks;
        std::array<std::uint64_t, detect::nccl_log::kFunctions> count{};
        std::uint64_t bytes = 0;
    };

    /// The process's pointer stands for a communicator of `group` (LogCommunicator::id) from now
    /// on: memory is used again.
    void name(std::size_t process, std::uint64_t pointer, const std::string& group);
    /// A call of `process` (any number that stands for one). False when there are too many members:
    /// then it is in rows() only, as is the call of an unknown process.
    bool add(std::optional<std::size_t> process, const detect::nccl_log::Collective& call);

    const std::vector<Member>& members() const { return members_; }
    /// What was called, in order of appearance; of more than 64 kinds the first.
    std::vector<LogCallRange> ranges() const;
    /// By function, then by size.
    std::vector<LogCollective> rows() const;

  private:
    struct Sum {
        std::uint64_t count = 0;
        std::uint64_t bytes = 0;
    };
    struct Key {
        std::size_t process = 0;
        std::uint64_t pointer = 0;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const;
    };
    struct Recent {
        Key key{SIZE_MAX, 0};
        std::size_t member = 0;
    };
    /// LogCallRange, sizes by their index.
    struct Range {
        std::uint64_t key = 0;  ///< function, data type, operation, ranks
        LogCallRange row;
        std::size_t least = 0;
        std::size_t most = 0;
    };
    Member* member_of(const Key& key);
    void add_range(const detect::nccl_log::Collective& call, std::uint64_t size);

    static constexpr std::size_t kSizes = 65;  ///< power of two of the size class + 1; 0 = none

    std::array<std::array<Sum, kSizes>, detect::nccl_log::kFunctions> sums_{};
    std::vector<Member> members_;
    std::unordered_map<Key, std::size_t, Hash> at_;
    std::vector<Range> ranges_;
    std::size_t last_range_ = 0;
    std::array<Recent, 64> recent_{};  ///< ranks take turns
};

}  // namespace toporun::launcher
