#include "detect/nccl_log/setup.hpp"

#include "base/text.hpp"
#include "detect/cpu_set.hpp"
#include "detect/nccl_log/cursor.hpp"
#include "detect/nccl_log/events.hpp"

namespace toporun::detect::nccl_log {
namespace {

using Parsed = std::optional<Event>;

/// `N what, ` or `N what` at the end.
std::optional<int> channels_of(Cursor& cursor, std::string_view what) {
    Cursor probe = cursor;
    const auto number = probe.number<int>();
    if (!number || *number < 0 || !probe.skip(" ") || !probe.skip(what)) return std::nullopt;
    (void)probe.skip(", ");
    cursor = probe;
    return number;
}

Parsed parse_channel_counts(std::string_view message) {
    Cursor cursor(message);
    ChannelCounts counts;
    const auto coll = channels_of(cursor, "coll channels");
    if (!coll) return std::nullopt;
    counts.coll = *coll;
    counts.collnet = channels_of(cursor, "collnet channels");
    counts.nvls = channels_of(cursor, "nvls channels");
    const auto per_node = channels_of(cursor, "p2p channels");
    const auto per_peer = channels_of(cursor, "p2p channels per peer");
    if (!per_node || !per_peer) return std::nullopt;
    counts.p2p = *per_node;
    counts.p2p_per_peer = *per_peer;
    return counts;
}

/// `00/08 :    0   1   2`, behind "Channel ".
Parsed parse_ring_order(std::string_view message) {
    constexpr std::size_t kMostRanks = 4096;
    Cursor cursor(message);
    if (!cursor.skip("Channel ")) return std::nullopt;
    RingOrder ring;
    const auto channel = cursor.number<int>();
    if (!channel || !cursor.skip("/")) return std::nullopt;
    const auto channels = cursor.number<int>();
    if (!channels || !cursor.skip(" :")) return std::nullopt;
    ring.channel = *channel;
    ring.channels = *channels;
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        ring.cut = cursor.rest() == "...";
        if (ring.cut) break;
        const auto rank = whole_number<int>(cursor.word());
        if (!rank || *rank < 0 || ring.ranks.size() >= kMostRanks) return std::nullopt;
        ring.ranks.push_back(*rank);
    }
    if (ring.ranks.empty() || *channel < 0 || *channels <= *channel) return std::nullopt;
    return ring;
}

/// `Ring 00 : 7 -> 0 -> 1`
Parsed parse_ring_link(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Ring ")) return std::nullopt;
    const auto channel = cursor.number<int>();
    if (!channel || !cursor.skip(" : ")) return std::nullopt;
    const auto previous = cursor.number<int>();
    if (!previous || !cursor.skip(" -> ")) return std::nullopt;
    const auto rank = cursor.number<int>();
    if (!rank || !cursor.skip(" -> ")) return std::nullopt;
    const auto next = whole_number<int>(trim(cursor.rest()));
    if (!next || *channel < 0 || *rank < 0) return std::nullopt;
    return RingLink{*channel, *previous, *rank, *next};
}

/// `1/-1/-1`
bool read_children(Cursor& cursor, TreeLink& link) {
    for (std::size_t i = 0; i < link.children.size(); ++i) {
        if (i > 0 && !cursor.skip("/")) return false;
        const auto child = cursor.number<int>();
        if (!child) return false;
        link.children[i] = *child;
    }
    return true;
}

/// `Tree 0 : -1 -> 0 -> 1/-1/-1`
Parsed parse_tree(Cursor cursor) {
    TreeLink link;
    const auto channel = cursor.number<int>();
    if (!channel || !cursor.skip(" : ")) return std::nullopt;
    const auto parent = cursor.number<int>();
    if (!parent || !cursor.skip(" -> ")) return std::nullopt;
    const auto rank = cursor.number<int>();
    if (!rank || !cursor.skip(" -> ") || !read_children(cursor, link)) return std::nullopt;
    if (!trim(cursor.rest()).empty() || *rank < 0) return std::nullopt;
    link.channel = *channel;
    link.parent = *parent;
    link.rank = *rank;
    return Trees{{link}};
}

/// `Trees [0] 1/-1/-1->0->-1 [1] ...`; a last entry that is cut is left out.
Parsed parse_trees(std::string_view message) {
    Cursor cursor(message);
    if (cursor.skip("Tree ")) return parse_tree(cursor);
    if (!cursor.skip("Trees ")) return std::nullopt;
    Trees trees;
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        TreeLink link;
        if (!cursor.skip("[")) break;
        const auto channel = cursor.number<int>();
        if (!channel || !cursor.skip("] ") || !read_children(cursor, link)) break;
        if (!cursor.skip("->")) break;
        const auto rank = cursor.number<int>();
        if (!rank || !cursor.skip("->")) break;
        const auto parent = cursor.number<int>();
        if (!parent || *rank < 0) break;
        link.channel = *channel;
        link.rank = *rank;
        link.parent = *parent;
        trees.links.push_back(link);
    }
    if (trees.links.empty()) return std::nullopt;
    return trees;
}

