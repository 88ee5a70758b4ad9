#include "saved_machines.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "detect/import/import.hpp"
#include "detect/machine_toml.hpp"
#include "files.hpp"
#include "machines.hpp"

namespace toporun::tests {
namespace {

namespace fs = std::filesystem;

/// The files below `folder` in the order of their names.
std::vector<fs::path> files_below(const fs::path& folder) {
    std::vector<fs::path> files;
    if (!fs::is_directory(folder)) return files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

/// What is no capture (an expectation beside it, a cut file) is passed over.
void add(std::vector<SavedMachine>& machines, const std::string& name, const std::string& text) {
    try {
        const detect::Capture capture{name, text};
        machines.push_back({name, name.ends_with(".toml")
                                      ? detect::machine_from_toml(text, name)
                                      : detect::import_captures({&capture, 1})});
    } catch (const Error&) {
        return;
    }
}

void add_below(std::vector<SavedMachine>& machines, const fs::path& folder) {
    for (const fs::path& file : files_below(folder))
        add(machines, file.lexically_relative(folder.parent_path()).string(), read_file(file));
}

/// The texts between ''' of a case that hold a capture.
void add_case(std::vector<SavedMachine>& machines, const fs::path& file) {
    const std::string text = read_file(file);
    std::size_t at = 0;
    for (int part = 0;; ++part) {
        const std::size_t begin = text.find("'''\n", at);
        if (begin == std::string::npos) return;
        const std::size_t end = text.find("'''", begin + 4);
        if (end == std::string::npos) return;
        add(machines, file.stem().string() + " part " + std::to_string(part),
            text.substr(begin + 4, end - begin - 4));
        at = end + 3;
    }
}

/// The object of the key "machine" in an expectation as TOML: JSON's lists and texts are TOML's,
/// objects need `=` for `:` outside of texts.
std::string composed_toml(const std::string& json) {
    const std::string key = "\"machine\":";
    std::size_t at = json.find(key);
    if (at == std::string::npos) return "";
    at = json.find('{', at);
    std::string table;
    int depth = 0;
    bool quoted = false;
    for (; at < json.size(); ++at) {
        const char c = json[at];
        if (c == '"' && json[at - 1] != '\\') quoted = !quoted;
        if (!quoted && c == '{') ++depth;
        if (!quoted && c == '}' && --depth == 0) break;
        if (!quoted && c == '{' && depth == 1) continue;
        if (!quoted && (c == '\n' || c == '\r')) continue;
        if (!quoted && depth == 1 && c == ',') {
            // Commas of the object itself end a line; those of lists stay.
            const auto open = std::count(table.begin(), table.end(), '[') -
                              std::count(table.begin(), table.end(), ']');
            table += open == 0 ? '\n' : ',';
            continue;
        }
        table += !quoted && c == ':' ? '=' : c;
    }
    return "schema = \"toporun.machine/1\"\n" + table + "\n";
}

detect::Machine with_everything() {
    Machine machine = hgx_h100();
    machine.nics.clear();
    add_nics(machine, {nic("docker0", NicKind::bridge, {"172.17.0.1/16"}),
                       nic("eth0", NicKind::ethernet, {"10.0.0.1/24", "fe80::2/64"}),
                       nic("eth0.100", NicKind::vlan, {"10.1.0.1/24"}),
                       nic("wg0", NicKind::tunnel, {"10.8.0.2/24"}),
                       nic("veth12ab", NicKind::veth, {"fe80::1/64"}),
                       nic("bond0", NicKind::bond, {"192.168.7.4/23"}),
                       nic("x", NicKind::ethernet, {"10.9.0.1/24"})});
    for (int i = 0; i < 10; ++i) {
        detect::Nic port = nic("ib" + std::to_string(i), NicKind::ipoib, {});
        if (i == 0) port.addresses = {"10.5.0.1/16"};
        port.rdma_device = "mlx5_" + std::to_string(i < 9 ? i : 11);
        port.port = 1;
        port.speed_gbits = i < 8 ? 400 : 100;
        port.port_state = i == 6 ? "down" : "active";
        port.os_index = 20 + i;
        machine.nics.push_back(port);
    }
    machine.gpu_nic_paths.assign(
        8, std::vector<std::optional<PathType>>(machine.nics.size(), PathType::SYS));
    for (std::size_t gpu = 0; gpu < 8; ++gpu) machine.gpu_nic_paths[gpu][8 + gpu] = PathType::PIX;
    return machine;
}

std::vector<SavedMachine> hand_made() {
    std::vector<SavedMachine> all = {{"nothing known", Machine{}},
                                     {"hgx", hgx_h100()},
                                     {"hgx with many interfaces", with_everything()}};
    Machine geforce = host(1, 16);
    add_gpus(geforce, 4, "NVIDIA GeForce RTX 4090", PathType::PHB);
    set_peer_access(geforce, PeerAccess::refused);
    all.push_back({"geforce", geforce});
    Machine bridged = host(2, 24, true, 4);
    bridged.cpu.vendor = "AuthenticAMD";
    add_gpus(bridged, 6, "NVIDIA A40", PathType::SYS);
    for (int gpu = 0; gpu < 6; gpu += 2) connect(bridged, gpu, gpu + 1, PathType::NVL, 4);
    all.push_back({"bridged pairs", bridged});
    Machine cube = host(2, 20);
    add_gpus(cube, 8, "Tesla V100-SXM2-16GB", PathType::NVB);
    for (int quad : {0, 4})
        for (int a = quad; a < quad + 4; ++a)
            for (int b = a + 1; b < quad + 4; ++b) connect(cube, a, b, PathType::NVL, 1);
    for (int a = 0; a < 4; ++a) connect(cube, a, a + 4, PathType::NVL, 2);
    all.push_back({"hybrid cube mesh", cube});
    Machine large = host(4, 64, true, 8);
    add_gpus(large, 16, "NVIDIA H200", PathType::NVL, 18);
    large.nvswitch = true;
    all.push_back({"sixteen GPUs", large});
    Machine switches = host(2, 32);
    add_gpus(switches, 8, "NVIDIA L40S", PathType::SYS);
    for (int half : {0, 4})
        for (int a = half; a < half + 4; ++a)
            for (int b = a + 1; b < half + 4; ++b) connect(switches, a, b, PathType::PIX);
    all.push_back({"two switches", switches});
    Machine odd = hgx_h100();
    odd.gpu_paths.resize(3);
    odd.peer_access.assign(1, {});
    odd.gpus[0].numa_node = -1;
    odd.gpus[1].numa_node = 999;
    odd.gpus[2].uuid.reset();
    odd.gpus[4].uuid = odd.gpus[3].uuid;
    all.push_back({"contradictions", odd});
    return all;
}

}  // namespace

std::vector<SavedMachine> own_machines() {
    std::vector<SavedMachine> machines = hand_made();
    const fs::path data = TOPORUN_TEST_DATA;
    add_below(machines, data / "machines");
    add_below(machines, data / "detect");
    return machines;
}

std::vector<SavedMachine> shared_machines() {
    std::vector<SavedMachine> machines;
    const fs::path shared = TOPORUN_SHARED;
    add_below(machines, shared / "data");
    add_below(machines, shared / "rig/topo");
    add_below(machines, shared / "checks/expect/shared/cases/inputs");
    for (const fs::path& file : files_below(shared / "cases")) add_case(machines, file);
    for (const fs::path& file : files_below(shared / "checks/expect/shared/cases")) {
        if (file.extension() != ".json" || file.parent_path().filename() == "inputs") continue;
        const std::string toml = composed_toml(read_file(file));
        if (!toml.empty()) add(machines, "composed " + file.stem().string() + ".toml", toml);
    }
    return machines;
}

}  // namespace toporun::tests
