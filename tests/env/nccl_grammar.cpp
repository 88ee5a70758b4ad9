#include "nccl_grammar.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace toporun::tests {
namespace {

using Rule = std::string (*)(const std::string& value, const Reader& reader);

constexpr int kMostInterfaces = 16;  // MAX_IFS of NCCL src/include/socket.h
constexpr int kMostHcaEntries = 32;  // MAX_IB_DEVS of NCCL src/transport/net_ib.cc
constexpr std::size_t kLongestInterface = 15;

bool before(const Reader& reader, int version) {
    return reader.nccl && *reader.nccl < version;
}

std::optional<long long> plain_integer(const std::string& value) {
    if (value.empty() || value.size() > 18) return std::nullopt;
    const bool digits =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    // A leading 0 would be read as octal.
    if (!digits || (value.size() > 1 && value[0] == '0')) return std::nullopt;
    return std::stoll(value);
}

// --- integers ---------------------------------------------------------------------------------

struct Range {
    long long least, most;
    int since = 0;     ///< version that reads the variable first
    int multiple = 1;  ///< of what it must be
};

const std::map<std::string, Range>& integers() {
    static const std::map<std::string, Range> ranges = {
        {"NCCL_P2P_DISABLE", {1, 1}},
        {"NCCL_SHM_DISABLE", {1, 1}},
        {"NCCL_IB_DISABLE", {1, 1}},
        {"NCCL_IGNORE_DISABLED_P2P", {1, 1, 21200}},
        {"NCCL_NVLS_ENABLE", {0, 2, 21700}},
        {"NCCL_MNNVL_ENABLE", {0, 2, 22100}},
        {"NCCL_CUMEM_ENABLE", {0, 1, 21800}},
        {"NCCL_CUMEM_HOST_ENABLE", {0, 1, 22300}},
        {"NCCL_IB_GID_INDEX", {0, 255}},
        {"NCCL_IB_TC", {0, 255}},
        {"NCCL_IB_SL", {0, 15}},
        {"NCCL_IB_TIMEOUT", {1, 31}},
        {"NCCL_IB_RETRY_CNT", {0, 7}},
        {"NCCL_IB_QPS_PER_CONNECTION", {1, 128, 21000}},
        {"NCCL_IB_SPLIT_DATA_ON_QPS", {0, 1, 21800}},
        {"NCCL_IB_ADAPTIVE_ROUTING", {0, 1, 21600}},
        {"NCCL_CROSS_NIC", {0, 2}},
        {"NCCL_SOCKET_NTHREADS", {1, 16}},
        {"NCCL_NSOCKS_PERTHREAD", {1, 64}},
        {"NCCL_MIN_CTAS", {1, 64, 21700}},
        {"NCCL_MAX_CTAS", {1, 64, 21700}},
        {"NCCL_NCHANNELS_PER_NET_PEER", {1, 32, 21200}},
        {"NCCL_BUFFSIZE", {4096, 1LL << 30}},
        {"NCCL_NTHREADS", {64, 512, 0, 32}},
        {"NCCL_NET_GDR_READ", {0, 1}},
        {"NCCL_NET_GDR_C2C", {0, 1, 22602}},
        {"NCCL_PXN_DISABLE", {0, 1, 21200}},
        {"NCCL_DMABUF_ENABLE", {0, 1, 21304}},
        {"NCCL_IB_MERGE_NICS", {0, 1, 22003}},
        {"OMP_NUM_THREADS", {1, 4096}},
        {"TOPORUN_NUM_WORKERS", {0, 4096}},
    };
    return ranges;
}

std::string integer_fault(const std::string& value, const Range& range, const Reader& reader) {
    const auto number = plain_integer(value);
    if (!number) return "no plain decimal number";
    if (*number < range.least || *number > range.most) return "out of range";
    if (*number % range.multiple != 0) return "not a multiple";
    if (before(reader, range.since)) return "not read by this version";
    return "";
}

std::string channels(const std::string& value, const Reader& reader) {
    return integer_fault(value, {1, before(reader, 22500) ? 32 : 64}, reader);
}

// --- levels -----------------------------------------------------------------------------------

/// Names of the version's table; the portable ones where the version is not known.
std::set<std::string> level_words(const Reader& reader) {
    std::set<std::string> words = {"LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS"};
    if (!reader.nccl) return words;
    if (*reader.nccl >= 21200) words.insert("PXN");
    if (*reader.nccl >= 22600) words.insert("C2C");
    if (*reader.nccl >= 22700) words.insert("P2C");
    return words;
}

std::string level(const std::string& value, const Reader& reader) {
    if (before(reader, 20600)) {
        const auto number = plain_integer(value);
        return number && *number <= 5 ? "" : "names are read from 2.6 on";
    }
    return level_words(reader).contains(value) ? "" : "no level of this version";
}

// --- interfaces -------------------------------------------------------------------------------

bool interface_exists(const Reader& reader, const std::string& name) {
    return std::any_of(reader.machine.nics.begin(), reader.machine.nics.end(),
                       [&](const detect::Nic& nic) { return nic.name == name; });
}

int interfaces_starting(const Reader& reader, const std::string& prefix) {
    std::set<std::string> names;
    for (const detect::Nic& nic : reader.machine.nics)
        if (nic.name.starts_with(prefix)) names.insert(nic.name);
    return static_cast<int>(names.size());
}

/// A comma list of names that exist and that the list can hold.
std::string name_list_fault(const std::string& list, const Reader& reader) {
    const std::vector<std::string> names = split(list, ',');
    if (names.size() > kMostInterfaces) return "more entries than are read";
    for (const std::string& name : names) {
        if (name.empty() || name.size() > kLongestInterface) return "a name of no or many letters";
        if (name.find_first_of("^=: \t\n") != std::string::npos) return "a letter with a meaning";
        if (printable(name) != name) return "a letter that is not printable";
        if (!interface_exists(reader, name)) return "no such interface: " + name;
    }
    return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? "" : "twice";
}

/// `[^][=]name[,name...]`. Only exact selections are taken: an exclusion lets lo in.
std::string nccl_interfaces(const std::string& value, const Reader& reader) {
    if (value.size() < 2) return "a value of one letter is ignored";
    if (value[0] == '^') return "an exclusion excludes nothing else";
    const bool exact = value[0] == '=';
    const std::string list = value.substr(exact ? 1 : 0);
    if (std::string fault = name_list_fault(list, reader); !fault.empty()) return fault;
    if (exact) return "";
    for (const std::string& name : split(list, ','))
        if (interfaces_starting(reader, name) != 1) return "a prefix of another interface too";
    return "";
}

std::string interface_names(const std::string& value, const Reader& reader) {
    return name_list_fault(value, reader);
}

std::string address_family(const std::string& value, const Reader&) {
    return value == "AF_INET" || value == "AF_INET6" ? "" : "neither AF_INET nor AF_INET6";
}

// --- RDMA devices -----------------------------------------------------------------------------

bool port_exists(const Reader& reader, const std::string& device, const std::string& port) {
    return std::any_of(reader.machine.nics.begin(), reader.machine.nics.end(),
                       [&](const detect::Nic& nic) {
                           if (nic.rdma_device != device) return false;
                           return port.empty() || std::to_string(nic.port.value_or(1)) == port;
                       });
}

/// `[^][=]device[:port][,...]` of devices that exist. `=` always: `mlx5_1` also takes `mlx5_10`.
std::string hca_list(const std::string& value, const Reader& reader) {
    const std::size_t list = value.starts_with("^=") ? 2 : value.starts_with("=") ? 1 : 0;
    if (list == 0) return "names are prefixes without =";
    const std::vector<std::string> entries = split(value.substr(list), ',');
    if (entries.size() > kMostHcaEntries) return "more entries than are read";
    for (const std::string& entry : entries) {
        const std::vector<std::string> parts = split(entry, ':');
        if (parts.size() > 2 || parts[0].empty()) return "no device[:port]: " + entry;
        if (parts.size() == 2 && !plain_integer(parts[1])) return "no port number: " + entry;
        if (!port_exists(reader, parts[0], parts.size() == 2 ? parts[1] : ""))
            return "no such port: " + entry;
    }
    return std::set<std::string>(entries.begin(), entries.end()).size() == entries.size() ? ""
                                                                                          : "twice";
}

/// UCX: `device:port` of RDMA or names of interfaces.
std::string ucx_devices(const std::string& value, const Reader& reader) {
    for (const std::string& entry : split(value, ',')) {
        const std::vector<std::string> parts = split(entry, ':');
        const bool rdma = parts.size() == 2 && port_exists(reader, parts[0], parts[1]);
        if (!rdma && !interface_exists(reader, entry)) return "no such device: " + entry;
    }
    return "";
}

// --- log and plugins --------------------------------------------------------------------------

std::string debug_level(const std::string& value, const Reader&) {
    return value == "INFO" || value == "WARN" || value == "VERSION" ? "" : "no level of a tool";
}

std::string subsystems(const std::string& value, const Reader& reader) {
    static const std::map<std::string, int> since = {
        {"INIT", 0},          {"P2P", 0},     {"SHM", 0},         {"NET", 0},      {"GRAPH", 0},
        {"TUNING", 0},        {"ENV", 0},     {"ALLOC", 20900},   {"NVLS", 21700}, {"PROXY", 21800},
        {"BOOTSTRAP", 22100}, {"REG", 22100}, {"PROFILE", 22200}, {"RAS", 22400}};
    for (const std::string& word : split(value, ',')) {
        const auto found = since.find(word);
        if (found == since.end()) return "no subsystem of a tool: " + word;
        if (found->second > reader.nccl.value_or(20700)) return "unknown to this version: " + word;
    }
    return "";
}

std::string log_file(const std::string& value, const Reader&) {
    if (!value.starts_with('/')) return "no absolute path";
    if (value.size() > 1023) return "longer than is read";
    std::set<char> found;
    for (std::size_t i = 0; i + 1 < value.size(); ++i)
        if (value[i] == '%') found.insert(value[++i]);
    return found.contains('h') && found.contains('p') ? "" : "processes would share it";
}

std::string absolute_file(const std::string& value, const Reader&) {
    if (!value.starts_with('/')) return "no absolute path";
    return value.size() <= 254 ? "" : "longer than is read";  // MAX_STR_LEN, plugin_open.cc
}

// --- GPUs -------------------------------------------------------------------------------------

/// UUIDs in full, or numbers of nvidia-smi; CUDA stops reading at the first word of another kind.
std::string gpu_list(const std::string& value, const Reader& reader) {
    std::set<std::string> uuids, seen;
    for (const detect::Gpu& gpu : reader.machine.gpus)
        if (gpu.uuid) uuids.insert(*gpu.uuid);
    const std::vector<std::string> words = split(value, ',');
    for (const std::string& word : words) {
        const auto number = plain_integer(word);
        if (number.has_value() != plain_integer(words.front()).has_value()) return "mixed kinds";
        const bool known = number ? *number < static_cast<long long>(reader.machine.gpus.size())
                                  : uuids.contains(word);
        if (!known) return "no GPU of this machine: " + word;
        if (!seen.insert(word).second) return "twice: " + word;
    }
    return "";
}

std::string device_order(const std::string& value, const Reader&) {
    return value == "PCI_BUS_ID" ? "" : "not the order of the list";
}

const std::map<std::string, Rule>& rules() {
    static const std::map<std::string, Rule> all = {
        {"NCCL_P2P_LEVEL", level},
        {"NCCL_NET_GDR_LEVEL", level},
        {"NCCL_SOCKET_IFNAME", nccl_interfaces},
        {"NCCL_SOCKET_FAMILY", address_family},
        {"GLOO_SOCKET_IFNAME", interface_names},
        {"TP_SOCKET_IFNAME", interface_names},
        {"OMPI_MCA_btl_tcp_if_include", interface_names},
        {"OMPI_MCA_oob_tcp_if_include", interface_names},
        {"PRTE_MCA_oob_tcp_if_include", interface_names},
        {"PRTE_MCA_prte_if_include", interface_names},
        {"UCX_NET_DEVICES", ucx_devices},
        {"NCCL_IB_HCA", hca_list},
        {"NCCL_MIN_NCHANNELS", channels},
        {"NCCL_MAX_NCHANNELS", channels},
        {"NCCL_DEBUG", debug_level},
        {"NCCL_DEBUG_SUBSYS", subsystems},
        {"NCCL_DEBUG_FILE", log_file},
        {"NCCL_PROFILER_PLUGIN", absolute_file},
        {"CUDA_VISIBLE_DEVICES", gpu_list},
        {"HIP_VISIBLE_DEVICES", gpu_list},
        {"CUDA_DEVICE_ORDER", device_order},
    };
    return all;
}

bool like(std::string_view name, std::string_view pattern) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return name == pattern;
    return name.size() >= pattern.size() - 1 && name.starts_with(pattern.substr(0, star)) &&
           name.ends_with(pattern.substr(star + 1));
}

}  // namespace

