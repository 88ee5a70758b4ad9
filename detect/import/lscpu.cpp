#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/host_text.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `lscpu`: the processors, packages and NUMA nodes of a machine.
namespace toporun::detect {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// The number in "NUMA node3 CPU(s)".
std::optional<int> node_of(std::string_view key) {
    constexpr std::string_view kStart = "NUMA node";
    constexpr std::string_view kEnd = " CPU(s)";
    if (!key.starts_with(kStart) || !key.ends_with(kEnd) || key.size() < 16) return std::nullopt;
    return number_in(key.substr(kStart.size(), key.size() - kStart.size() - kEnd.size()), 0, 1023);
}

bool signature(const Pair& pair) {
    return pair.first == "Socket(s)" || pair.first == "On-line CPU(s) list" ||
           pair.first == "Thread(s) per core" || node_of(pair.first).has_value();
}

bool known_key(std::string_view key) {
    constexpr std::string_view kStarts[] = {"Architecture",
                                            "CPU op-mode",
                                            "Address sizes",
                                            "Byte Order",
                                            "CPU(s)",
                                            "On-line CPU",
                                            "Off-line",
                                            "Vendor ID",
                                            "Model",
                                            "CPU family",
                                            "Thread(s) per",
                                            "Core(s) per",
                                            "Socket(s)",
                                            "Cluster(s)",
                                            "Stepping",
                                            "Frequency",
                                            "CPU max",
                                            "CPU min",
                                            "CPU MHz",
                                            "BogoMIPS",
                                            "Flags",
                                            "L1",
                                            "L2",
                                            "L3",
                                            "NUMA",
                                            "Vulnerability",
                                            "Hypervisor",
                                            "Virtualization",
                                            "CPU scaling",
                                            "BIOS",
                                            "Caches",
                                            "Vulnerabilities"};
    return std::any_of(std::begin(kStarts), std::end(kStarts),
                       [&](std::string_view start) { return key.starts_with(start); });
}

void virtual_machine(std::string_view value, Machine& machine) {
    machine.virtual_machine = true;
    machine.software.hypervisor = printable(value.substr(0, 64));
    for (char& c : machine.software.hypervisor)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
}

void fact(const Pair& pair, Machine& machine) {
    const std::string_view key = pair.first;
    const std::string_view value = pair.second;
    Cpu& cpu = machine.cpu;
    const auto text = [&](std::string_view name, std::string& into) {
        if (key == name && into.empty()) into = printable(value.substr(0, 256));
    };
    text("Architecture", cpu.architecture);
    text("Vendor ID", cpu.vendor);
    text("Model name", cpu.model);
    const auto number = [&](std::string_view name, int low, int high, std::optional<int>& into) {
        if (key == name && !into) into = number_in(value, low, high);
    };
    number("Socket(s)", 1, 4096, cpu.packages);
    number("CPU family", 0, 1 << 16, cpu.family);
    number("Model", 0, 1 << 16, cpu.model_number);
    if (key == "Hypervisor vendor") virtual_machine(value, machine);
}

bool recognise(const Lines& lines) {
    const auto count = std::count_if(lines.lines.begin(), lines.lines.end(), [](const auto& line) {
        const auto pair = key_and_value(line.text);
        return pair && signature(*pair);
    });
    return count >= 2;
}

Reading read(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    PastedNodes nodes;
    for (const PastedLine& line : lines.lines) {
        const auto pair = key_and_value(line.text);
        const bool section = line.text.starts_with("  ");  // "  Spectre v1:   Mitigation"
        reading.understood.push_back(pair && (section || known_key(pair->first)));
        if (!pair) continue;
        const auto node = node_of(pair->first);
        // A node without CPUs (memory only) has an empty list.
        if (node && !nodes.set_cpus(*node, pair->second))
            machine.notes.push_back("line " + std::to_string(line.number) +
                                    ": the CPUs of NUMA node " + std::to_string(*node) +
                                    " cannot be read or were listed before, left out");
        fact(*pair, machine);
    }
    machine.cpu.numa_nodes = nodes.nodes();
    return reading;
}

}  // namespace

Importer lscpu_importer() {
    return {"lscpu", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
