#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detect/cpu_set.hpp"
#include "detect/import/lines.hpp"

/// hwloc's XML as plain objects, one shape for the formats 1.x, 2.x and 3.0. Says nothing of what
/// the objects mean to NCCL (hwloc_xml.cpp does).
namespace toporun::detect {

inline constexpr std::size_t kNoParent = SIZE_MAX;

/// What an OS device is. hwloc 1 and 2 number the kinds, 3 has a bit for each.
enum class OsDeviceKind { other, gpu, network, open_fabrics };

struct HwlocObject {
    std::string type;                ///< "Package", "NUMANode", "PCIDev", ...
    std::size_t parent = kNoParent;  ///< position of the parent, always smaller than the own one
    std::string name;                ///< of OS devices and of 1.x PCI devices
    std::string subtype;             ///< "NVSwitch", "CUDA", ... (1.x: CoProcType)
    OsDeviceKind kind = OsDeviceKind::other;
    std::optional<int> os_index;
    std::optional<std::uint64_t> gp_index;  ///< what distances of 2.x refer to
    std::optional<std::uint64_t> local_memory;
    std::optional<int> cache_depth;  ///< 3 for an L3
    bool instruction_cache = false;
    std::string cpuset;  ///< as written; read_bitmap() reads it
    std::string allowed_cpuset;
    std::string nodeset;
    std::string pci_busid;   ///< of devices and of bridges that are devices
    std::string bridge_pci;  ///< buses below a bridge: "0000:[17-19]"
    std::string pci_type;    ///< "0302 [10de:1eb8] [10de:12a2] a1"
    std::map<std::string, std::string> infos;

    std::string info(const std::string& key) const;  ///< "" when absent
};

/// A square matrix over objects.
struct HwlocDistances {
    std::string name;                   ///< "NUMALatency", "NVLinkBandwidth", ...
    std::vector<std::uint64_t> values;  ///< row after row
    /// Type and index of each row's object. The index is a gp_index, or an OS index where
    /// `by_os_index`. Empty in 1.x: the NUMA nodes in the order of the file.
    std::vector<std::pair<std::string, std::uint64_t>> objects;
    bool by_os_index = false;
};

struct HwlocDocument {
    int version = 2;                   ///< major: 1, 2 or 3
    std::vector<HwlocObject> objects;  ///< in the order of the file, parents before children
    std::vector<HwlocDistances> distances;
    std::map<std::string, std::string> infos;  ///< of the whole topology (3.0)
    bool cut = false;                          ///< the text ends before the topology does
    std::size_t first_line = 0;                ///< positions in Lines::lines
    std::size_t end_line = 0;                  ///< one past the last
};

/// The first line of a topology in the text, nothing when there is none.
std::optional<std::size_t> find_hwloc_topology(const Lines& lines);

/// Throws Error (file:line:column) for a syntax fault; a text that is cut off is read up to there.
HwlocDocument read_hwloc_document(const Lines& lines);

/// A set in hwloc's form: words of 32 bits in hexadecimal, the highest first, a word may be empty
/// ("0x0000ffff,,0x1"). Nothing for an infinite set ("0xf...f"), for an index above 65535 and for
/// anything else.
std::optional<CpuSet> read_bitmap(std::string_view text);

}  // namespace toporun::detect
