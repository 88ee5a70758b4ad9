// A stand-in for libnvidia-ml.so.1. It reads what it shall be from the file "<its own path>.conf":
//   gpu BUS_ID NAME...        one GPU, in order; BUS_ID "lost": no address; "gone", "denied": no
//   handle link INDEX PEER COUNT     COUNT active NVLinks of a GPU; PEER is a bus id, or "hidden"
//   down INDEX COUNT          COUNT NVLinks that are down
//   asleep INDEX COUNT        COUNT NVLinks in their sleep state, partner hidden
//   set INDEX FACT VALUE      a fact of a GPU, or of each of its links; what is not set is not
//                             supported, but for the defaults in kDefaults
//   unset FACT                takes a default away
//   p2p refused | unsupported for every pair
//   init CODE | count CODE    what nvmlInit_v2, nvmlDeviceGetCount_v2 return
//   hang FACT                 a question for this fact never returns
//   mode hang | crash | garbage | exit | no-ancestor
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "detect/gpu/nvml_abi.hpp"

using namespace toporun::detect::nvml;

namespace {

constexpr Result kNotSupported = 3;
constexpr Result kGpuIsLost = 15;
constexpr Result kVersionMismatch = 25;
constexpr unsigned long long kGarbage = 0xe9e9e9e9e9e9e9e9;

using Facts = std::map<std::string, unsigned long long>;
const Facts kDefaults = {{"memory", 80ull << 30},  {"used", 0},       {"mig", 0},
                         {"capability", 90},       {"pcie-max", 5},   {"lanes-max", 16},
                         {"link-state-fields", 1}, {"link-state", 1}, {"events", 1}};

struct Link {
    std::string peer;
    unsigned state = 1;  // 0 down, 1 active, 2 asleep
};
struct StubGpu {
    std::string pci;
    std::string name;
    std::vector<Link> links;
    Facts facts;
};
struct Stub {
    std::vector<StubGpu> gpus;
    Facts defaults = kDefaults;
    std::string p2p;
    std::string mode;
    std::string hang;
    int init = 0;
    int count = 0;
};

void read_links(StubGpu& gpu, const std::string& key, std::istringstream& words) {
    std::string peer = "hidden";
    int count = 0;
    if (key == "link") words >> peer;
    words >> count;
    const unsigned state = key == "link" ? 1 : key == "asleep" ? 2 : 0;
    for (int i = 0; i < count; ++i) gpu.links.push_back({peer == "hidden" ? "" : peer, state});
}

void read_line(Stub& stub, const std::string& line) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::size_t index = 0;
    if (key == "gpu") {
        StubGpu gpu;
        words >> gpu.pci >> std::ws;
        std::getline(words, gpu.name);
        stub.gpus.push_back(gpu);
    } else if (key == "link" || key == "down" || key == "asleep") {
        words >> index;
        read_links(stub.gpus.at(index), key, words);
    } else if (key == "set") {
        std::string fact;
        words >> index >> fact >> stub.gpus.at(index).facts[fact];
    } else if (key == "unset") {
        std::string fact;
        words >> fact;
        stub.defaults.erase(fact);
    } else if (key == "p2p") {
        words >> stub.p2p;
    } else if (key == "mode") {
        words >> stub.mode;
    } else if (key == "hang") {
        words >> stub.hang;
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

bool garbage() {
    return stub().mode == "garbage";
}

const StubGpu& gpu_of(void* device) {
    return *static_cast<const StubGpu*>(device);
}

[[maybe_unused]] int copy(char* to, unsigned size, const std::string& text) {
    if (garbage()) {
        std::memset(to, 0xe9, size);  // no end, no text
        return 0;
    }
    if (text.size() + 1 > size) return 7;
    std::memcpy(to, text.c_str(), text.size() + 1);
    return 0;
}

void fill(PciInfo& pci, const std::string& id) {
    std::memset(&pci, garbage() ? 0xe9 : 0, sizeof pci);
    if (!garbage()) std::memcpy(pci.bus_id, id.c_str(), id.size() + 1);
}

/// A fact of the GPU; kNotSupported when it has none.
template <class Number>
Result tell(void* device, const std::string& name, Number* value) {
    if (stub().hang == name)
        for (;;) pause();
    if (garbage()) {
        *value = static_cast<Number>(kGarbage);
        return kSuccess;
    }
    for (const Facts* facts : {&gpu_of(device).facts, &stub().defaults})
        if (const auto found = facts->find(name); found != facts->end()) {
            *value = static_cast<Number>(found->second);
            return kSuccess;
        }
    return kNotSupported;
}

/// The same for a fact of a link, which the GPU must have.
Result tell_link(void* device, unsigned link, const std::string& name, unsigned* value) {
    if (link >= gpu_of(device).links.size()) return kNotSupported;
    return tell(device, name, value);
}

[[maybe_unused]] Result link_state(void* device, const std::string& means, unsigned link,
                                   unsigned* state) {
    unsigned can = 0;
    if (const Result result = tell_link(device, link, means, &can); result != kSuccess)
        return result;
    *state = garbage() ? can : gpu_of(device).links[link].state;
    return kSuccess;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

#ifndef STUB_WITHOUT_INIT
API Result nvmlInit_v2() {
    if (stub().mode == "hang")
        for (;;) pause();
    if (stub().mode == "crash") std::raise(SIGSEGV);
    if (stub().mode == "exit") _exit(0);
    return stub().init;
}
#endif
API const char* nvmlErrorString(Result code) {
    if (code == 18) return "Driver/library version mismatch";
    if (code == kNoPermission) return "Insufficient Permissions";
    return code == kGpuIsLost ? "GPU is lost" : "Driver Not Loaded";
}
API Result nvmlDeviceGetCount_v2(unsigned* count) {
    *count = garbage() ? 4000000000u : static_cast<unsigned>(stub().gpus.size());
    return stub().count;
}
API Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (index >= stub().gpus.size() && !garbage()) return kInvalidArgument;
    *device = const_cast<StubGpu*>(&stub().gpus.at(index % stub().gpus.size()));
    if (gpu_of(*device).pci == "denied") return kNoPermission;
    return gpu_of(*device).pci == "gone" ? kGpuIsLost : kSuccess;
}
API Result nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
    if (gpu_of(device).pci == "lost") return kGpuIsLost;
    fill(*pci, gpu_of(device).pci);
    return 0;
}

#ifndef STUB_OLD_DRIVER
API Result nvmlSystemGetDriverVersion(char* text, unsigned size) {
    return copy(text, size, "570.1.2");
}
API Result nvmlDeviceGetName(void* device, char* text, unsigned size) {
    return copy(text, size, gpu_of(device).name);
}
API Result nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    return copy(text, size, "GPU-0000-" + gpu_of(device).pci);
}
API Result nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    tell(device, "used", &memory->used);
    return tell(device, "memory", &memory->total);
}
API Result nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned*) {
    return tell(device, "mig", current);
}
API Result nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
    int capability = 0;
    const Result result = tell(device, "capability", &capability);
    *major = garbage() ? -7 : capability / 10;
    *minor = garbage() ? -7 : capability % 10;
    return result;
}
API Result nvmlDeviceGetArchitecture(void* device, unsigned* value) {
    return tell(device, "architecture", value);
}
API Result nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) {
    return tell(device, "pcie-max", value);
}
API Result nvmlDeviceGetGpuMaxPcieLinkGeneration(void* device, unsigned* value) {
    return tell(device, "pcie-max-gpu", value);
}
API Result nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) {
    return tell(device, "lanes-max", value);
}
API Result nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) {
    return tell(device, "pcie-now", value);
}
API Result nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) {
    return tell(device, "lanes-now", value);
}
API Result nvmlDeviceGetPersistenceMode(void* device, unsigned* value) {
    return tell(device, "persistence", value);
}
API Result nvmlDeviceGetEccMode(void* device, unsigned* current, unsigned*) {
    return tell(device, "ecc", current);
}
API Result nvmlDeviceGetComputeMode(void* device, unsigned* value) {
    return tell(device, "compute-mode", value);
}
API Result nvmlDeviceGetTotalEccErrors(void* device, int type, int counter,
                                       unsigned long long* value) {
    constexpr int kUncorrected = 1, kVolatile = 0;
    if (type != kUncorrected || counter != kVolatile) return kInvalidArgument;
    return tell(device, "ecc-errors", value);
}
API Result nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                                     unsigned* pending, unsigned* failed) {
    *corrected = *uncorrected = 0;
    const Result result = tell(device, "remap-pending", pending);
    if (result == kSuccess) tell(device, "remap-failed", failed);
    return result;
}
API Result nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* value) {
    unsigned long long can = 0;
    const Result result = tell(device, "events", &can);
    return result == kSuccess ? tell(device, "clocks", value) : result;
}
API Result nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* value) {
    return tell(device, "clocks", value);
}
API Result nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
    const Result result = link_state(device, "link-state", link, active);
    if (result == kSuccess && !garbage()) *active = *active == 1;
    return result;
}
API Result nvmlDeviceGetNvLinkVersion(void* device, unsigned link, unsigned* version) {
    return tell_link(device, link, "link-version", version);
}
API Result nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
    if (link >= gpu_of(device).links.size()) return kNotSupported;
    fill(*pci, gpu_of(device).links[link].peer);
    return 0;
}
API Result nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* type) {
    return tell_link(device, link, "link-kind", type);
}

