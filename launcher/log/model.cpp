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
constexpr std::size_t kHosts = 4096;
constexpr std::size_t kVariables = 256;
constexpr std::size_t kValues = 8;         // distinct values of one variable
constexpr std::size_t kWarnings = 16;      // distinct warnings
constexpr std::size_t kMembers = 1 << 16;  // ranks in communicators
constexpr std::size_t kPairs = 1 << 18;    // connected pairs
constexpr std::size_t kTextBytes = 1024;   // of one kept text

std::string kept(std::string_view text) {
    return std::string(text.substr(0, kTextBytes));
}

void add_distinct(std::vector<std::string>& list, std::string_view text, std::size_t limit) {
    const std::string value = kept(text);
    if (value.empty() || list.size() >= limit) return;
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::string process_key(const Record& record, std::string_view communicator) {
    return fmt::format("{}:{}:{}", record.host, record.pid, communicator);
}

std::optional<std::uint64_t> pointer_number(std::string_view text) {
    return text.starts_with("0x") ? whole_hex(text.substr(2)) : std::nullopt;
}

}  // namespace

void LogModel::add(const Line& line) {
    if (!line.from_nccl()) return;
    ++summary_.lines;
    if (line.torn) ++summary_.torn;
    add_host(line.record.host);
    std::visit([&](const auto& event) { add(line.record, event); }, line.event);
}

void LogModel::add_host(const std::string& name) {
    const std::string host = kept(name);
    if (host.empty() || (host_lines_.size() >= kHosts && !host_lines_.contains(host))) return;
    if (host_lines_[host]++ == 0) summary_.nodes.push_back(host);
}

/// A record that starts inside another one may have the other's last characters before its host:
/// `sumnode-a` beside hundreds of lines of `node-a`.
bool LogModel::is_glued_host(const std::string& host) const {
    constexpr std::uint64_t kTimesMore = 10;
    const std::uint64_t lines = host_lines_.at(host);
    const auto holds = [&](const auto& other) {
        return other.first != host && host.ends_with(other.first) &&
               other.second >= kTimesMore * lines;
    };
    return std::any_of(host_lines_.begin(), host_lines_.end(), holds);
}

void LogModel::add_note(const std::string& note) {
    add_distinct(summary_.notes, note, kNames);
}

void LogModel::add(const Record&, const Unknown&) {
    ++summary_.unknown;
}

void LogModel::add(const Record&, const Version& version) {
    summary_.rccl |= version.rccl;
    add_distinct(summary_.versions, version.version, kNames);
}

void LogModel::add(const Record&, const Bootstrap& bootstrap) {
    for (const Interface& interface : bootstrap.interfaces) {
        add_distinct(summary_.bootstrap_interfaces, interface.name, kNames);
    }
}

void LogModel::add(const Record&, const NetworkDevices& devices) {
    for (const std::string& device : devices.devices) {
        add_distinct(summary_.rdma_devices, device, kNames);
    }
    if (devices.network == "IB") return;  // its interface is for the handshake only
    for (const Interface& interface : devices.interfaces) {
        add_distinct(summary_.data_interfaces, interface.name, kNames);
    }
}

void LogModel::add(const Record&, const UsingNetwork& network) {
    add_distinct(summary_.networks, network.name, kNames);
}

void LogModel::add(const Record&, const Plugin& plugin) {
    if (!plugin.loaded || summary_.plugins.size() >= kNames) return;
    summary_.plugins.emplace(plugin.kind, kept(plugin.name));
}

/// What all members of one communicator print alike: commId, else (splits of 2.23 and later) the
/// parent's group with the number of the split and the colour, else (before 2.16) only the size.
std::string LogModel::group_of(const Record& record, const Init& init) const {
    if (!init.id.empty()) return init.id;
    if (init.parent.empty()) return fmt::format("size {}", init.ranks);
    const auto parent = groups_.find(process_key(record, init.parent));
    return fmt::format("{} split {} color {}", parent == groups_.end() ? "?" : parent->second,
                       init.split.value_or(0), init.color.value_or(0));
}

