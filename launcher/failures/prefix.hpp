#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace toporun::launcher::failures {

/// Where a line comes from, as the prefixes before its message tell. Empty: not told.
struct Origin {
    std::optional<int> rank;        ///< global: `[rank3]:`, `[1,3]<stdout>:`, `[3] ` of Hydra
    std::optional<int> local_rank;  ///< `[default3]:` of torchrun --tee
    std::optional<int> task;        ///< `3: ` of srun -l; the node's number when it starts agents
    std::optional<int> group_rank;  ///< `[PG ... Rank 3]`, `[Rank 3]`: in its process group
    std::string group;              ///< of the process group: GUID and number; "" the default one
    std::string host;
    std::optional<std::int64_t> pid;
    std::string time;           ///< as printed, only to be shown
    std::string label;          ///< another label of the stream, without what is a time
    char level = 0;             ///< of a logger: E, W, I, F; 0: not told
    std::optional<int> device;  ///< CUDA device of a process whose main thread wrote NCCL's record
};

struct PrefixedLine {
    Origin origin;
    std::string_view message;  ///< what the program printed
};

/// Lines with equal keys are of one stream of one process, as far as the prefixes tell.
std::string stream_key(const Origin& origin);

/// Takes terminal escapes and NUL bytes out of `line` and keeps what follows its last carriage
/// return (progress bars). `store` holds the result when the line had any, else it is the line.
std::string_view cleaned(std::string_view line, std::string& store);

/// Strips the prefixes of launchers, loggers and PyTorch, nested in any order. `pdsh_hosts`: words
/// that are known to be hosts before a colon; without them `word: ` is left, because
/// `RuntimeError:` has that form.
PrefixedLine strip_prefixes(std::string_view line,
                            const std::set<std::string, std::less<>>& pdsh_hosts);

}  // namespace toporun::launcher::failures