template <typename Number>
bool read_value(Cursor& cursor, Number& value) {
    const auto number = cursor.number<Number>();
    if (number) value = *number;
    return number.has_value();
}

/// `name VALUE`, a comma and a blank skipped behind it.
template <typename Number>
bool read_named(Cursor& cursor, std::string_view name, Number& value) {
    if (!cursor.skip(name) || !cursor.skip(" ")) return false;
    const auto number = cursor.number<Number>();
    if (!number) return false;
    value = *number;
    (void)cursor.skip(", ");
    return true;
}

Parsed parse_pattern(std::string_view message) {
    Cursor cursor(message);
    Pattern event;
    const bool begins = read_named(cursor, "Pattern", event.pattern) &&
                        read_named(cursor, "crossNic", event.cross_nic) &&
                        read_named(cursor, "nChannels", event.channels);
    if (!begins || (!cursor.skip("bw ") && !cursor.skip("speed "))) return std::nullopt;
    const auto intra = cursor.real();
    if (!intra || !cursor.skip("/")) return std::nullopt;
    const auto inter = cursor.real();
    if (!inter || !cursor.skip(", type ")) return std::nullopt;
    const auto intra_type = cursor.until("/");
    const auto inter_type = cursor.until(",");
    constexpr std::size_t kLongest = 4;
    if (!intra_type || !inter_type || intra_type->size() > kLongest ||
        inter_type->size() > kLongest)
        return std::nullopt;
    event.intra_gbytes_per_s = *intra;
    event.inter_gbytes_per_s = *inter;
    event.intra_type = *intra_type;
    event.inter_type = *inter_type;
    return event;
}

/// `ffffff,00000000` -> {32, ..., 55}; empty for anything else.
std::vector<int> cpus_of_mask(std::string_view mask) {
    constexpr int kMostCpus = 8192;
    std::vector<int> cpus;
    int cpu = 0;
    for (std::size_t i = mask.size(); i > 0 && cpu < kMostCpus; --i) {
        if (mask[i - 1] == ',') continue;
        const auto digit = whole_hex(mask.substr(i - 1, 1));
        if (!digit) return {};
        for (int bit = 0; bit < 4; ++bit, ++cpu)
            if ((*digit >> bit & 1) != 0) cpus.push_back(cpu);
    }
    return cpus;
}

/// True for `0-31,64-95` and `5`.
bool is_cpu_list(std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9' && text.size() <= 1024 &&
           text.find_first_not_of("0123456789,-") == text.npos;
}

/// `(GPU affinity = 0-31 ; CPU affinity = 0-127)` at the end of `text`.
void read_masks(std::string_view text, Affinity& event) {
    Cursor cursor(text);
    if (!cursor.until("(GPU affinity = ")) return;
    const auto gpu = cursor.until(" ; CPU affinity = ");
    const auto process = cursor.until(")");
    if (!gpu || !process || !is_cpu_list(*gpu) || !is_cpu_list(*process)) return;
    event.gpu_cpus = *gpu;
    event.process_cpus = *process;
}

