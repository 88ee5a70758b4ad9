#include "detect/import/hwloc_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "detect/import/hwloc_processors.hpp"
#include "detect/network/interface_names.hpp"
#include "detect/network/port_tables.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostHwlocGpus = 256;
constexpr std::size_t kMostHwlocNics = 4096;

/// PCI classes: 03 display, 12 processing accelerator (MI300), 0207 InfiniBand, 0208 fabric
/// (Omni-Path).
struct PciType {
    unsigned device_class = 0;  ///< class and subclass
    unsigned vendor = 0;
    unsigned device = 0;
};

std::optional<unsigned> pci_word(std::string_view text) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// "0302 [10de:1eb8] [10de:12a2] a1"; zeros where it is something else.
PciType pci_type(const HwlocObject& object) {
    const std::string_view text = object.pci_type;
    if (text.size() < 10 || text[5] != '[') return {};
    const unsigned device = text.size() < 15 ? 0 : pci_word(text.substr(11, 4)).value_or(0);
    return {pci_word(text.substr(0, 4)).value_or(0), pci_word(text.substr(6, 4)).value_or(0),
            device};
}

/// "10de:1eb8", "" where the file does not tell.
std::string pci_id_of(const HwlocObject& object) {
    const PciType type = pci_type(object);
    return pci_id_text(type.vendor, type.device);
}

struct GpuFamily {
    std::string_view prefix;  ///< of the OS device's name, a number follows
    unsigned vendor;          ///< 0: either
    bool lists_all;           ///< the vendor's management library: it knows each GPU
};
/// hwloc's names of GPUs by back end, the best source first.
constexpr std::array<GpuFamily, 4> kFamilies = {{{"nvml", kVendorNvidia, true},
                                                 {"rsmi", kVendorAmd, true},
                                                 {"cuda", kVendorNvidia, false},
                                                 {"opencl", 0, false}}};

std::optional<int> number_in(std::string_view name, const GpuFamily& family) {
    if (!name.starts_with(family.prefix)) return std::nullopt;
    std::string_view digits = name.substr(family.prefix.size());
    if (family.prefix == "opencl") {  // opencl<platform>d<device>
        const std::size_t d = digits.find('d');
        if (d == std::string_view::npos) return std::nullopt;
        digits = digits.substr(d + 1);
    }
    const auto number = to_integer(digits);
    if (!number || *number < 0 || *number > 65535) return std::nullopt;
    return static_cast<int>(*number);
}

unsigned vendor_by_name(std::string_view vendor) {
    if (vendor.starts_with("NVIDIA")) return kVendorNvidia;
    return vendor.starts_with("AMD") || vendor.starts_with("Advanced Micro") ? kVendorAmd : 0;
}

/// A GPU before it is known which ones count.
struct GpuCandidate {
    std::size_t object = 0;
    std::vector<std::size_t> os_devices;
    unsigned vendor = 0;
    std::array<std::optional<int>, kFamilies.size()> numbers;
};

void add_os_device(const HwlocDocument& document, std::size_t device, GpuCandidate& candidate) {
    const HwlocObject& object = document.objects[device];
    candidate.os_devices.push_back(device);
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
        const auto number = number_in(object.name, kFamilies[i]);
        if (!number) continue;
        if (!candidate.numbers[i]) candidate.numbers[i] = number;
        if (candidate.vendor == 0) candidate.vendor = kFamilies[i].vendor;
    }
    if (candidate.vendor == 0) candidate.vendor = vendor_by_name(object.info("GPUVendor"));
}

/// PCI devices that are GPUs. The display adapter of a management controller is of another vendor.
std::vector<GpuCandidate> pci_candidates(const HwlocDocument& document) {
    std::map<std::size_t, GpuCandidate> by_object;
    for (std::size_t i = 0; i < document.objects.size(); ++i) {
        const HwlocObject& object = document.objects[i];
        if (object.type == "PCIDev") {
            const PciType type = pci_type(object);
            const unsigned base = type.device_class >> 8;
            if ((type.vendor == kVendorNvidia && base == 0x03) ||
                (type.vendor == kVendorAmd && (base == 0x03 || base == 0x12)))
                by_object[i] = {i, {}, type.vendor, {}};
        } else if (object.type == "OSDev" && object.kind == OsDeviceKind::gpu) {
            const std::size_t pci = hwloc_ancestor(document, i, "PCIDev");
            const auto found = by_object.find(pci);
            if (found != by_object.end()) add_os_device(document, i, found->second);
        }
    }
    std::vector<GpuCandidate> candidates;
    for (auto& [object, candidate] : by_object) candidates.push_back(std::move(candidate));
    return candidates;
}