namespace {

Result tell_field(void* device, FieldValue& asked) {
    const bool one_of_c2c = asked.field == kC2cStatus || asked.field == kC2cMaxSpeed;
    unsigned long long down = 0;
    asked.type = ValueType::u32;
    switch (asked.field) {
        case kNvlinkState:
            return link_state(device, "link-state-fields", asked.scope, &asked.value.u32);
        case kNvlinkSpeed:
            return tell_link(device, asked.scope, "link-speed", &asked.value.u32);
        case kNvlinkCommonSpeed:
            return tell(device, "link-speed-common", &asked.value.u32);
        case kNvlinkCount:
            return tell(device, "link-count", &asked.value.u32);
        case kC2cCount:
            asked.type = ValueType::u64;
            return tell(device, "c2c", &asked.value.u64);
        default:
            if (!one_of_c2c) return kNotSupported;
    }
    if (asked.field == kC2cMaxSpeed) {
        asked.type = ValueType::real;
        return tell(device, "c2c-speed", &asked.value.real);
    }
    tell(device, "c2c-down", &down);  // the first links are down
    asked.value.u32 = asked.scope >= down;
    return kSuccess;
}

}  // namespace

API Result nvmlDeviceGetFieldValues(void* device, int count, FieldValue* fields) {
    for (int i = 0; i < count; ++i) fields[i].result = tell_field(device, fields[i]);
    return kSuccess;
}
API Result nvmlDeviceGetGpuFabricInfoV(void* device, FabricInfoV* info) {
    unsigned version = 0;  // the newest that this driver knows
    if (tell(device, "fabric-version", &version) != kSuccess) return kNotSupported;
    if (!garbage() && info->version >> 24 > version) return kVersionMismatch;
    tell(device, "fabric-status", &info->status);
    tell(device, "fabric-health", &info->health_mask);
    if (garbage()) std::memset(info, 0xe9, info->version & 0xffff);
    return tell(device, "fabric", &info->state);
}
API Result nvmlDeviceGetGpuFabricInfo(void* device, FabricInfo* info) {
    tell(device, "fabric-status", &info->status);
    return tell(device, "fabric", &info->state);
}
API Result nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
    if (stub().p2p == "unsupported") return kNotSupported;
    *status = stub().p2p == "refused" ? 1 : 0;
    return 0;
}
API Result nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) {
    *level = 50;
    return stub().mode == "no-ancestor" ? kNotSupported : 0;
}
#endif
