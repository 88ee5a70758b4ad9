#include "launcher/log/fabric_facts.hpp"

#include <algorithm>
#include <tuple>

namespace toporun::launcher {
namespace {

using namespace detect::nccl_log;

constexpr std::size_t kMostFabricRows = 64;  // of each list

void add_new(std::vector<int>& numbers, int number) {
    if (numbers.size() < kMostFabricRows &&
        std::find(numbers.begin(), numbers.end(), number) == numbers.end())
        numbers.push_back(number);
}

void add_pair(std::vector<LogQueuePairs>& rows, const QueuePair& pair) {
    const auto same = [&](const LogQueuePairs& row) {
        return std::tie(row.device, row.port, row.mtu_bytes, row.gid_index) ==
               std::tie(pair.device, pair.port, pair.mtu_bytes, pair.gid_index);
    };
    const auto row = std::find_if(rows.begin(), rows.end(), same);
    if (row != rows.end())
        ++row->count;
    else if (rows.size() < kMostFabricRows)
        rows.push_back({pair.device, pair.port, pair.mtu_bytes, pair.gid_index, 1});
}

void add_device(std::vector<VirtualDevice>& rows, const VirtualDevice& device) {
    const auto same = [&](const VirtualDevice& row) {
        return row.number == device.number && row.name == device.name;
    };
    if (rows.size() < kMostFabricRows && std::none_of(rows.begin(), rows.end(), same))
        rows.push_back(device);
}

}  // namespace

void LogFabric::add_adapters(const std::string& host, const std::vector<std::string>& ports) {
    constexpr std::size_t kMostHosts = 4096;
    if (!ports.empty() && adapters.size() < kMostHosts && ports.size() <= kMostFabricRows)
        adapters.try_emplace(host, ports);
}

bool LogFabric::add(const Event& event) {
    if (const auto* driver = std::get_if<CudaDriver>(&event)) {
        add_new(cuda_drivers, driver->version);
    } else if (const auto* pair = std::get_if<QueuePair>(&event)) {
        add_pair(queue_pairs, *pair);
    } else if (const auto* device = std::get_if<VirtualDevice>(&event)) {
        add_device(virtual_devices, *device);
    } else if (const auto* mnnvl = std::get_if<Mnnvl>(&event)) {
        if (mnnvl->used) mnnvl_ranks = std::max(mnnvl_ranks.value_or(0), mnnvl->clique_ranks);
    } else if (const auto* coll_net = std::get_if<CollNet>(&event)) {
        if (collnet.empty()) collnet = coll_net->network;
    } else if (const auto* no_graph = std::get_if<NoGraph>(&event)) {
        add_new(patterns_without_graph, no_graph->pattern);
    } else if (std::holds_alternative<NoVerbs>(event)) {
        no_verbs = true;
    } else {
        return std::holds_alternative<NetworkPlugin>(event);
    }
    return true;
}

}  // namespace toporun::launcher