/// The mask form has groups of eight digits; 2.27 prints a list in its place.
Parsed parse_affinity(std::string_view message) {
    Cursor cursor(message);
    const bool new_form = cursor.skip("ncclTopoGetCpuAffinity: Affinity for GPU ");
    if (!new_form && !cursor.skip("Setting affinity for GPU ")) return std::nullopt;
    const auto device = cursor.number<int>();
    if (!device || !cursor.skip(new_form ? " is " : " to ")) return std::nullopt;
    Affinity event{*device, {}, {}, {}};
    if (new_form) read_masks(cursor.rest(), event);
    if (new_form && cursor.skip("empty, ignoring."))
        return event.gpu_cpus.empty() || event.process_cpus.empty() ? Parsed() : Parsed(event);
    std::string_view cpus = cursor.word();
    if (cpus.ends_with('.')) cpus.remove_suffix(1);
    if (new_form || cpus.find('-') != cpus.npos)
        event.cpus = is_cpu_list(cpus) ? std::string(cpus) : std::string();
    else
        event.cpus = CpuSet(cpus_of_mask(cpus)).text();
    if (event.cpus.empty()) return std::nullopt;
    return event;
}

Parsed parse_timings(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("Init timings")) return std::nullopt;
    if (!cursor.until(": ")) return std::nullopt;
    InitTimings event;
    if (!read_named(cursor, "rank", event.rank) || !cursor.skip(" ") ||
        !read_named(cursor, "nranks", event.ranks) || !cursor.skip(" total "))
        return std::nullopt;
    const auto total = cursor.real();
    if (!total || !cursor.skip(" (")) return std::nullopt;
    event.total = *total;
    while (!cursor.rest().empty()) {
        const std::string_view name = cursor.word();
        if (!cursor.skip(" ")) return std::nullopt;
        const auto seconds = cursor.real();
        if (!seconds) return std::nullopt;
        event.parts.emplace_back(name, *seconds);
        if (cursor.skip(")")) return event;
        if (!cursor.skip(",")) return std::nullopt;
    }
    return std::nullopt;
}

Parsed parse_nvls(std::string_view message) {
    Cursor cursor(message);
    if (cursor.skip("NVLS comm ")) {
        return message.find(" nHeads ") == message.npos ? Parsed() : Parsed(NvlsReady{});
    }
    if (!cursor.skip("NVLS multicast support is ")) return std::nullopt;
    NvlsSupport event;
    event.available = !cursor.skip("not ");
    if (!cursor.skip("available on dev ")) return std::nullopt;
    const auto device = cursor.number<int>();
    if (!device) return std::nullopt;
    event.device = *device;
    return event;
}

/// `(distance 4 <= 4`
bool read_distance(Cursor& cursor, GpuDirect& event) {
    if (!cursor.skip("(distance ")) return false;
    const auto distance = cursor.number<int>();
    if (!distance || (!cursor.skip(" <= ") && !cursor.skip(" > "))) return false;
    const auto limit = cursor.number<int>();
    event.distance = *distance;
    event.limit = limit.value_or(0);
    return limit.has_value();
}

Parsed parse_gpu_direct(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("GPU Direct RDMA ")) return std::nullopt;
    GpuDirect event;
    event.enabled = cursor.skip("Enabled");
    if (!event.enabled && !cursor.skip("Disabled")) return std::nullopt;
    if (cursor.skip(" for GPU ")) {
        const auto gpu = cursor.until(" / HCA ");
        if (!gpu) return std::nullopt;
        event.gpu = *gpu;
        event.nic = cursor.word();
    } else if (cursor.skip(" for GPU/")) {
        event.gpu = cursor.word();
        const auto rank = cursor.until(" - NET/");
        if (!rank) return std::nullopt;
        event.nic = cursor.word();
    } else {
        return std::nullopt;
    }
    cursor.skip_blanks();
    return read_distance(cursor, event) ? Parsed(event) : std::nullopt;
}

