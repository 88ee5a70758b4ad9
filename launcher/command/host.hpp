#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace toporun::launcher {

/// What recognising a command asks of this host. Tests replace it.
class Host {
  public:
    virtual ~Host() = default;

    /// The path that execvp would run for `word`: the word itself when it holds a slash and is an
    /// executable file, else the first match on PATH; "" when there is none.
    virtual std::string find_executable(const std::string& word) const = 0;
    /// A regular file that this process may execute.
    virtual bool is_executable(const std::string& path) const = 0;
    /// The first `limit` bytes of a regular file; nothing when it cannot be read.
    virtual std::optional<std::string> read_file(const std::string& path,
                                                 std::size_t limit) const = 0;
    /// `path` with every link followed; "" when that fails.
    virtual std::string real_path(const std::string& path) const = 0;
    /// Every name and address that means this host: host name, its short form, localhost,
    /// addresses.
    virtual std::vector<std::string> names() const = 0;
    /// What `path --version` prints, at most 4 KiB; "" when it fails or takes longer than 2 s.
    virtual std::string version_text(const std::string& path) const = 0;
};

/// The host that this process runs on. PATH is taken from `environment`.
class SystemHost final : public Host {
  public:
    explicit SystemHost(const std::map<std::string, std::string>& environment);

    std::string find_executable(const std::string& word) const override;
    bool is_executable(const std::string& path) const override;
    std::optional<std::string> read_file(const std::string& path, std::size_t limit) const override;
    std::string real_path(const std::string& path) const override;
    std::vector<std::string> names() const override;
    std::string version_text(const std::string& path) const override;

  private:
    std::vector<std::string> path_;  ///< the directories of PATH, "" = the working directory
    mutable std::vector<std::string>
        names_;  ///< looked up once: host files hold thousands of names
};

}  // namespace toporun::launcher