std::string grammar_fault(const std::string& name, const std::string& value, const Reader& reader) {
    if (value.empty()) return "empty";
    if (value.find('\0') != std::string::npos) return "a zero byte ends it";
    if (const auto found = integers().find(name); found != integers().end())
        return integer_fault(value, found->second, reader);
    if (const auto found = rules().find(name); found != rules().end())
        return found->second(value, reader);
    return "no rule is written down for this variable";
}

bool never_set(std::string_view name) {
    static constexpr std::string_view kNever[] = {
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_COMM_ID",
        "NCCL_TOPO_FILE",
        "NCCL_GRAPH_FILE",
        "NCCL_HOSTID",
        "NCCL_GDR_FLUSH_DISABLE",
        "NCCL_NET_FORCE_FLUSH",
        "NCCL_IB_PCI_RELAXED_ORDERING",
        "NCCL_LL128_C2C",
        "NCCL_LAUNCH_RACE_FATAL",
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_COLLNET_ENABLE",
        "NCCL_ENV_PLUGIN",
        "NCCL_CONF_FILE",
        "NCCL_GIN_PLUGIN",
        "NCCL_RMA_PLUGIN",
        "NCCL_IB_PKEY",
        "NCCL_IB_ROCE_VERSION_NUM",
        "NCCL_IB_ADDR_*",
        "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
        "NCCL_LAUNCH_MODE",
        "NCCL_WORK_FIFO_*",
        "NCCL_THREAD_THRESHOLDS",
        "NCCL_CGA_CLUSTER_SIZE",
        "NCCL_SET_STACK_SIZE",
        "NCCL_RUNTIME_CONNECT",
        "NCCL_SYM_*",
        "NCCL_WIN_*",
        "NCCL_CTA_POLICY",
        "NCCL_GRAPH_MIXING_SUPPORT",
        "NCCL_GRAPH_STREAM_ORDERING",
        "NCCL_P2P_*_CHUNKSIZE",
        "NCCL_NVLS_*SIZE",
        "NCCL_COMM_BLOCKING",
        "NCCL_*_SHARE_RESOURCES",
        "NCCL_MULTI_RANK_GPU_ENABLE",
        "NCCL_CHECK_POINTERS",
        "NCCL_CHECK_MODE",
        "NCCL_IB_RESILIENCY_*",
        "NCCL_SOCKET_MAGIC",
        "NCCL_OOB_NET_ENABLE",
        "NCCL_NO_CACHE",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
    };
    return std::any_of(std::begin(kNever), std::end(kNever),
                       [&](std::string_view pattern) { return like(name, pattern); });
}

}  // namespace toporun::tests
