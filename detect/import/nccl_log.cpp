#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/nccl_log_facts.hpp"

namespace toporun::detect {
namespace {

constexpr double kNoLimit = 5000;  ///< NCCL's bandwidth of a path without a limit

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        const std::string& text = line.text;
        if (text.find("NCCL ") == std::string::npos &&
            text.find("CCL version") == std::string::npos)
            return false;
        return nccl_log::parse_line(text).from_nccl();
    });
}

/// The PCI address behind the number of a GPU or NIC in the tree; bits above the domain number the
/// ranks on one GPU (2.30), the lowest two its partitions.
std::optional<PciAddress> address_of(std::uint64_t id) {
    constexpr std::uint64_t kBusId = (std::uint64_t{1} << 40) - 1;
    const auto text = nccl_log::bus_id_text(fmt::format("{:x}", id & kBusId));
    return text ? PciAddress::parse(*text) : std::nullopt;
}

/// Path types by their numbers, which changed between versions (NCCL src/graph/topo.h).
std::optional<PathType> path_of_number(int number, int version) {
    using enum PathType;
    using Table = std::array<PathType, 10>;
    constexpr Table k28{LOC, NVL, NVB, PIX, PXB, PHB, SYS, NET, NET, NET};
    constexpr Table k212{LOC, NVL, NVB, PIX, PXB, PXN, PHB, SYS, NET, NET};
    constexpr Table k226{LOC, NVL, NVB, C2C, PIX, PXB, PXN, PHB, SYS, NET};
    constexpr Table k2273{LOC, NVL, NVB, C2C, PIX, PXB, PXN, P2C, PHB, SYS};
    constexpr Table k2275{LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS};
    const Table& table = version >= 2'27'05   ? k2275
                         : version >= 2'27'00 ? k2273
                         : version >= 2'26'00 ? k226
                         : version >= 2'12'00 ? k212
                                              : k28;
    if (number < 0 || number >= static_cast<int>(table.size())) return std::nullopt;
    const PathType type = table[static_cast<std::size_t>(number)];
    return type == NET ? std::nullopt : std::optional(type);
}

class MachineFromLog {
  public:
    explicit MachineFromLog(LogFacts facts) : facts_(std::move(facts)) {}

    Machine make() {
        machine_.hostname = printable(facts_.host);
        if (!facts_.version.empty() && !facts_.rccl)
            machine_.software.nccl_version = facts_.version;
        take_cpus();
        take_gpus();
        take_gpu_paths();
        take_nets();
        take_interfaces();
        machine_.gpus_known = !machine_.gpus.empty();
        machine_.nics_known = !machine_.nics.empty();
        take_nic_paths();
        note_what_is_odd();
        return std::move(machine_);
    }

  private:
    void take_cpus() {
        for (const auto& [id, cpu] : facts_.cpus) {
            if (id > 65535) continue;  // -1 as an unsigned number
            machine_.cpu.numa_nodes.push_back({static_cast<int>(id), {}, std::nullopt});
            if (!machine_.cpu.architecture.empty()) continue;
            // NCCL src/include/graph.h
            if (cpu.kind.starts_with("1/")) machine_.cpu.architecture = "x86_64";
            if (cpu.kind.starts_with("2/")) machine_.cpu.architecture = "ppc64le";
            if (cpu.kind.starts_with("3/")) machine_.cpu.architecture = "aarch64";
            if (cpu.kind.starts_with("1/1/")) machine_.cpu.vendor = "GenuineIntel";
            if (cpu.kind.starts_with("1/2/")) machine_.cpu.vendor = "AuthenticAMD";
        }
    }

    std::optional<int> numa_node(const LogNode& node) const {
        const auto place = facts_.places.find(node);
        if (place == facts_.places.end() || place->second.cpu > 65535) return std::nullopt;
        return static_cast<int>(place->second.cpu);
    }

    static std::optional<PciAddress> pci_of(const std::string& bus_id) {
        const auto text = nccl_log::bus_id_text(bus_id);
        return text ? PciAddress::parse(*text) : std::nullopt;
    }

