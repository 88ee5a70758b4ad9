#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/cpu_set.hpp"
#include "detect/topology/system_tree.hpp"

/// NCCL's topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), RCCL's too: what stands in it.
namespace toporun::detect {

struct XmlGpu {
    std::optional<int> index;  ///< attribute "dev"
    std::string vendor;        ///< "nvidia", "amd", "" unknown
    PciIds ids;                ///< zeros when the file does not tell
    bool described = false;    ///< has a <gpu> element: its links are known
    std::string architecture;  ///< of AMD: "gfx942"
    std::optional<int> generation;
    std::optional<int> width;
};

struct XmlNet {
    std::string name;
    std::optional<double> speed_gbits;
    std::optional<int> port;  ///< 0 for interfaces of NET/Socket
    std::string guid;         ///< as the file writes it
};

struct XmlAdapter {
    unsigned pci_class = 0;  ///< class and subclass: 0x0207 for InfiniBand; 0 unknown
    PciIds ids;
    std::optional<int> generation;
    std::optional<int> width;
    std::vector<XmlNet> nets;  ///< may be empty: vendors' files leave them out
};

/// What the XML says. The lists have the order of those of `tree`, an adapter without nets has one
/// in the tree.
struct TopologyXml {
    SystemTree tree;
    std::vector<CpuSet> affinities;  ///< of each CPU
    std::vector<XmlGpu> gpus;
    std::vector<XmlAdapter> adapters;
    std::vector<std::string> notes;  ///< damage and faults of the file
};

/// Reads the first `<system>` of the text that has devices; text around it is passed over. `place`
/// gives "file:line:column" of a byte of `text`. Throws Error for a number that is none, an address
/// that is none, or when nothing is left of damaged XML. Of several hosts the first is read.
TopologyXml read_topology_xml(std::string_view text,
                              const std::function<std::string(std::size_t)>& place);

/// The `<system>` elements in a text, first byte and length of each; the last may be cut.
std::vector<std::pair<std::size_t, std::size_t>> find_system_elements(std::string_view text);

}  // namespace toporun::detect