/// Without PCI: the OS devices of the best family, each with those of the others that have its
/// number and vendor.
std::vector<GpuCandidate> os_candidates(const HwlocDocument& document) {
    std::vector<GpuCandidate> candidates;
    for (std::size_t family = 0; family < kFamilies.size(); ++family) {
        const std::size_t before = candidates.size();
        if (before > 0 && kFamilies[family].vendor == 0) break;
        for (std::size_t i = 0; i < document.objects.size(); ++i) {
            const HwlocObject& object = document.objects[i];
            if (object.type != "OSDev" || object.kind != OsDeviceKind::gpu) continue;
            const auto number = number_in(object.name, kFamilies[family]);
            if (!number) continue;
            const auto same = std::find_if(
                candidates.begin(), candidates.end(), [&](const GpuCandidate& candidate) {
                    return candidate.vendor == kFamilies[family].vendor &&
                           (candidate.numbers[0] == number || candidate.numbers[1] == number);
                });
            if (same != candidates.end()) {
                add_os_device(document, i, *same);
                continue;
            }
            GpuCandidate candidate;
            candidate.object = i;
            add_os_device(document, i, candidate);
            if (candidate.vendor != 0 && candidates.size() < kMostHwlocGpus)
                candidates.push_back(std::move(candidate));
        }
    }
    return candidates;
}

/// One vendor; and where its management library lists some of the cards, those that it lists.
void keep_usable(const HwlocDocument& document, std::vector<GpuCandidate>& candidates,
                 std::vector<std::string>& notes) {
    const bool nvidia =
        std::any_of(candidates.begin(), candidates.end(),
                    [](const GpuCandidate& c) { return c.vendor == kVendorNvidia; });
    const unsigned vendor = nvidia ? kVendorNvidia : kVendorAmd;
    std::erase_if(candidates, [&](const GpuCandidate& c) { return c.vendor != vendor; });
    if (candidates.size() > kMostHwlocGpus) {
        notes.push_back(fmt::format("hwloc XML: {} GPUs, the first {} are taken", candidates.size(),
                                    kMostHwlocGpus));
        candidates.resize(kMostHwlocGpus);
    }
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
        if (!kFamilies[i].lists_all) continue;
        const auto listed = [i](const GpuCandidate& c) { return c.numbers[i].has_value(); };
        if (std::none_of(candidates.begin(), candidates.end(), listed)) continue;
        std::erase_if(candidates, [&](const GpuCandidate& c) {
            if (listed(c)) return false;
            notes.push_back(fmt::format("hwloc XML: {} is no GPU of {}, it is left out",
                                        document.objects[c.object].pci_busid, kFamilies[i].prefix));
            return true;
        });
    }
}

/// By the management library's numbers; CUDA's and OpenCL's order is another, the bus decides then.
void put_in_order(std::vector<GpuCandidate>& candidates) {
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
        if (!kFamilies[i].lists_all) continue;
        std::map<int, int> seen;
        for (const GpuCandidate& candidate : candidates)
            if (candidate.numbers[i]) ++seen[*candidate.numbers[i]];
        if (seen.size() != candidates.size()) continue;  // missing or twice
        std::sort(candidates.begin(), candidates.end(),
                  [i](const GpuCandidate& a, const GpuCandidate& b) {
                      return a.numbers[i] < b.numbers[i];
                  });
        return;
    }
}

/// The first value that an OS device of the GPU has.
std::string info_of(const HwlocDocument& document, const GpuCandidate& candidate,
                    const std::string& key) {
    for (const std::size_t device : candidate.os_devices)
        if (const std::string value = document.objects[device].info(key); !value.empty())
            return value;
    return {};
}

/// "TU104GL [Tesla T4]" of the PCI database: the product is in brackets.
std::string product_of(const std::string& pci_device) {
    const std::size_t open = pci_device.find('[');
    const std::size_t close = pci_device.rfind(']');
    if (open == std::string::npos || close == std::string::npos || close < open) return pci_device;
    return pci_device.substr(open + 1, close - open - 1);
}

