#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::detect {

inline constexpr std::size_t kMostBytes = std::size_t{1} << 20;  ///< read of one file, unless asked

/// Files below a root directory, "" for this machine. With a root, a link that leads out of it is
/// as good as missing, so that a test tree never answers with facts of the real machine. Nothing
/// here throws: a file that is missing, unreadable or no regular file is an empty optional.
class Files {
  public:
    explicit Files(std::string root);

    bool real() const { return root_.empty(); }
    /// The first `most_bytes` of a file.
    std::optional<std::string> read(const std::string& path,
                                    std::size_t most_bytes = kMostBytes) const;
    /// `size` bytes from `offset` on, fewer at the end of the file.
    std::optional<std::string> read_at(const std::string& path, std::uint64_t offset,
                                       std::size_t size) const;
    /// The first line without blanks around it, safe to print and valid UTF-8; "" is nothing.
    std::optional<std::string> line(const std::string& path) const;
    /// The integer that the first line holds.
    std::optional<long long> integer(const std::string& path) const;
    /// The same for what the kernel prints without a sign, up to 2^64 - 1.
    std::optional<std::uint64_t> unsigned_integer(const std::string& path) const;
    /// The first line as a number in base 16, "0x" before it or not.
    std::optional<unsigned long> hex(const std::string& path) const;
    /// Names in a directory, sorted, without "." and ".."; empty when there is none.
    std::vector<std::string> list(const std::string& directory) const;
    bool exists(const std::string& path) const;
    /// The path with every link resolved, without the root; nothing when it does not exist.
    std::optional<std::string> real_path(const std::string& path) const;

  private:
    std::optional<std::string> host_path(const std::string& path) const;

    std::string root_;
    std::string real_root_;
};

/// "key" of text in lines "key<blanks>:<blanks>value"; the first such line counts.
std::optional<std::string> value_of(std::string_view text, std::string_view key);

}  // namespace toporun::detect