    /// A GPU of the log: its node in the tree, 0 without one, and its number where that is told.
    struct Found {
        LogNode node{"GPU", 0};
        std::optional<int> number;
    };
    using FoundGpus = std::map<PciAddress, Found>;

    /// Those of the tree, rows and columns, and of the ranks and connections.
    FoundGpus find_gpus() const {
        FoundGpus found;
        const auto add_node = [&](const LogNode& node) {
            if (const auto pci = node.first == "GPU" ? address_of(node.second) : std::nullopt)
                found.try_emplace(*pci, Found{node, std::nullopt});
        };
        for (const auto& [node, row] : facts_.paths) {
            add_node(node);
            for (const auto& cell : row)
                if (node.first == "GPU") add_node(cell.first);
        }
        for (const auto& [rank, facts] : facts_.ranks)
            if (const auto pci = pci_of(facts.bus_id)) {
                Found& gpu = found[*pci];
                if (facts.nvml_device) gpu.number = facts.nvml_device;
            }
        for (const std::string& bus_id : facts_.bus_ids)
            if (const auto pci = pci_of(bus_id)) found.try_emplace(*pci);
        return found;
    }

    /// CUDA's numbers, where all that is said agrees with the order of the bus; else nothing. A
    /// rank's number stands for its device's where it does so in every connection (one node).
    std::map<PciAddress, int> cuda_numbers() const {
        std::map<PciAddress, int> numbers;
        bool agree = true;
        const auto add = [&](const std::string& bus_id, const std::set<int>& said) {
            const auto pci = pci_of(bus_id);
            if (!pci) return;
            agree = agree && said.size() == 1 &&
                    numbers.try_emplace(*pci, *said.begin()).first->second == *said.begin();
        };
        for (const auto& [bus_id, said] : facts_.cuda_devices) add(bus_id, said);
        const bool ranks_too =
            std::all_of(facts_.bus_ranks.begin(), facts_.bus_ranks.end(), [&](const auto& entry) {
                const auto pci = pci_of(entry.first);
                const auto known = pci ? numbers.find(*pci) : numbers.end();
                return entry.second.size() == 1 &&
                       (known == numbers.end() || known->second == *entry.second.begin());
            });
        if (ranks_too)
            for (const auto& [bus_id, said] : facts_.bus_ranks) add(bus_id, said);
        int last = -1;
        for (const auto& [pci, number] : numbers) {
            agree = agree && number > last;
            last = number;
        }
        return agree ? numbers : std::map<PciAddress, int>{};
    }

    /// In the order of the bus, with NVML's numbers, else CUDA's, else counted: between told
    /// numbers those that are free.
    void take_gpus() {
        FoundGpus found = find_gpus();
        if (std::none_of(found.begin(), found.end(),
                         [](const auto& entry) { return entry.second.number.has_value(); }))
            for (const auto& [pci, number] : cuda_numbers())
                if (const auto gpu = found.find(pci); gpu != found.end())
                    gpu->second.number = number;
        int next = 0;
        std::vector<std::string> guessed;
        for (const auto& [pci, entry] : found) {
            Gpu gpu;
            gpu.index = entry.number.value_or(next);
            if (!entry.number) guessed.push_back(pci.text());
            next = std::max(next, gpu.index + 1);
            gpu.vendor = facts_.rccl ? "amd" : "nvidia";
            gpu.pci = pci;
            gpu.numa_node = numa_node(entry.node);
            machine_.gpus.push_back(std::move(gpu));
            gpu_nodes_.push_back(entry.node);
        }
        if (!guessed.empty() && guessed.size() < found.size())
            machine_.notes.push_back(
                fmt::format("no line tells the number of the GPU at {}: it is "
                            "a guess",
                            join(guessed, ", ")));
        machine_.nvswitch = facts_.nvswitch;
        take_refused();
    }

