#include "launcher/log/setup_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace toporun::launcher {
namespace {

using namespace detect::nccl_log;

constexpr std::size_t kMostRows = 256;  // of each list
constexpr std::size_t kMostRings = 64;
constexpr std::size_t kMostGpus = 4096;

template <typename Row>
void add_new(std::vector<Row>& rows, Row row, std::size_t most) {
    if (rows.size() < most && std::find(rows.begin(), rows.end(), row) == rows.end())
        rows.push_back(std::move(row));
}

bool same_pattern(const Pattern& a, const Pattern& b) {
    return std::tie(a.pattern, a.cross_nic, a.channels, a.intra_gbytes_per_s, a.inter_gbytes_per_s,
                    a.intra_type, a.inter_type) ==
           std::tie(b.pattern, b.cross_nic, b.channels, b.intra_gbytes_per_s, b.inter_gbytes_per_s,
                    b.intra_type, b.inter_type);
}

}  // namespace

bool SetupFacts::add(std::optional<std::size_t> process, std::string_view host,
                     const Event& event) {
    if (const auto* counts = std::get_if<ChannelCounts>(&event)) {
        if (!facts_.channels || counts->coll > facts_.channels->coll) facts_.channels = *counts;
    } else if (const auto* ring = std::get_if<RingOrder>(&event)) {
        add(*ring);
    } else if (const auto* pattern = std::get_if<Pattern>(&event)) {
        add(*pattern);
    } else if (const auto* affinity = std::get_if<Affinity>(&event)) {
        add_new(facts_.affinity,
                {std::string(host), affinity->device, affinity->cpus, affinity->gpu_cpus,
                 affinity->process_cpus},
                kMostGpus);
    } else if (const auto* timings = std::get_if<InitTimings>(&event)) {
        if (!facts_.slowest_init || timings->total > facts_.slowest_init->total)
            facts_.slowest_init = *timings;
    } else if (const auto* support = std::get_if<NvlsSupport>(&event)) {
        facts_.nvls_supported = facts_.nvls_supported.value_or(true) && support->available;
    } else if (std::holds_alternative<NvlsReady>(event)) {
        facts_.nvls_ready = true;
    } else if (const auto* choice = std::get_if<Choice>(&event)) {
        add(*choice);
    } else if (const auto* algorithms = std::get_if<TuningAlgorithms>(&event)) {
        if (facts_.tuning.empty()) tuning_process_ = process;
        if (tuning_process_ == process) tuning_algorithms_ = algorithms->names;
    } else if (const auto* row = std::get_if<TuningRow>(&event)) {
        if (tuning_process_ == process) add(*row);
    } else if (const auto* provider = std::get_if<Provider>(&event)) {
        if (facts_.provider.empty()) facts_.provider = provider->name;
    } else if (std::holds_alternative<ErrorTrail>(event)) {
        ++facts_.error_trails;
    } else if (std::holds_alternative<CommunicatorEnd>(event)) {
        ++facts_.ended;
    } else {
        return facts_.fabric.add(event) || std::holds_alternative<RingLink>(event) ||
               std::holds_alternative<Trees>(event) || std::holds_alternative<GpuDirect>(event);
    }
    return true;
}

void SetupFacts::add(const RingOrder& ring) {
    if (!facts_.rings.empty()) {
        const std::size_t known = facts_.rings.front().ranks.size();
        if (ring.ranks.size() < known) return;
        if (ring.ranks.size() > known) facts_.rings.clear();
    }
    const bool seen = std::any_of(facts_.rings.begin(), facts_.rings.end(),
                                  [&](const LogRing& row) { return row.channel == ring.channel; });
    if (!seen && facts_.rings.size() < kMostRings)
        facts_.rings.push_back({ring.channel, ring.ranks, ring.cut});
}