constexpr std::array<std::string_view, 7> kAlgorithms = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols = {"LL", "LL128", "SIMPLE"};

/// A number (up to 2.23) as its name.
template <std::size_t N>
std::string_view named(const std::array<std::string_view, N>& names, std::string_view word) {
    const auto number = whole_number<std::size_t>(word);
    return number && *number < N ? names[*number] : word;
}

/// `AllReduce_AGxLL_R nchannels 8 nthreads 512`, behind `AllReduce [Symmetric]: 1048576 Bytes ->
/// Kernel ` (2.27 and later).
Parsed symmetric_choice(Cursor& cursor, Choice event) {
    const std::string_view kernel = cursor.word();
    const std::size_t name = kernel.find('_');
    if (name == kernel.npos || !cursor.skip(" nchannels ")) return std::nullopt;
    event.algorithm = "SYMMETRIC";
    event.protocol = kernel.substr(name + 1);
    event.channels = cursor.number<int>();
    return event.protocol.empty() || !event.channels ? Parsed() : Parsed(event);
}

Parsed parse_choice(std::string_view message) {
    Cursor cursor(message);
    Choice event;
    if (!cursor.rest().empty() && (cursor.rest().front() < '0' || cursor.rest().front() > '9')) {
        constexpr std::size_t kLongest = 24;
        if (message.substr(0, kLongest + 2).find(": ") == message.npos) return std::nullopt;
        const auto function = cursor.until(": ");
        event.function = function->substr(0, function->find(' '));
    }
    const auto bytes = cursor.number<std::uint64_t>();
    if (!bytes) return std::nullopt;
    event.bytes = *bytes;
    if (cursor.skip(" Bytes -> Kernel ")) return symmetric_choice(cursor, event);
    if (cursor.skip(" Bytes -> cudaMemcpy")) {
        event.algorithm = "COPY_ENGINE";
        return event;
    }
    if (!cursor.skip(" Bytes -> Algo ")) return std::nullopt;
    event.algorithm = named(kAlgorithms, cursor.word());
    if (!cursor.skip(" proto ")) return std::nullopt;
    event.protocol = named(kProtocols, cursor.word());
    if (cursor.skip(" channel{Lo..Hi}={")) {
        const auto low = cursor.number<int>();
        if (!low || !cursor.skip("..")) return std::nullopt;
        const auto high = cursor.number<int>();
        if (!high || !cursor.skip("}") || *high < *low) return std::nullopt;
        event.channels = *high - *low + 1;
    }
    if (event.algorithm.empty() || event.protocol.empty()) return std::nullopt;
    return event;
}

Parsed parse_tuning(std::string_view message) {
    constexpr std::size_t kMostCells = 64;
    Cursor cursor(message);
    cursor.skip_blanks();
    const auto title = cursor.until("|");
    if (!title) return std::nullopt;
    const std::string_view name = trim(*title);
    if (name == "Algorithm" || name == "Latency/AlgBw") {
        TuningAlgorithms event;
        while (const auto cell = cursor.until("|")) {  // up to 2.17 one cell a protocol: "Tree/ LL"
            const std::string_view algorithm = trim(cell->substr(0, cell->find('/')));
            if (event.names.empty() || event.names.back() != algorithm)
                event.names.emplace_back(algorithm);
            if (event.names.size() > kMostCells) return std::nullopt;
        }
        return event.names.empty() ? Parsed() : Parsed(event);
    }
    TuningRow event{std::string(name), {}};
    while (const auto cell = cursor.until("|")) {
        Cursor values(trim(*cell));
        const auto latency = values.real();
        if (!latency || !values.skip("/")) return std::nullopt;
        values.skip_blanks();
        const auto bandwidth = values.real();
        if (!bandwidth || !values.rest().empty() || event.cells.size() >= kMostCells)
            return std::nullopt;
        event.cells.emplace_back(*latency, *bandwidth);
    }
    if (event.cells.empty() || name.empty() || name.size() > 16) return std::nullopt;
    return event;
}

