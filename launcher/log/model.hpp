#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/log/collectives.hpp"

namespace toporun::launcher {

/// One rank of the world communicator, the one with the most ranks.
struct LogRank {
    int rank = 0;
    std::string host;
    std::int64_t pid = 0;
    std::string pci;               ///< "0000:1a:00.0", "" when not printed
    std::optional<int> gpu_index;  ///< nvmlDev, else cudaDev
    bool complete = false;         ///< its initialisation ended
};

/// A distinct ordered pair of global ranks and how it is connected. A pair may have several.
struct LogTransport {
    int from = 0;
    int to = 0;
    detect::nccl_log::Transport transport = detect::nccl_log::Transport::other;
    std::string network;      ///< of NET
    bool gpu_direct = false;  ///< of NET: on at least one connection of the pair
};

/// A variable as NCCL itself reported it, with every distinct value.
struct LogVariable {
    std::string name;
    std::vector<std::string> values;
};

struct LogWarning {
    std::string text;
    std::string source;  ///< "init.cc:904"
    std::string host;
    std::int64_t pid = 0;
    std::optional<int> rank;  ///< of the world communicator, when known
    std::uint64_t count = 0;  ///< lines with this text, on any rank
};

/// What NCCL said it did. Lists are in order of first appearance unless said otherwise.
struct LogSummary {
    std::uint64_t lines = 0;    ///< lines with NCCL's prefix or a version line
    std::uint64_t unknown = 0;  ///< of those, lines of no known kind
    std::uint64_t torn = 0;     ///< lines into which another process wrote
    std::uint64_t cut = 0;      ///< lines longer than the limit, cut
    bool rccl = false;
    std::vector<std::string> versions;              ///< "2.28.9"
    std::optional<int> rank_count;                  ///< size of the world communicator
    std::vector<LogRank> ranks;                     ///< ascending by rank
    std::vector<std::string> nodes;                 ///< host names
    std::optional<int> node_count;                  ///< NCCL's own count
    std::vector<std::string> networks;              ///< of "Using network", distinct
    std::vector<std::string> bootstrap_interfaces;  ///< names
    std::vector<std::string> data_interfaces;       ///< names, of NET/Socket
    std::vector<std::string> rdma_devices;          ///< "mlx5_0:1/IB"
    std::map<std::string, std::string> plugins;     ///< kind -> loaded plugin's name
    std::vector<LogTransport> transports;           ///< ascending by from, to, transport
    std::uint64_t other_connections = 0;     ///< connections that no global rank could be given
    std::vector<LogCollective> collectives;  ///< by function, then by size; over all ranks
    /// In order of first appearance. Those of which only COLL lines are known have no parent.
    std::vector<LogCommunicator> communicators;
    std::vector<LogVariable> variables;
    std::vector<LogWarning> warnings;  ///< the first few distinct ones
    std::uint64_t warning_count = 0;   ///< all of them
    std::vector<std::string> notes;    ///< files that could not be read, limits reached

    /// NCCL wrote at least one line.
    bool started() const { return lines > 0; }
};

/// The model of a run, built from the events of many files in any order between files. Memory is
/// bounded by the number of ranks and connected pairs, not by the size of the logs.
class LogModel {
  public:
    void add(const detect::nccl_log::Line& line);
    void add_cut_line() { ++summary_.cut; }
    void add_note(const std::string& note);
    LogSummary summary() const;

  private:
    friend class World;
    friend class CommunicatorTable;
    /// One rank in one communicator, as its process reported it.
    struct Member {
        std::string group;  ///< the same for all members of one communicator
        std::string host;
        std::int64_t pid = 0;
        detect::nccl_log::Init init;
        bool complete = false;
        std::string parent;  ///< group of the communicator it was split from, "" for none
    };
    /// A connected pair as one process reported it: ranks of a communicator that is not named.
    struct Pair {
        std::string host;
        std::int64_t pid = 0;
        int from = 0;
        int to = 0;
        std::string from_device;
        std::string to_device;
        detect::nccl_log::Transport transport = detect::nccl_log::Transport::other;
        std::string network;
        auto operator<=>(const Pair&) const = default;
    };

    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Version& version);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Bootstrap& bootstrap);
    void add(const detect::nccl_log::Record& record,
             const detect::nccl_log::NetworkDevices& devices);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::UsingNetwork& network);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Plugin& plugin);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Init& init);
    void add(const detect::nccl_log::Record& record,
             const detect::nccl_log::CommunicatorShape& shape);
    void add(const detect::nccl_log::Record& record,
             const detect::nccl_log::Connection& connection);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Variable& variable);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Warning& warning);
    void add(const detect::nccl_log::Record& record, const detect::nccl_log::Unknown& unknown);
    void add(const detect::nccl_log::Record& record,
             const detect::nccl_log::Collective& collective);
    std::size_t process_of(const detect::nccl_log::Record& record);
    void add_host(const std::string& name);
    bool is_glued_host(const std::string& host) const;
    std::string group_of(const detect::nccl_log::Record& record,
                         const detect::nccl_log::Init& init) const;

    LogSummary summary_;           ///< ranks and transports are filled in by summary()
    std::vector<Member> members_;  ///< in order of appearance
    std::map<std::string, std::size_t> member_at_;  ///< position by process and communicator
    std::map<std::string, std::string> groups_;     ///< group by process and pointer
    std::map<std::pair<std::string, std::int64_t>, std::size_t> processes_;  ///< number of each
    CollectiveCounts collectives_;
    std::map<Pair, bool> pairs_;                       ///< value: GPUDirect RDMA was seen
    std::map<std::string, std::uint64_t> host_lines_;  ///< lines of each host in summary_.nodes
    int shape_ranks_ = 0;                              ///< of the largest communicator shape so far
};

}  // namespace toporun::launcher
