#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace toporun::launcher {

/// Which names of hosts in a stream of torn lines are right. Text of another process that is glued
/// to a name makes it longer (`0x5node-b`), a part that stands elsewhere shorter (`de-b`): both are
/// seldom, so that a name is right when it was seen some times, and much more often than each
/// longer or shorter one. Bounded.
class HostNames {
  public:
    /// A record of the process was seen with this name.
    void count(std::int64_t pid, std::string_view name);
    /// The host of a record of the process that was printed with `name`; nothing when it is not
    /// known (yet). What the process's own records show goes before what all show.
    std::optional<std::string> right(std::int64_t pid, std::string_view name) const;

  private:
    using Counts = std::map<std::string, std::uint64_t, std::less<>>;  ///< by names backwards
    static void add(Counts& counts, std::string_view name, std::size_t most);
    template <class Each>
    static void for_related(const Counts& counts, const std::string& key, const Each& each);
    static bool is_right(const Counts& counts, const Counts::value_type& one);
    static std::optional<std::string> choose(const Counts& counts, std::string_view name);

    std::unordered_map<std::int64_t, Counts> of_process_;
    Counts of_all_;
};

}  // namespace toporun::launcher