/// OpenCL calls an AMD card by its architecture: "gfx906+sram-ecc".
void set_model(const HwlocDocument& document, const GpuCandidate& candidate, Gpu& gpu) {
    for (const std::size_t device : candidate.os_devices) {
        const std::string model = document.objects[device].info("GPUModel");
        if (model.starts_with("gfx")) {
            gpu.architecture = model.substr(0, model.find_first_of(":+"));
        } else if (gpu.name.empty()) {
            gpu.name = model;
        }
    }
    if (gpu.name.empty())
        gpu.name = product_of(document.objects[candidate.object].info("PCIDevice"));
}

std::optional<std::uint64_t> kilobytes_of(const std::string& text) {
    const auto value = to_integer(text);
    if (!value || *value <= 0 || *value > (INT64_C(1) << 40)) return std::nullopt;
    return static_cast<std::uint64_t>(*value) * 1024;
}

Gpu make_hwloc_gpu(const HwlocDocument& document, const Cpu& cpu, const GpuCandidate& candidate) {
    Gpu gpu;
    gpu.vendor = candidate.vendor == kVendorNvidia ? "nvidia" : "amd";
    gpu.pci = PciAddress::parse(document.objects[candidate.object].pci_busid);
    gpu.pci_id = pci_id_of(document.objects[candidate.object]);
    set_model(document, candidate, gpu);
    const std::string uuid = info_of(document, candidate, "NVIDIAUUID");
    if (uuid.starts_with("GPU-")) gpu.uuid = uuid;
    gpu.memory_bytes = kilobytes_of(info_of(document, candidate, "CUDAGlobalMemorySize"));
    if (!gpu.memory_bytes)
        gpu.memory_bytes = kilobytes_of(info_of(document, candidate, "OpenCLGlobalMemorySize"));
    const Locality locality = hwloc_locality(document, cpu, candidate.object);
    gpu.numa_node = locality.numa_node;
    gpu.cpus = locality.cpus;
    return gpu;
}

// --- interfaces and RDMA devices ----------------------------------------------------------------

bool is_infiniband_function(const PciType& type, const HwlocObject* net) {
    if (type.device_class == 0x0207 || type.device_class == 0x0208) return true;
    // The hardware address of IPoIB has 20 bytes.
    return net != nullptr && net->info("Address").size() == 59;
}

/// ibv_port_state of an RDMA port in words, "" when the file does not say.
std::string hwloc_port_state(const HwlocObject& rdma, int port) {
    constexpr std::array<std::string_view, 5> kStates = {"", "down", "init", "armed", "active"};
    const auto state = to_integer(rdma.info(fmt::format("Port{}State", port)));
    if (!state || *state < 0 || *state > 4) return {};
    return std::string(kStates[static_cast<std::size_t>(*state)]);
}

std::vector<int> hwloc_ports(const HwlocObject& rdma) {
    std::vector<int> ports;
    for (int port = 1; port <= 16; ++port)
        if (!hwloc_port_state(rdma, port).empty()) ports.push_back(port);
    if (ports.empty()) ports.push_back(1);
    return ports;
}

/// hwloc writes all eight words of the address.
void add_first_gid(const HwlocObject& rdma, int port, bool infiniband, Nic& nic) {
    const std::string address = canonical_gid(rdma.info(fmt::format("Port{}GID0", port)));
    if (!address.empty()) nic.gids.push_back({0, address, infiniband ? "IB" : "", ""});
}

/// What stands on one PCI function, or alone on none.
struct PciFunction {
    std::size_t object = 0;
    std::vector<std::size_t> nets;
    std::vector<std::size_t> rdmas;
};

class HwlocNics {
  public:
    HwlocNics(const HwlocDocument& document, const Cpu& cpu, HwlocDevices& devices)
        : document_(document), cpu_(cpu), devices_(devices) {}

    void add(const PciFunction& function) {
        std::vector<std::size_t> nets = function.nets;
        for (const std::size_t rdma : function.rdmas)
            for (const int port : hwloc_ports(document_.objects[rdma])) {
                const auto net = std::find_if(nets.begin(), nets.end(), [&](std::size_t at) {
                    const std::string own = document_.objects[at].info("Port");
                    return own.empty() || own == std::to_string(port);
                });
                const bool found = net != nets.end();
                add_port(function, rdma, port, found ? &document_.objects[*net] : nullptr);
                if (found) nets.erase(net);
            }
        for (const std::size_t net : nets) add_net(function, document_.objects[net]);
    }

