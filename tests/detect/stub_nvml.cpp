// A stand-in for libnvidia-ml.so.1. It reads what it shall be from the file "<its own path>.conf":
//   gpu BUS_ID NAME...        one GPU, in order
//   link INDEX PEER COUNT     COUNT active NVLinks of a GPU; PEER is a bus id, or "hidden"
//   down INDEX COUNT          COUNT NVLinks that are down
//   p2p refused | unsupported for every pair
//   init CODE | count CODE    what nvmlInit_v2, nvmlDeviceGetCount_v2 return
//   mode hang | crash | garbage | exit | no-ancestor
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "detect/gpu/nvml_abi.hpp"

using toporun::detect::nvml::Memory;
using toporun::detect::nvml::PciInfo;

namespace {

struct Link {
    std::string peer;
    bool active = true;
};
struct StubGpu {
    std::string pci;
    std::string name;
    std::vector<Link> links;
};
struct Stub {
    std::vector<StubGpu> gpus;
    std::string p2p;
    std::string mode;
    int init = 0;
    int count = 0;
};

void read_line(Stub& stub, const std::string& line) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::size_t index = 0;
    int count = 0;
    std::string text;
    if (key == "gpu") {
        StubGpu gpu;
        words >> gpu.pci >> std::ws;
        std::getline(words, gpu.name);
        stub.gpus.push_back(gpu);
    } else if (key == "link") {
        words >> index >> text >> count;
        for (int i = 0; i < count; ++i)
            stub.gpus.at(index).links.push_back({text == "hidden" ? "" : text, true});
    } else if (key == "down") {
        words >> index >> count;
        for (int i = 0; i < count; ++i) stub.gpus.at(index).links.push_back({"", false});
    } else if (key == "p2p") {
        words >> stub.p2p;
    } else if (key == "mode") {
        words >> stub.mode;
    } else if (key == "init") {
        words >> stub.init;
    } else if (key == "count") {
        words >> stub.count;
    }
}

const Stub& stub() {
    static const Stub read = [] {
        Stub made;
        Dl_info self{};
        dladdr(reinterpret_cast<void*>(&read_line), &self);
        std::ifstream file(std::string(self.dli_fname) + ".conf");
        for (std::string line; std::getline(file, line);) read_line(made, line);
        return made;
    }();
    return read;
}

const StubGpu& gpu_of(void* device) {
    return *static_cast<const StubGpu*>(device);
}

int copy(char* to, unsigned size, const std::string& text) {
    if (stub().mode == "garbage") {
        std::memset(to, 0xe9, size);  // no end, no text
        return 0;
    }
    if (text.size() + 1 > size) return 7;
    std::memcpy(to, text.c_str(), text.size() + 1);
    return 0;
}

void fill(PciInfo& pci, const std::string& id) {
    std::memset(&pci, stub().mode == "garbage" ? 0xe9 : 0, sizeof pci);
    if (stub().mode != "garbage") std::memcpy(pci.bus_id, id.c_str(), id.size() + 1);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

#ifndef STUB_WITHOUT_INIT
API int nvmlInit_v2() {
    if (stub().mode == "hang")
        for (;;) pause();
    if (stub().mode == "crash") std::raise(SIGSEGV);
    if (stub().mode == "exit") _exit(0);
    return stub().init;
}
#endif
API const char* nvmlErrorString(int code) {
    return code == 18 ? "Driver/library version mismatch" : "Driver Not Loaded";
}
API int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = stub().mode == "garbage" ? 4000000000u : static_cast<unsigned>(stub().gpus.size());
    return stub().count;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (index >= stub().gpus.size() && stub().mode != "garbage") return 2;
    *device = const_cast<StubGpu*>(&stub().gpus.at(index % stub().gpus.size()));
    return 0;
}
API int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
    if (gpu_of(device).pci == "lost") return 15;
    fill(*pci, gpu_of(device).pci);
    return 0;
}
API int nvmlSystemGetDriverVersion(char* text, unsigned size) {
    return copy(text, size, "570.1.2");
}
API int nvmlDeviceGetName(void* device, char* text, unsigned size) {
    return copy(text, size, gpu_of(device).name);
}
API int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    return copy(text, size, "GPU-0000-" + gpu_of(device).pci);
}
API int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
    memory->total = 80ull << 30;
    return 0;
}
API int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned*) {
    *current = 0;
    return 0;
}
API int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
    *major = stub().mode == "garbage" ? -7 : 9;
    *minor = 0;
    return 0;
}
API int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) {
    *value = stub().mode == "garbage" ? 77 : 5;
    return 0;
}
API int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) {
    *value = 16;
    return 0;
}
API int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
    if (link >= gpu_of(device).links.size()) return 3;
    *active = gpu_of(device).links[link].active ? 1 : 0;
    return 0;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
    if (link >= gpu_of(device).links.size()) return 3;
    fill(*pci, gpu_of(device).links[link].peer);
    return 0;
}
API int nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
    if (stub().p2p == "unsupported") return 3;
    *status = stub().p2p == "refused" ? 1 : 0;
    return 0;
}
API int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) {
    *level = 50;
    return stub().mode == "no-ancestor" ? 3 : 0;
}