    void take_refused() {
        const std::size_t count = machine_.gpus.size();
        if (facts_.refused.empty()) return;
        machine_.peer_access.assign(count, std::vector(count, PeerAccess::unknown));
        const auto position = [&](const std::string& bus_id) {
            const auto pci = pci_of(bus_id);
            return static_cast<std::size_t>(
                std::find_if(machine_.gpus.begin(), machine_.gpus.end(),
                             [&](const Gpu& gpu) { return pci && gpu.pci == pci; }) -
                machine_.gpus.begin());
        };
        for (std::size_t i = 0; i < count; ++i) machine_.peer_access[i][i] = PeerAccess::ok;
        for (const auto& [first, second] : facts_.refused) {
            const std::size_t a = position(first), b = position(second);
            if (a >= count || b >= count || a == b) continue;
            machine_.peer_access[a][b] = machine_.peer_access[b][a] = PeerAccess::refused;
        }
    }

    const LogPath* path(const LogNode& from, const LogNode& to) const {
        const auto row = facts_.paths.find(from);
        if (row == facts_.paths.end()) return nullptr;
        const auto cell = row->second.find(to);
        return cell == row->second.end() ? nullptr : &cell->second;
    }

    static std::optional<double> limited(const LogPath* path) {
        if (path == nullptr || path->gbytes_per_s <= 0 || path->gbytes_per_s >= kNoLimit)
            return std::nullopt;
        return path->gbytes_per_s;
    }

    void take_gpu_paths() {
        const std::size_t count = machine_.gpus.size();
        const bool any =
            std::any_of(gpu_nodes_.begin(), gpu_nodes_.end(),
                        [&](const LogNode& node) { return facts_.paths.contains(node); });
        if (!any) return;
        machine_.gpu_paths.assign(count, std::vector(count, PathType::DIS));
        machine_.gpu_path_gbytes_per_s.assign(count, std::vector<std::optional<double>>(count));
        for (std::size_t a = 0; a < count; ++a)
            for (std::size_t b = 0; b < count; ++b) {
                const LogPath* there = path(gpu_nodes_[a], gpu_nodes_[b]);
                const LogPath* told = there != nullptr ? there : path(gpu_nodes_[b], gpu_nodes_[a]);
                const auto type = told != nullptr ? parse_path_name(told->type) : std::nullopt;
                if (a == b) {
                    machine_.gpu_paths[a][a] = PathType::LOC;
                } else if (type) {
                    machine_.gpu_paths[a][b] = *type;
                    machine_.gpu_path_gbytes_per_s[a][b] = limited(told);
                }
            }
        make_symmetric();
    }

    /// The two directions differ where NCCL diverted one of them: the worse counts.
    void make_symmetric() {
        for (std::size_t a = 0; a < machine_.gpus.size(); ++a)
            for (std::size_t b = 0; b < a; ++b) {
                auto& there = machine_.gpu_paths[a][b];
                auto& back = machine_.gpu_paths[b][a];
                there = back = std::max(there, back);
                auto& bandwidth = machine_.gpu_path_gbytes_per_s[a][b];
                auto& other = machine_.gpu_path_gbytes_per_s[b][a];
                if (bandwidth && other) bandwidth = other = std::min(*bandwidth, *other);
            }
    }

    bool over_interfaces() const { return facts_.network == "Socket"; }

    /// Ports of the tree and of the network's own line; NET/Socket's are interfaces.
    void take_nets() {
        if (over_interfaces()) return;
        constexpr std::uint64_t kMost = 256;
        std::set<std::uint64_t> numbers;
        for (std::uint64_t i = 0; i < facts_.devices.size(); ++i) numbers.insert(i);
        for (const std::string& device : facts_.net_devices)
            if (const auto number = to_integer(device); number && *number >= 0)
                numbers.insert(static_cast<std::uint64_t>(*number));
        for (const auto& [node, place] : facts_.places)
            if (node.first == "NET") numbers.insert(node.second);
        for (const auto& [node, row] : facts_.paths)
            for (const auto& [to, cell] : row)
                if (to.first == "NET") numbers.insert(to.second);
        for (const std::uint64_t number : numbers) {
            if (number >= kMost) break;
            machine_.nics.push_back(port(static_cast<std::size_t>(number)));
            net_nodes_.emplace_back("NET", number);
        }
    }

