#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/log/collectives.hpp"
#include "launcher/log/kinds.hpp"
#include "launcher/log/members.hpp"
#include "launcher/log/processes.hpp"
#include "launcher/log/setup_facts.hpp"
#include "launcher/log/test_table.hpp"

namespace toporun::launcher {

class World;

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
    std::string network;         ///< of NET
    bool gpu_direct = false;     ///< of NET: on at least one connection of the pair
    std::string via{};           ///< as NCCL prints it, of one connection: "P2P/CUMEM/read"
    std::uint64_t channels = 0;  ///< bit n: channel n; bit 63: that one or a later one
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
    LineKinds kinds;            ///< of those that were read
    std::uint64_t torn = 0;     ///< lines into which another process wrote
    std::uint64_t cut = 0;      ///< lines longer than the limit, cut
    bool rccl = false;
    std::vector<std::string> versions;  ///< "2.28.9"
    bool versions_in_one = false;       ///< one process said several
    std::optional<int> rank_count;      ///< size of the world communicator
    int rank_least = 0;  ///< where only parts of it were seen: GPUs and processes that took part
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
    std::vector<LogCallRange> calls;  ///< what the communicators did, for a replay
    std::vector<LogTest> tests;       ///< tables of nccl-tests, in order
    LogSetup setup;
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
    /// The line may go afterwards.
    void add(const detect::nccl_log::Line& line);
    /// The same for a record of the process that process_of() gave: without a search.
    void add(const detect::nccl_log::Line& record, std::size_t process);
    std::optional<std::size_t> process_of(const detect::nccl_log::Record& record) {
        return processes_.number_of(record.host, record.pid);
    }
    void add_cut_line() { ++summary_.cut; }
    /// Records that are not read because another process's text may be within (torn.hpp).
    void add_lost_records(std::uint64_t count) {
        summary_.lines += count;
        summary_.torn += count;
    }
    void add(const TestRow& row) { tests_.add(row); }
    void add_note(const std::string& note);
    LogSummary summary() const;

  private:
    using Record = detect::nccl_log::Record;
    using ProcessNumber = std::optional<std::size_t>;  ///< nothing for a bare line

    void add(ProcessNumber process, const Record& record, const detect::nccl_log::Event& event);
    void add(ProcessNumber process, const detect::nccl_log::Version& version);
    void add(const detect::nccl_log::Bootstrap& bootstrap);
    void add(ProcessNumber process, const detect::nccl_log::NetworkDevices& devices);
    void add(const detect::nccl_log::UsingNetwork& network);
    void add(const detect::nccl_log::Plugin& plugin);
    void add(ProcessNumber process, const detect::nccl_log::Init& init);
    void add(const detect::nccl_log::CommunicatorShape& shape);
    void add(ProcessNumber process, const detect::nccl_log::Connection& connection);
    void add(const detect::nccl_log::Variable& variable);
    void add(ProcessNumber process, const detect::nccl_log::Warning& warning);
    void add(ProcessNumber process, const detect::nccl_log::Collective& collective);
    std::optional<std::size_t> group_of(std::size_t process, std::string_view pointer) const;
    std::string group_name(std::size_t process, const detect::nccl_log::Init& init) const;
    std::size_t group_number(const std::string& name);
    std::uint8_t network_number(std::string_view name);
    void add_nodes(LogSummary& result) const;
    void add_transports(const World& world, LogSummary& result) const;

    using MemberKey = std::tuple<std::size_t, std::uint64_t, std::size_t, int>;
    using PointerKey = std::pair<std::size_t, std::uint64_t>;

    void add(const detect::nccl_log::TestRank& rank);
    void add_test_ranks(LogSummary& result) const;

    SetupFacts setup_;
    TestTables tests_;
    std::map<std::size_t, std::string> version_of_;  ///< by process, the first
    std::map<int, LogRank> test_ranks_;              ///< of nccl-tests
    std::vector<std::string> device_networks_;       ///< networks that listed what they use
    LogSummary summary_;  ///< what needs all lines is filled in by summary()
    Processes processes_;
    std::vector<LogMember> members_;              ///< in order of appearance
    std::map<MemberKey, std::size_t> member_at_;  ///< by process, pointer, group, rank
    std::map<PointerKey, std::size_t> group_at_;  ///< group by process and pointer
    std::vector<std::string> groups_;             ///< LogCommunicator::id
    std::map<std::string, std::size_t> group_numbers_;
    CollectiveCounts collectives_;
    std::unordered_map<LogPair, LogPairFacts, LogPairHash> pairs_;
    std::vector<std::string> pair_networks_;        ///< by LogPair::network
    std::vector<ProcessNumber> warning_processes_;  ///< of summary_.warnings
    int shape_ranks_ = 0;                           ///< of the largest communicator shape so far
};

}  // namespace toporun::launcher
