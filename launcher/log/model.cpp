#include "launcher/log/model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "detect/nccl_log/cursor.hpp"
#include "launcher/log/communicators.hpp"
#include "launcher/log/world.hpp"

namespace toporun::launcher {
namespace {

using namespace detect::nccl_log;

// Limits of what is kept, so that a hostile or endless log cannot fill the memory. Far above what a
// node of any real job writes.
constexpr std::size_t kNames = 64;  // interfaces, versions, networks, devices, plugins
constexpr std::size_t kVariables = 256;
constexpr std::size_t kValues = 8;         // distinct values of one variable
constexpr std::size_t kWarnings = 16;      // distinct warnings
constexpr std::size_t kMembers = 1 << 15;  // ranks in communicators
constexpr std::size_t kGroups = 1 << 13;   // communicators
constexpr std::size_t kPairs = 1 << 15;    // connected pairs
constexpr std::size_t kTextBytes = 1024;   // of one kept text

std::string kept(std::string_view text) {
    return std::string(text.substr(0, kTextBytes));
}

void add_distinct(std::vector<std::string>& list, std::string_view text, std::size_t limit) {
    const std::string value = kept(text);
    if (value.empty() || list.size() >= limit) return;
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::optional<std::uint64_t> pointer_number(std::string_view text) {
    return text.starts_with("0x") ? whole_hex(text.substr(2)) : std::nullopt;
}

}  // namespace

void LogModel::add(const Line& line, std::size_t process) {
    ++summary_.lines;
    processes_.count_line(process);
    add(process, line.record, line.event);
}

void LogModel::add(const Line& line) {
    if (const auto* rank = std::get_if<TestRank>(&line.event)) add(*rank);
    if (!line.from_nccl()) return;
    ++summary_.lines;
    if (line.torn) ++summary_.torn;
    ProcessNumber process;
    if (line.record.level != Level::bare)
        process = processes_.count_line(line.record.host, line.record.pid);
    add(process, line.record, line.event);
}

void LogModel::add(ProcessNumber process, const Record& record, const Event& event) {
    if (const auto* call = std::get_if<Collective>(&event)) {  // most lines of some logs
        ++summary_.kinds.lines[event.index()];
        return add(process, *call);
    }
    if (event.index() == 0 && setup_.add_graph(record.host, record.message)) {
        ++summary_.kinds.topology;
        return;
    }
    ++summary_.kinds.lines[event.index()];
    if (setup_.add(process, record.host, event)) return;
    const auto take = [&](const auto& known) {
        using Known = std::decay_t<decltype(known)>;
        if constexpr (std::is_same_v<Known, Unknown>) {
            ++summary_.unknown;
        } else if constexpr (requires { this->add(process, known); }) {
            add(process, known);
        } else if constexpr (requires { this->add(known); }) {
            add(known);
        }
    };
    std::visit(take, event);
}

void LogModel::add_note(const std::string& note) {
    add_distinct(summary_.notes, note, kNames);
}

void LogModel::add(ProcessNumber process, const Version& version) {
    summary_.rccl |= version.rccl;
    if (process && (version_of_.size() < kMembers || version_of_.contains(*process)))
        summary_.versions_in_one |=
            version_of_.try_emplace(*process, kept(version.version)).first->second !=
            version.version;
    add_distinct(summary_.versions, version.version, kNames);
}

void LogModel::add(const Bootstrap& bootstrap) {
    for (const Interface& interface : bootstrap.interfaces) {
        add_distinct(summary_.bootstrap_interfaces, interface.name, kNames);
    }
}

void LogModel::add(ProcessNumber process, const NetworkDevices& devices) {
    if (process && devices.network == "IB")
        setup_.add_adapters(processes_.host(*process), devices.devices);
    for (const std::string& device : devices.devices) {
        add_distinct(summary_.rdma_devices, device, kNames);
    }
    if (!devices.none && (!devices.devices.empty() || devices.network != "IB"))
        add_distinct(device_networks_, devices.network, kNames);
    if (devices.network == "IB") return;  // its interface is for the handshake only
    for (const Interface& interface : devices.interfaces) {
        add_distinct(summary_.data_interfaces, interface.name, kNames);
    }
}

void LogModel::add(const UsingNetwork& network) {
    add_distinct(summary_.networks, network.name, kNames);
}

void LogModel::add(const Plugin& plugin) {
    if (!plugin.loaded || summary_.plugins.size() >= kNames) return;
    summary_.plugins.emplace(plugin.kind, kept(plugin.name));
}

std::optional<std::size_t> LogModel::group_of(std::size_t process, std::string_view pointer) const {
    const auto found = group_at_.find({process, pointer_number(pointer).value_or(0)});
    return found == group_at_.end() ? std::nullopt : std::optional(found->second);
}

/// What all members of one communicator print alike: commId, else (splits of 2.23 and later) the
/// parent's group with the number of the split and the colour, else (before 2.16) only the size.
std::string LogModel::group_name(std::size_t process, const Init& init) const {
    if (!init.id.empty()) return init.id;
    if (init.parent.empty()) return fmt::format("size {}", init.ranks);
    const auto parent = group_of(process, init.parent);
    return fmt::format("{} split {} color {}", parent ? groups_[*parent] : "?",
                       init.split.value_or(0), init.color.value_or(0));
}

std::size_t LogModel::group_number(const std::string& name) {
    const auto [found, added] = group_numbers_.try_emplace(name, groups_.size());
    if (added) groups_.push_back(name);
    return found->second;
}

void LogModel::add(ProcessNumber process, const Init& init) {
    if (!process || members_.size() >= kMembers || groups_.size() >= kGroups) {
        add_note("more communicators than the log model keeps: ranks may be missing");
        return;
    }
    LogMember member;
    member.process = *process;
    member.pointer = pointer_number(init.communicator).value_or(0);
    member.split = !init.parent.empty();
    if (member.split) member.parent = group_of(*process, init.parent);
    member.group = group_number(group_name(*process, init));
    member.rank = init.rank;
    member.ranks = init.ranks;
    member.bus_id = whole_hex(init.bus_id);
    member.cuda_device = init.cuda_device;
    member.nvml_device = init.nvml_device;
    member.complete = init.complete;
    const MemberKey key{*process, member.pointer, member.group, init.rank};
    const auto [found, added] = member_at_.try_emplace(key, members_.size());
    if (!added) {
        members_[found->second].complete |= init.complete;
        return;
    }
    group_at_[{*process, member.pointer}] = member.group;
    collectives_.name(*process, member.pointer, groups_[member.group]);
    members_.push_back(member);
}

void LogModel::add(const CommunicatorShape& shape) {
    if (shape.ranks < shape_ranks_) return;
    shape_ranks_ = shape.ranks;
    summary_.node_count = shape.nodes;
}

std::uint8_t LogModel::network_number(std::string_view name) {
    const auto found = std::find(pair_networks_.begin(), pair_networks_.end(), name);
    const auto number = static_cast<std::uint8_t>(found - pair_networks_.begin());
    if (found != pair_networks_.end()) return number;
    if (pair_networks_.size() >= kNames) return static_cast<std::uint8_t>(kNames - 1);
    pair_networks_.push_back(kept(name));
    return number;
}

void LogModel::add(ProcessNumber process, const Connection& connection) {
    if (!process) return;
    LogPair pair;
    pair.process = *process;
    pair.from = connection.from;
    pair.to = connection.to;
    pair.from_device = whole_hex(connection.from_device).value_or(0);
    pair.to_device = whole_hex(connection.to_device).value_or(0);
    pair.transport = connection.transport;
    pair.network = network_number(connection.network);
    auto known = pairs_.find(pair);
    if (known == pairs_.end()) {
        if (pairs_.size() >= kPairs) {
            add_note("more connections than the log model keeps: transports may be missing");
            return;
        }
        constexpr std::size_t kLongestVia = 48;
        LogPairFacts facts;
        facts.via = connection.via.substr(0, kLongestVia);
        known = pairs_.emplace(pair, std::move(facts)).first;
    }
    known->second.gpu_direct |= connection.gpu_direct;
    known->second.channels |= std::uint64_t{1} << std::clamp(connection.channel, 0, 63);
}

void LogModel::add(const Variable& variable) {
    const auto same = [&](const LogVariable& known) { return known.name == variable.name; };
    auto known = std::find_if(summary_.variables.begin(), summary_.variables.end(), same);
    if (known == summary_.variables.end()) {
        if (summary_.variables.size() >= kVariables) return;
        summary_.variables.push_back({variable.name, {}});
        known = std::prev(summary_.variables.end());
    }
    add_distinct(known->values, variable.value, kValues);
}

void LogModel::add(ProcessNumber process, const Warning& warning) {
    ++summary_.warning_count;
    const std::string text = kept(warning.text);
    const auto same = [&](const LogWarning& known) { return known.text == text; };
    const auto known = std::find_if(summary_.warnings.begin(), summary_.warnings.end(), same);
    if (known != summary_.warnings.end()) {
        ++known->count;
    } else if (summary_.warnings.size() < kWarnings) {
        LogWarning row{text, kept(warning.source), {}, 0, std::nullopt, 1};
        if (process) row.host = processes_.host(*process), row.pid = processes_.pid(*process);
        summary_.warnings.push_back(std::move(row));
        warning_processes_.push_back(process);
    }
}

void LogModel::add(ProcessNumber process, const Collective& collective) {
    if (!collectives_.add(process, collective))
        add_note("more communicators than the log model keeps: their calls are only in the sums");
}

/// A record that starts inside another one may have the other's last characters before its host:
/// `sumnode-a` beside hundreds of lines of `node-a`. It is no host, its lines are torn.
void LogModel::add_nodes(LogSummary& result) const {
    constexpr std::uint64_t kTimesMore = 10;
    const std::vector<std::string>& hosts = processes_.hosts();
    const std::vector<std::uint64_t> lines = processes_.lines_of_hosts();
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        bool glued = false;
        for (std::size_t j = 0; j < hosts.size() && !glued; ++j)
            glued = i != j && lines[j] >= kTimesMore * lines[i] && hosts[i].ends_with(hosts[j]);
        if (glued)
            result.torn += lines[i];
        else
            result.nodes.push_back(hosts[i]);
    }
}

void LogModel::add_transports(const World& world, LogSummary& result) const {
    std::map<std::tuple<int, int, Transport>, LogTransport> transports;
    for (const auto& [pair, facts] : pairs_) {
        const auto global = world.global_pair(pair);
        if (!global) {
            ++result.other_connections;
            continue;
        }
        LogTransport& entry = transports[{global->first, global->second, pair.transport}];
        entry.from = global->first;
        entry.to = global->second;
        entry.transport = pair.transport;
        if (entry.network.empty()) entry.network = pair_networks_[pair.network];
        entry.gpu_direct |= facts.gpu_direct;
        entry.channels |= facts.channels;
        if (entry.via.empty() || facts.gpu_direct) entry.via = facts.via;
    }
    for (auto& row : transports) result.transports.push_back(std::move(row.second));
}

void LogModel::add(const TestRank& test) {
    LogRank rank;
    rank.rank = test.rank;
    rank.host = kept(test.host);
    rank.pid = test.pid;
    rank.gpu_index = test.device;
    if (test_ranks_.size() < kMembers) test_ranks_[test.rank] = std::move(rank);
}

/// nccl-tests names its ranks, which older versions of NCCL do not without the subsystem INIT.
void LogModel::add_test_ranks(LogSummary& result) const {
    if (!result.ranks.empty() || test_ranks_.empty()) return;
    const bool hosts = result.nodes.empty();
    for (const auto& row : test_ranks_) {
        result.ranks.push_back(row.second);
        if (hosts) add_distinct(result.nodes, row.second.host, kNames);
    }
    result.rank_count = static_cast<int>(test_ranks_.size());
}

LogSummary LogModel::summary() const {
    LogSummary result = summary_;
    const World world(members_, processes_);
    add_nodes(result);
    result.rank_count = world.size();
    result.rank_least = world.least();
    result.ranks = world.ranks();
    for (std::size_t i = 0; i < result.warnings.size(); ++i) {
        if (const ProcessNumber process = warning_processes_[i])
            result.warnings[i].rank = world.rank_of(*process);
    }
    add_test_ranks(result);
    result.setup = setup_.facts();
    // A log that begins late lacks the line that says it.
    if (result.networks.empty() && device_networks_.size() == 1) result.networks = device_networks_;
    result.collectives = collectives_.rows();
    result.calls = collectives_.ranges();
    result.tests = tests_.tables();
    result.communicators = CommunicatorTable(members_, groups_, collectives_).rows();
    add_transports(world, result);
    return result;
}

}  // namespace toporun::launcher