    Nic port(std::size_t number) const {
        Nic nic;
        nic.os_index = static_cast<int>(number);
        nic.state = "up";  // NCCL uses no others
        nic.name = fmt::format("NET/{}", number);
        const auto named = facts_.device_names.find(static_cast<int>(number));
        if (number < facts_.devices.size())
            name_port(facts_.devices[number], nic);
        else if (named != facts_.device_names.end())
            name_port(named->second, nic);
        else if (facts_.provider == "efa")
            nic.kind = NicKind::efa;
        const LogNode node{"NET", number};
        nic.numa_node = numa_node(node);
        const auto place = facts_.places.find(node);
        if (place != facts_.places.end()) {
            nic.speed_gbits = place->second.gbytes_per_s * 8;
            if (place->second.nic) nic.pci = address_of(*place->second.nic);
        }
        return nic;
    }

    /// "mlx5_0:1/IB", "mlx5_0:1/RoCE"
    static void name_port(const std::string& device, Nic& nic) {
        const std::size_t colon = device.find(':');
        if (colon == 0 || device.empty()) return;
        nic.name = printable(device.substr(0, colon));
        nic.rdma_device = nic.name;
        if (colon == std::string::npos) return;
        const std::size_t slash = device.find('/', colon);
        const auto number = to_integer(device.substr(colon + 1, slash - colon - 1));
        if (number && *number > 0 && *number < 65536) nic.port = static_cast<int>(*number);
        const std::string layer = slash == std::string::npos ? "" : device.substr(slash + 1);
        if (layer.starts_with("IB")) nic.kind = NicKind::infiniband;
        if (layer.starts_with("RoCE")) nic.kind = NicKind::roce;
    }

    void take_interfaces() {
        for (const nccl_log::Interface& told : facts_.interfaces) {
            const std::string name = printable(told.name);
            if (name.empty()) continue;
            const auto same = [&](const Nic& nic) { return nic.name == name; };
            auto nic = std::find_if(machine_.nics.begin(), machine_.nics.end(), same);
            if (nic == machine_.nics.end()) {
                Nic added;
                added.name = name;
                added.kind = kind_of_name(name).value_or(NicKind::other);
                added.state = "up";
                added.os_index = static_cast<int>(machine_.nics.size());
                machine_.nics.push_back(std::move(added));
                nic = machine_.nics.end() - 1;
            }
            const std::string address = printable(told.address.substr(0, told.address.find('%')));
            const bool known = std::find(nic->addresses.begin(), nic->addresses.end(), address) !=
                               nic->addresses.end();
            if (!address.empty() && !known) nic->addresses.push_back(address);
        }
    }

    void take_nic_paths() {
        if (net_nodes_.empty() || machine_.gpus.empty()) return;
        auto& paths = machine_.gpu_nic_paths;
        paths.assign(machine_.gpus.size(),
                     std::vector<std::optional<PathType>>(machine_.nics.size()));
        for (std::size_t g = 0; g < machine_.gpus.size(); ++g)
            for (std::size_t n = 0; n < net_nodes_.size(); ++n)
                if (const LogPath* told = path(gpu_nodes_[g], net_nodes_[n]))
                    paths[g][n] = parse_path_name(told->type);
        for (const nccl_log::GpuDirectDistance& distance : facts_.distances)
            take_distance(distance);
    }

    /// What the tree does not tell, "GPU Direct RDMA Disabled for GPU .." may.
    void take_distance(const nccl_log::GpuDirectDistance& distance) {
        const auto version = nccl_version_code(machine_.software.nccl_version);
        if (!version) return;
        std::string bus_id = distance.gpu;
        if (*version >= 2'24'00) {  // a rank since then
            const auto rank = to_integer(distance.gpu);
            const auto found = rank && *rank >= 0 && *rank < 1'000'000
                                   ? facts_.ranks.find(static_cast<int>(*rank))
                                   : facts_.ranks.end();
            if (found == facts_.ranks.end()) return;
            bus_id = found->second.bus_id;
        }
        const auto text = nccl_log::bus_id_text(bus_id);
        const auto pci = text ? PciAddress::parse(*text) : std::nullopt;
        const LogNode port{"NET", net_number(distance.hca, *version >= 2'21'00)};
        const auto hca = static_cast<std::size_t>(
            std::find(net_nodes_.begin(), net_nodes_.end(), port) - net_nodes_.begin());
        for (std::size_t g = 0; pci && hca < net_nodes_.size() && g < machine_.gpus.size(); ++g)
            if (machine_.gpus[g].pci == pci && !machine_.gpu_nic_paths[g][hca])
                machine_.gpu_nic_paths[g][hca] = path_of_number(distance.distance, *version);
    }

