#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detect/detect.hpp"
#include "files.hpp"

namespace toporun::tests {

/// A machine made of files: /sys, /proc, /etc below a directory of its own.
class Tree {
  public:
    std::string root() const { return directory_.path(); }
    void write(const std::string& path, const std::string& text) const {
        directory_.write(path.substr(1), text);
    }
    void link(const std::string& path, const std::string& target) const {
        const std::filesystem::path at = directory_.path() / path.substr(1);
        std::filesystem::create_directories(at.parent_path());
        std::filesystem::create_symlink(target, at);
    }
    void directory(const std::string& path) const {
        std::filesystem::create_directories(directory_.path() / path.substr(1));
    }

    /// A PCI device: `path` below /sys/devices, "pci0000:00/0000:00:01.0/0000:01:00.0".
    void pci(const std::string& path, const std::string& device_class, const std::string& vendor,
             int numa_node = -1) const {
        const std::string at = "/sys/devices/" + path;
        write(at + "/class", device_class + "\n");
        write(at + "/vendor", vendor + "\n");
        write(at + "/numa_node", std::to_string(numa_node) + "\n");
        link("/sys/bus/pci/devices/" + path.substr(path.rfind('/') + 1),
             "../../../devices/" + path);
    }
    void bridge(const std::string& path) const { pci(path, "0x060400", "0x8086"); }
    void gpu(const std::string& path, int numa_node) const {
        pci(path, "0x030200", "0x10de", numa_node);
    }

    /// An interface; `extra` are further files by name.
    void interface(const std::string& name, int index, int type,
                   const std::vector<std::pair<std::string, std::string>>& extra = {}) const {
        const std::string at = "/sys/class/net/" + name;
        write(at + "/ifindex", std::to_string(index) + "\n");
        write(at + "/iflink", std::to_string(index) + "\n");
        write(at + "/type", std::to_string(type) + "\n");
        write(at + "/mtu", "1500\n");
        write(at + "/operstate", "up\n");
        for (const auto& [file, text] : extra) write(at + "/" + file, text);
    }

    /// `packages` with one NUMA node each, `cores` in each, two PUs a core (siblings n and n +
    /// all).
    void processors(int packages, int cores) const {
        const int all = packages * cores;
        const std::string cpu = "/sys/devices/system/cpu";
        const std::string range = "0-" + std::to_string(2 * all - 1) + "\n";
        for (const char* file : {"/online", "/possible", "/present"}) write(cpu + file, range);
        for (int pu = 0; pu < 2 * all; ++pu) {
            const int core = pu % all;
            const int package = core / cores;
            const std::string at = cpu + "/cpu" + std::to_string(pu);
            write(at + "/topology/core_id", std::to_string(core % cores) + "\n");
            write(at + "/topology/physical_package_id", std::to_string(package) + "\n");
            write(at + "/topology/core_cpus", mask({core, core + all}));
            write(at + "/topology/package_cpus", mask(package_pus(package, cores, all)));
            const std::string cache = at + "/cache/index3";
            write(cache + "/level", "3\n");
            write(cache + "/type", "Unified\n");
            write(cache + "/size", "32768K\n");
            write(cache + "/shared_cpu_map", mask(package_pus(package, cores, all)));
        }
        for (int node = 0; node < packages; ++node) {
            const std::string at = "/sys/devices/system/node/node" + std::to_string(node);
            write(at + "/cpumap", mask(package_pus(node, cores, all)));
            write(at + "/meminfo", "Node " + std::to_string(node) + " MemTotal: 1048576 kB\n");
        }
        write("/sys/devices/system/node/online", "0-" + std::to_string(packages - 1) + "\n");
    }

  private:
    static std::vector<int> package_pus(int package, int cores, int all) {
        std::vector<int> pus;
        for (int core = package * cores; core < (package + 1) * cores; ++core)
            pus.insert(pus.end(), {core, core + all});
        return pus;
    }
    /// The kernel's bitmap text; at most 32 PUs here.
    static std::string mask(const std::vector<int>& pus) {
        unsigned bits = 0;
        for (const int pu : pus) bits |= 1u << pu;
        char text[16];
        snprintf(text, sizeof text, "%08x\n", bits);
        return text;
    }

    TemporaryDirectory directory_;
};

/// The stub NVML library under a name of its own, with its configuration beside it.
class StubNvml {
  public:
    explicit StubNvml(const std::string& configuration, const std::string& library = TOPORUN_STUB) {
        path_ = (directory_.path() / "libnvidia-ml.so.1").string();
        std::filesystem::create_symlink(library, path_);
        directory_.write("libnvidia-ml.so.1.conf", configuration);
    }
    const std::string& path() const { return path_; }

  private:
    TemporaryDirectory directory_;
    std::string path_;
};

/// What detection makes of the tree alone.
inline detect::Machine detect_tree(const Tree& tree) {
    detect::Sources sources;
    sources.root = tree.root();
    return detect::detect_machine(sources);
}

inline bool has_note(const detect::Machine& machine, const std::string& part) {
    for (const std::string& note : machine.notes)
        if (note.find(part) != std::string::npos) return true;
    return false;
}

}  // namespace toporun::tests
