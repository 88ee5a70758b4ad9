#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Commands that start another command: env, numactl, nsys, singularity exec, bash, ...
namespace toporun::launcher {

/// What stands in front of the program.
struct Peeled {
    std::vector<std::string> prefixes;  ///< base names, outermost first
    std::size_t inner = 0;              ///< the word behind them; the end of argv when not found
    /// The inner command starts in another place (container, other host, other user) or is text for
    /// a shell: neither variables nor paths are certain there.
    bool opaque = false;
    /// The position of the shell (`bash`, `sh`, ...) that ends it, when all before it start here.
    std::optional<std::size_t> shell;
    /// The prefix with a PATH or a working directory of its own: what the inner words name is not
    /// known here; "" = none.
    std::string own_path;
    std::string binds;    ///< the prefix that says which CPUs the inner command gets; "" = none
    bool module = false;  ///< the inner word is a Python module (`uv run -m`)

    /// What `env` does to the variables of the inner command.
    std::map<std::string, std::string> set;
    std::vector<std::string> removed;
    bool cleared = false;                       ///< env -i: only `set` arrives
    std::optional<std::size_t> assignments_at;  ///< where env -i takes more of `set`
};

/// Peels prefix commands off argv[first...]. Sources: the manual page of each.
Peeled peel_prefixes(std::span<const std::string> argv, std::size_t first);

/// What kind of place a prefix command leads to.
enum class Place {
    here,
    own_path,   ///< here, but it finds programs by itself: conda run, poetry run
    container,  ///< other files, perhaps another user or other variables
    shell,      ///< the command is a text
    remote,     ///< the command is a text, perhaps for another host
};

/// Where the prefix command of this name leads; nothing when it is none.
std::optional<Place> prefix_place(const std::string& word);

/// `NAME=VALUE` as env takes it.
bool is_assignment(const std::string& word);

}  // namespace toporun::launcher