    static std::size_t net_number(const std::string& text, bool hexadecimal) {
        std::size_t number = 0;
        const char* end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data(), end, number, hexadecimal ? 16 : 10);
        return error == std::errc{} && last == end ? number : std::string::npos;
    }

    void note_what_is_odd() {
        auto& notes = machine_.notes;
        if (facts_.hosts > 1)
            notes.push_back(fmt::format("the log tells of {} hosts: {} is read", facts_.hosts,
                                        machine_.hostname));
        if (facts_.several_systems)
            notes.emplace_back("the tree spans several hosts: only the first one is read");
        if (facts_.cut)
            notes.emplace_back("NCCL cut long lines of its tree: some paths are unknown");
        if (!facts_.path_variables.empty() && !machine_.gpu_paths.empty())
            notes.push_back(fmt::format("paths are those that NCCL used under {}",
                                        printable(join(facts_.path_variables, ", "))));
        if (!facts_.network_variables.empty() && !machine_.nics.empty())
            notes.push_back(fmt::format("the interfaces are those that NCCL used under {}",
                                        printable(join(facts_.network_variables, ", "))));
        if (facts_.torn > 0)
            notes.push_back(fmt::format(
                "{} lines of the log are torn (several processes wrote to one file): part of what "
                "they told is lost",
                facts_.torn));
        note_missing_gpus();
        if (!machine_.gpus.empty() && machine_.gpu_paths.empty())
            notes.emplace_back(
                "the log has no tree of the node: NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET prints it");
        if (!machine_.gpus.empty())
            notes.emplace_back(
                "the log tells of the GPUs and interfaces that NCCL used, no others");
        if (facts_.rccl && !facts_.version.empty())
            notes.push_back(fmt::format("the library is RCCL {}", printable(facts_.version)));
    }

    /// GPUs that the log proves without telling where they are.
    void note_missing_gpus() {
        for (const auto& [rank, facts] : facts_.ranks)
            if (facts.bus_id.empty() && facts.nvml_device)
                machine_.notes.push_back(
                    fmt::format("rank {} has GPU {}, whose bus id stands in no readable line: it "
                                "is left out",
                                rank, *facts.nvml_device));
        int last = -1;
        for (const Gpu& gpu : machine_.gpus) last = std::max(last, gpu.index);
        if (last >= static_cast<int>(machine_.gpus.size()))
            machine_.notes.push_back(
                fmt::format("GPU {} is in the log: the host has at least {} GPUs, {} are told",
                            last, last + 1, machine_.gpus.size()));
    }

    LogFacts facts_;
    Machine machine_;
    std::vector<LogNode> gpu_nodes_;  ///< of each GPU; its number is 0 when it is not in the tree
    std::vector<LogNode> net_nodes_;  ///< of the first NICs
};

Reading read(const Lines& lines) {
    LogFacts facts = read_nccl_log(lines);
    std::vector<bool> understood = std::move(facts.understood);
    Reading reading{MachineFromLog(std::move(facts)).make(), std::move(understood)};
    const Machine& machine = reading.machine;
    if (!machine.gpus_known && !machine.nics_known && !machine.software.nccl_version)
        throw Error("NCCL's log tells nothing of the machine", lines.place(0),
                    "a log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET is expected");
    return reading;
}

}  // namespace

Importer nccl_log_importer() {
    return {"NCCL log", recognise, read, true};
}

}  // namespace toporun::detect
