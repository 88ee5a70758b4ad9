#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace toporun::detect {

/// What tells a file from another one that took its place. Replacing a file keeps its size and can
/// set its modification time, not its inode and change time.
struct FileIdentity {
    std::string path;
    std::uint64_t inode = 0;
    std::uint64_t size_bytes = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// Of a regular file on this machine, links followed; nothing for anything else.
std::optional<FileIdentity> identity_of(const std::string& path);

/// NCCL versions of library files, kept in `directory`/nccl-versions from run to run. Nothing here
/// fails: what cannot be read is not known, what cannot be written is not kept. A directory or file
/// that is a link, belongs to somebody else or that others may write to is not used.
class VersionCache {
  public:
    explicit VersionCache(std::string directory);  ///< "" keeps nothing

    /// The version, "" for a file that was searched wholly and has none, nothing when the file is
    /// not known as it is now.
    std::optional<std::string> find(const FileIdentity& file);
    /// Keeps it unless the file has changed since `file` was taken. The oldest of 64 entries goes.
    void keep(const FileIdentity& file, const std::string& version);

  private:
    struct Entry {
        FileIdentity file;
        std::string version;
    };
    void load();

    std::string directory_;
    bool loaded_ = false;
    std::vector<Entry> entries_;  ///< newest first
};

}  // namespace toporun::detect
