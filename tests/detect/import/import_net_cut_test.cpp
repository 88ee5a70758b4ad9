#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "import_support.hpp"

// A capture that breaks off at any byte: what is read of it is true, or a note or an error tells
// that something is not.
namespace toporun::detect {
namespace {

const char* const kFormats[] = {
    "ip_addr", "ip_json",     "ip_brief",     "ifconfig",  "ibstat",
    "df",      "ibv_devinfo", "ibdev2netdev", "show_gids", "ip_route",
    "ethtool", "lscpu",       "numactl",      "ulimit",    "sys_class_infiniband"};

template <class T>
bool part_of(const std::vector<T>& some, const std::vector<T>& all) {
    return std::all_of(some.begin(), some.end(), [&](const T& one) {
        return std::find(all.begin(), all.end(), one) != all.end();
    });
}

/// Unknown, or as in the whole capture.
template <class T>
bool true_or_unknown(const T& cut, const T& whole) {
    return cut == T{} || cut == whole;
}

/// The first fact of `cut` that is not so in `whole`, "" for none.
std::string untrue(const Nic& cut, const Nic& whole) {
    const auto differs = [](bool is_true, const std::string& what) { return is_true ? "" : what; };
    const std::string found[] = {
        differs(cut.kind == NicKind::other || cut.kind == whole.kind, "kind"),
        differs(cut.state == "unknown" || cut.state == whole.state, "state"),
        differs(true_or_unknown(cut.speed_gbits, whole.speed_gbits), "speed"),
        differs(true_or_unknown(cut.mtu, whole.mtu), "MTU"),
        differs(part_of(cut.addresses, whole.addresses), "addresses"),
        differs(true_or_unknown(cut.pci, whole.pci), "bus id"),
        differs(true_or_unknown(cut.numa_node, whole.numa_node), "NUMA node"),
        differs(true_or_unknown(cut.rdma_device, whole.rdma_device), "RDMA device"),
        differs(true_or_unknown(cut.port, whole.port), "port"),
        differs(true_or_unknown(cut.os_index, whole.os_index), "os_index"),
        differs(true_or_unknown(cut.master, whole.master), "master"),
        differs(true_or_unknown(cut.parent, whole.parent), "parent"),
        differs(true_or_unknown(cut.guid, whole.guid), "GUID"),
        differs(true_or_unknown(cut.port_state, whole.port_state), "port state"),
        differs(part_of(cut.errors, whole.errors), "errors")};
    for (const std::string& what : found)
        if (!what.empty()) return cut.name + ": " + what;
    for (const Gid& gid : cut.gids)
        if (std::none_of(whole.gids.begin(), whole.gids.end(), [&](const Gid& other) {
                return gid.index == other.index && gid.address == other.address &&
                       true_or_unknown(gid.type, other.type) &&
                       true_or_unknown(gid.interface, other.interface);
            }))
            return fmt::format("{}: GID {}", cut.name, gid.index);
    return {};
}

const Nic* same_nic(const Nic& nic, const std::vector<Nic>& nics) {
    for (const Nic& other : nics)
        if (other.name == nic.name && (!nic.port || other.port == nic.port)) return &other;
    for (const Nic& other : nics)
        if (nic.rdma_device && other.rdma_device == nic.rdma_device && other.port == nic.port)
            return &other;
    return nullptr;
}

std::string untrue(const Cpu& cut, const Cpu& whole) {
    if (!true_or_unknown(cut.model, whole.model) || !true_or_unknown(cut.vendor, whole.vendor) ||
        !true_or_unknown(cut.architecture, whole.architecture))
        return "processor";
    if (!true_or_unknown(cut.packages, whole.packages) ||
        !true_or_unknown(cut.family, whole.family) ||
        !true_or_unknown(cut.model_number, whole.model_number))
        return "numbers of the processor";
    for (const NumaNode& node : cut.numa_nodes)
        if (std::none_of(whole.numa_nodes.begin(), whole.numa_nodes.end(),
                         [&](const NumaNode& other) {
                             return node.os_index == other.os_index &&
                                    true_or_unknown(node.cpus, other.cpus) &&
                                    true_or_unknown(node.memory_bytes, other.memory_bytes);
                         }))
            return fmt::format("NUMA node {}", node.os_index);
    return true_or_unknown(cut.numa_distances, whole.numa_distances) ? "" : "NUMA distances";
}

std::string untrue(const Machine& cut, const Machine& whole) {
    for (const Nic& nic : cut.nics) {
        const Nic* same = same_nic(nic, whole.nics);
        if (same == nullptr) return nic.name + ": it is not there";
        if (std::string what = untrue(nic, *same); !what.empty()) return what;
    }
    if (!part_of(cut.routes, whole.routes)) return "routes";
    const Limits &some = cut.limits, &all = whole.limits;
    if (!true_or_unknown(some.shm_bytes, all.shm_bytes) ||
        !true_or_unknown(some.shm_free_bytes, all.shm_free_bytes) ||
        !true_or_unknown(some.memlock_bytes, all.memlock_bytes) ||
        !true_or_unknown(some.nofile, all.nofile) || !true_or_unknown(some.nproc, all.nproc))
        return "limits";
    return untrue(cut.cpu, whole.cpu);
}

/// What is wrong with the reading of a beginning of a capture, "" for nothing.
std::string fault(const std::string& beginning, const Machine& whole) {
    try {
        const Machine machine = tests::import_text(beginning);
        const bool told =
            std::any_of(machine.notes.begin(), machine.notes.end(), [&](const std::string& note) {
                return std::find(whole.notes.begin(), whole.notes.end(), note) == whole.notes.end();
            });
        return told ? std::string() : untrue(machine, whole);
    } catch (const Error&) {
        return {};
    }
}

TEST_CASE("what is read of a capture that is cut anywhere is true or told to be in doubt") {
    std::size_t captures = 0;
    for (const char* const format : kFormats) {
        const auto folder = std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import" / format;
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().extension() == ".expected") continue;
            ++captures;
            const std::string text = tests::read_file(entry.path());
            const Machine whole = tests::import_text(text);
            for (std::size_t size = 1; size < text.size(); ++size) {
                const std::string what = fault(text.substr(0, size), whole);
                if (what.empty()) continue;
                FAIL_CHECK(entry.path().filename().string()
                           << " cut behind '"
                           << text.substr(size - std::min<std::size_t>(size, 60),
                                          std::min<std::size_t>(size, 60))
                           << "': " << what);
            }
        }
    }
    CHECK(captures > 30);
}

}  // namespace
}  // namespace toporun::detect