/// `init.cc:1358 -> 2 [Async thread]`
Parsed parse_trail(std::string_view message) {
    Cursor cursor(message);
    const std::string_view source = cursor.word();
    const std::size_t colon = source.rfind(':');
    if (colon == source.npos || !whole_number<int>(source.substr(colon + 1))) return std::nullopt;
    if (cursor.skip(" (") && !cursor.until(")")) return std::nullopt;  // 2.30.7: the function
    if (!cursor.skip(" -> ")) return std::nullopt;
    const auto code = cursor.number<int>();
    if (!code) return std::nullopt;
    return ErrorTrail{std::string(source), *code};
}

/// `comm 0x.. rank 0 nranks 8 cudaDev 0 busId 1a000 - Destroy COMPLETE`
Parsed parse_end(std::string_view message) {
    const bool abort = message.ends_with("- Abort COMPLETE");
    if (!abort && !message.ends_with("- Destroy COMPLETE")) return std::nullopt;
    Cursor cursor(message);
    if (!cursor.until("comm ")) return std::nullopt;
    CommunicatorEnd event;
    event.communicator = cursor.word();
    event.abort = abort;
    return cursor.skip(" rank ") && read_value(cursor, event.rank) ? Parsed(event) : std::nullopt;
}

Parsed parse_provider(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("NET/OFI Selected Provider is ") &&
        !cursor.skip("NET/OFI Selected provider is "))
        return std::nullopt;
    std::string_view name = cursor.word();
    constexpr std::size_t kLongest = 64;
    if (name.ends_with(',')) name.remove_suffix(1);  // ", fabric is efa-direct"
    if (name.empty() || name.size() > kLongest) return std::nullopt;
    return Provider{std::string(name)};
}

}  // namespace

std::optional<Event> parse_setup(std::string_view message) {
    static constexpr Parser kParsers[] = {{"0123456789", parse_channel_counts},
                                          {"C", parse_ring_order},
                                          {"R", parse_ring_link},
                                          {"T", parse_trees},
                                          {"P", parse_pattern},
                                          {"nS", parse_affinity},
                                          {"I", parse_timings},
                                          {"N", parse_nvls},
                                          {"G", parse_gpu_direct},
                                          {"", parse_choice},
                                          {"", parse_tuning},
                                          {"", parse_trail},
                                          {"", parse_end},
                                          {"N", parse_provider}};
    return first_of(kParsers, message);
}

std::optional<Event> parse_test_rank(std::string_view line) {
    const std::size_t at = line.find("#");
    if (at == line.npos) return std::nullopt;
    Cursor cursor(line.substr(at + 1));
    cursor.skip_blanks();
    TestRank event;
    if (!cursor.skip("Rank")) return std::nullopt;
    cursor.skip_blanks();
    if (!read_value(cursor, event.rank)) return std::nullopt;
    cursor.skip_blanks();
    if (cursor.skip("Group ")) {
        (void)cursor.word();
        cursor.skip_blanks();
    }
    if (!cursor.skip("Pid ")) return std::nullopt;
    const auto pid = whole_number<std::int64_t>(cursor.word());
    cursor.skip_blanks();
    if (!pid || !cursor.skip("on ")) return std::nullopt;
    event.pid = *pid;
    event.host = cursor.word();
    cursor.skip_blanks();
    if (event.host.empty() || !cursor.skip("device ")) return std::nullopt;
    const auto device = whole_number<int>(cursor.word());
    if (!device || *device < 0 || event.rank < 0) return std::nullopt;
    event.device = *device;
    (void)cursor.until("] ");
    constexpr std::size_t kLongest = 80;
    event.gpu = trim(cursor.rest().substr(0, kLongest));
    return event;
}

}  // namespace toporun::detect::nccl_log
