#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace toporun::launcher {

/// The processes whose lines a log holds, numbered in order of appearance. Bounded: of more hosts
/// or processes than are kept nothing is known.
class Processes {
  public:
    /// The number of the process, which writes one more line. Nothing when there are too many.
    std::optional<std::size_t> count_line(std::string_view host, std::int64_t pid);

    void count_line(std::size_t process) { ++processes_[process].lines; }
    /// The number of the process, which is added when it is new.
    std::optional<std::size_t> number_of(std::string_view host, std::int64_t pid);

    const std::string& host(std::size_t process) const;
    std::int64_t pid(std::size_t process) const { return processes_[process].pid; }
    std::size_t size() const { return processes_.size(); }

    /// Host names in order of appearance, and the lines of each.
    const std::vector<std::string>& hosts() const { return hosts_; }
    std::vector<std::uint64_t> lines_of_hosts() const;

  private:
    struct Process {
        std::uint32_t host = 0;
        std::int64_t pid = 0;
        std::uint64_t lines = 0;
    };
    struct Key {
        std::uint32_t host = 0;
        std::int64_t pid = 0;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const;
    };

    std::optional<std::uint32_t> host_number(std::string_view host);

    static constexpr std::size_t kRecent = 64;  ///< a node's ranks take turns
    static constexpr std::uint32_t kNone = UINT32_MAX;

    std::vector<std::string> hosts_;
    std::unordered_map<std::string, std::uint32_t> host_at_;
    std::vector<Process> processes_;
    std::unordered_map<Key, std::size_t, Hash> at_;
    std::array<std::uint32_t, kRecent> recent_ = filled();  ///< by the low bits of the pid

    static constexpr std::array<std::uint32_t, kRecent> filled() {
        std::array<std::uint32_t, kRecent> none{};
        none.fill(kNone);
        return none;
    }
};

}  // namespace toporun::launcher