void SetupFacts::add(const Pattern& pattern) {
    for (LogPattern& row : facts_.patterns)
        if (same_pattern(row.pattern, pattern)) {
            ++row.count;
            return;
        }
    if (facts_.patterns.size() < kMostRows) facts_.patterns.push_back({pattern, 1});
}

void SetupFacts::add(const Choice& choice) {
    const std::uint64_t size_class = choice.bytes == 0 || choice.bytes > std::uint64_t{1} << 63
                                         ? 0
                                         : std::bit_ceil(choice.bytes);
    for (LogChoice& row : facts_.choices) {
        if (row.size_class == size_class && row.function == choice.function &&
            row.algorithm == choice.algorithm && row.protocol == choice.protocol) {
            ++row.count;
            return;
        }
    }
    constexpr std::size_t kLongest = 32;
    if (facts_.choices.size() < kMostRows)
        facts_.choices.push_back({std::string(choice.function), size_class,
                                  std::string(choice.algorithm.substr(0, kLongest)),
                                  std::string(choice.protocol.substr(0, kLongest)), 1});
}

void SetupFacts::add(const TuningRow& row) {
    constexpr std::array<const char*, 3> kProtocols = {"LL", "LL128", "Simple"};
    if (row.cells.size() != tuning_algorithms_.size() * kProtocols.size()) return;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const auto& [latency, bandwidth] = row.cells[i];
        if (bandwidth <= 0 || facts_.tuning.size() >= kMostRows) continue;
        const std::string& algorithm = tuning_algorithms_[i / kProtocols.size()];
        const char* protocol = kProtocols[i % kProtocols.size()];
        const bool known =
            std::any_of(facts_.tuning.begin(), facts_.tuning.end(), [&](const LogTuning& cell) {
                return cell.function == row.function && cell.algorithm == algorithm &&
                       cell.protocol == protocol;
            });
        if (!known)
            facts_.tuning.push_back({row.function, algorithm, protocol, latency, bandwidth});
    }
}

bool SetupFacts::add_graph(std::string_view host, std::string_view message) {
    const bool path = message.starts_with("GPU/") || message.starts_with("NET/");
    if (!path && !message.starts_with("===") && !message.starts_with("CPU/") &&
        message.find("+ ") == message.npos)
        return false;
    const GraphEvent event = parse_graph(message);
    if (const auto* line = std::get_if<PathLine>(&event)) add_path(host, *line);
    if (const auto* device = std::get_if<GpuDirectDevice>(&event))
        add_new(facts_.gpu_direct, {device->network, device->name, device->enabled}, kMostRows);
    return event.index() != 0;
}

/// The adapters that are nearest to a GPU, by bandwidth and hops as NCCL ranks them
/// (NCCL src/graph/topo.cc ncclTopoGetLocal).
void SetupFacts::add_path(std::string_view host, const PathLine& line) {
    if (line.from.kind != "GPU" || line.from.system.value_or(0) != 0) return;
    const auto gpu = bus_id_text(fmt::format("{:x}", line.from.id));
    if (!gpu || facts_.gpu_nics.size() >= kMostGpus) return;
    for (const LogGpuNic& row : facts_.gpu_nics)
        if (row.gpu == *gpu && row.host == host) return;
    const PathEntry* best = nullptr;
    const auto nearer = [](const PathEntry& a, const PathEntry& b) {
        return std::pair(-a.gbytes_per_s, a.hops) < std::pair(-b.gbytes_per_s, b.hops);
    };
    for (const PathEntry& entry : line.to)
        if (entry.to.kind == "NET" && (best == nullptr || nearer(entry, *best))) best = &entry;
    if (best == nullptr) return;
    for (const PathEntry& entry : line.to) {
        if (entry.to.kind == "NET" && !nearer(*best, entry) && facts_.gpu_nics.size() < kMostGpus)
            facts_.gpu_nics.push_back(
                {std::string(host), *gpu, entry.to.id, entry.type, entry.gbytes_per_s});
    }
}

}  // namespace toporun::launcher