  private:
    Nic start(const PciFunction& function) const {
        Nic nic;
        nic.state = "unknown";
        nic.os_index = static_cast<int>(devices_.nics.size()) + 1;
        nic.pci = PciAddress::parse(document_.objects[function.object].pci_busid);
        nic.pci_id = pci_id_of(document_.objects[function.object]);
        nic.numa_node = hwloc_locality(document_, cpu_, function.object).numa_node;
        return nic;
    }

    void keep(const PciFunction& function, Nic nic) {
        if (devices_.nics.size() == kMostHwlocNics) return;
        devices_.nics.push_back(std::move(nic));
        devices_.nic_objects.push_back(function.object);
    }

    void add_port(const PciFunction& function, std::size_t object, int port,
                  const HwlocObject* net) {
        const HwlocObject& rdma = document_.objects[object];
        const PciType type = pci_type(document_.objects[function.object]);
        const bool infiniband = is_infiniband_function(type, net);
        Nic nic = start(function);
        nic.name = net != nullptr ? net->name : rdma.name;
        nic.rdma_device = rdma.name;
        nic.port = port;
        nic.guid = rdma.info("NodeGUID");
        nic.port_state = hwloc_port_state(rdma, port);
        if (net == nullptr && !nic.port_state.empty())
            nic.state = nic.port_state == "active" ? "up" : "down";
        if (type.vendor == kVendorAmazon)
            nic.kind = NicKind::efa;
        else if (infiniband)
            nic.kind = net != nullptr ? NicKind::ipoib : NicKind::infiniband;
        else
            nic.kind = NicKind::roce;
        add_first_gid(rdma, port, infiniband, nic);
        keep(function, std::move(nic));
    }

    void add_net(const PciFunction& function, const HwlocObject& net) {
        Nic nic = start(function);
        nic.name = net.name;
        const PciType type = pci_type(document_.objects[function.object]);
        nic.kind = is_infiniband_function(type, &net) ? NicKind::ipoib
                   : nic.pci                          ? NicKind::ethernet
                             : kind_of_name(net.name).value_or(NicKind::other);
        if (nic.kind == NicKind::vlan) nic.parent = vlan_parent(net.name);
        keep(function, std::move(nic));
    }

    const HwlocDocument& document_;
    const Cpu& cpu_;
    HwlocDevices& devices_;
};

void read_hwloc_nics(const HwlocDocument& document, const Cpu& cpu, HwlocDevices& devices) {
    std::map<std::size_t, PciFunction> functions;
    for (std::size_t i = 0; i < document.objects.size(); ++i) {
        const HwlocObject& object = document.objects[i];
        const bool net = object.kind == OsDeviceKind::network;
        if (object.type != "OSDev" || object.name.empty() ||
            (!net && object.kind != OsDeviceKind::open_fabrics))
            continue;
        const std::size_t pci = hwloc_ancestor(document, i, "PCIDev");
        const std::size_t at = pci == kNoParent ? i : pci;
        PciFunction& function = functions[at];
        function.object = at;
        (net ? function.nets : function.rdmas).push_back(i);
    }
    HwlocNics nics(document, cpu, devices);
    for (const auto& [object, function] : functions) nics.add(function);
    if (devices.nics.size() == kMostHwlocNics)
        devices.notes.push_back(
            fmt::format("hwloc XML: the first {} interfaces are taken", kMostHwlocNics));
}

}  // namespace

HwlocDevices read_hwloc_devices(const HwlocDocument& document, const Cpu& cpu) {
    HwlocDevices devices;
    std::vector<GpuCandidate> candidates = pci_candidates(document);
    if (candidates.empty()) candidates = os_candidates(document);
    keep_usable(document, candidates, devices.notes);
    put_in_order(candidates);
    for (const GpuCandidate& candidate : candidates) {
        devices.gpus.push_back(make_hwloc_gpu(document, cpu, candidate));
        devices.gpus.back().index = static_cast<int>(devices.gpus.size()) - 1;
        devices.gpu_objects.push_back(candidate.object);
    }
    read_hwloc_nics(document, cpu, devices);
    return devices;
}

}  // namespace toporun::detect