void LogModel::add(const Record& record, const Init& init) {
    const std::string pointer_key = process_key(record, init.communicator);
    const std::string key = fmt::format("{} {} {}/{}", pointer_key, init.id, init.rank, init.ranks);
    if (const auto found = member_at_.find(key); found != member_at_.end()) {
        members_[found->second].complete |= init.complete;
        return;
    }
    if (members_.size() >= kMembers) {
        add_note("more communicators than the log model keeps: ranks may be missing");
        return;
    }
    Member member{group_of(record, init), kept(record.host), record.pid, init, init.complete, {}};
    const auto parent = groups_.find(process_key(record, init.parent));
    if (!init.parent.empty() && parent != groups_.end()) member.parent = parent->second;
    groups_[pointer_key] = member.group;
    member_at_.emplace(key, members_.size());
    if (const auto pointer = pointer_number(init.communicator))
        collectives_.name(process_of(record), *pointer, member.group);
    members_.push_back(std::move(member));
}

void LogModel::add(const Record&, const CommunicatorShape& shape) {
    if (shape.ranks < shape_ranks_) return;
    shape_ranks_ = shape.ranks;
    summary_.node_count = shape.nodes;
}

void LogModel::add(const Record& record, const Connection& connection) {
    Pair pair{kept(record.host),      record.pid,
              connection.from,        connection.to,
              connection.from_device, connection.to_device,
              connection.transport,   kept(connection.network)};
    if (pairs_.size() >= kPairs && !pairs_.contains(pair)) {
        add_note("more connections than the log model keeps: transports may be missing");
        return;
    }
    pairs_[std::move(pair)] |= connection.gpu_direct;
}

void LogModel::add(const Record&, const Variable& variable) {
    const auto same = [&](const LogVariable& known) { return known.name == variable.name; };
    auto known = std::find_if(summary_.variables.begin(), summary_.variables.end(), same);
    if (known == summary_.variables.end()) {
        if (summary_.variables.size() >= kVariables) return;
        summary_.variables.push_back({variable.name, {}});
        known = std::prev(summary_.variables.end());
    }
    const std::string value = kept(variable.value);
    const bool seen =
        std::find(known->values.begin(), known->values.end(), value) != known->values.end();
    if (!seen && known->values.size() < kValues) known->values.push_back(value);
}

void LogModel::add(const Record& record, const Warning& warning) {
    ++summary_.warning_count;
    const std::string text = kept(warning.text);
    const auto same = [&](const LogWarning& known) { return known.text == text; };
    const auto known = std::find_if(summary_.warnings.begin(), summary_.warnings.end(), same);
    if (known != summary_.warnings.end()) {
        ++known->count;
    } else if (summary_.warnings.size() < kWarnings) {
        summary_.warnings.push_back(
            {text, kept(warning.source), kept(record.host), record.pid, std::nullopt, 1});
    }
}

/// The same number for the same process.
std::size_t LogModel::process_of(const Record& record) {
    return processes_.try_emplace({kept(record.host), record.pid}, processes_.size()).first->second;
}

void LogModel::add(const Record& record, const Collective& collective) {
    if (!collectives_.add(process_of(record), collective))
        add_note("more communicators than the log model keeps: their calls are only in the sums");
}

LogSummary LogModel::summary() const {
    LogSummary result = summary_;
    const World world(members_);
    const auto glued = [&](const std::string& host) { return is_glued_host(host); };
    for (const std::string& host : summary_.nodes) {
        if (glued(host)) result.torn += host_lines_.at(host);
    }
    std::erase_if(result.nodes, glued);
    result.rank_count = world.size();
    result.ranks = world.ranks();
    for (LogWarning& warning : result.warnings) {
        warning.rank = world.rank_of(warning.host, warning.pid);
    }
    result.collectives = collectives_.rows();
    result.communicators = CommunicatorTable(members_, collectives_).rows();
    std::map<std::tuple<int, int, Transport>, LogTransport> transports;
    for (const auto& [pair, gpu_direct] : pairs_) {
        const auto global = world.global_pair(pair);
        if (!global) {
            ++result.other_connections;
            continue;
        }
        LogTransport& entry = transports[{global->first, global->second, pair.transport}];
        entry.from = global->first;
        entry.to = global->second;
        entry.transport = pair.transport;
        if (entry.network.empty()) entry.network = pair.network;
        entry.gpu_direct |= gpu_direct;
    }
    for (auto& row : transports) result.transports.push_back(std::move(row.second));
    return result;
}

}  // namespace toporun::launcher
