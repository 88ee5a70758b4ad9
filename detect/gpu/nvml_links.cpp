#include "detect/gpu/nvml_links.hpp"

#include <algorithm>
#include <span>

#include "detect/pci/pci_address.hpp"

namespace toporun::detect {
namespace {

using nvml::Device;
using nvml::FieldValue;
using nvml::Functions;
using nvml::kMostLinks;
using nvml::kSuccess;

constexpr int kFieldsFromCapability = 90;
constexpr long long kMostValue = 1 << 30;

FieldValue field(unsigned number, unsigned scope = 0) {
    FieldValue made{};
    made.field = number;
    made.scope = scope;
    made.result = -1;  // a driver that leaves it alone has not answered
    return made;
}

/// Fills the fields in one call; each one's own result counts. False when the driver cannot.
bool ask_fields(const Functions& f, Device device, std::span<FieldValue> fields) {
    return f.nvmlDeviceGetFieldValues != nullptr &&
           f.nvmlDeviceGetFieldValues(device, static_cast<int>(fields.size()), fields.data()) ==
               kSuccess;
}

/// The value of a field as a number from 0 to 2^30, whatever its type.
std::int32_t number_of_field(const FieldValue& asked) {
    if (asked.result != kSuccess) return kUnknownNumber;
    long long value = -1;
    switch (asked.type) {
        case nvml::ValueType::real:
            if (asked.value.real >= 0 && asked.value.real <= static_cast<double>(kMostValue))
                value = static_cast<long long>(asked.value.real);
            break;
        case nvml::ValueType::u32:
            value = asked.value.u32;
            break;
        case nvml::ValueType::unsigned_long:
        case nvml::ValueType::u64:
            value = static_cast<long long>(
                std::min<unsigned long long>(asked.value.u64, kMostValue + 1));
            break;
        case nvml::ValueType::i64:
            value = asked.value.i64;
            break;
        case nvml::ValueType::i32:
            value = asked.value.i32;
            break;
        case nvml::ValueType::u16:
            value = asked.value.u16;
            break;
    }
    if (value < 0 || value > kMostValue) return kUnknownNumber;
    return static_cast<std::int32_t>(value);
}

/// One field of every link in one call.
LinkNumbers ask_each_link(const Functions& f, Device device, unsigned number) {
    std::array<FieldValue, kMostLinks> fields;
    for (unsigned link = 0; link < kMostLinks; ++link) fields[link] = field(number, link);
    LinkNumbers numbers = kUnknownLinks;
    if (ask_fields(f, device, fields))
        std::transform(fields.begin(), fields.end(), numbers.begin(), number_of_field);
    return numbers;
}

void ask_states(const Functions& f, Device device, NvmlGpu& gpu) {
    if (gpu.compute_capability >= kFieldsFromCapability) {
        gpu.link_active = ask_each_link(f, device, nvml::kNvlinkState);
        for (std::int32_t& active : gpu.link_active)
            if (active != kUnknownNumber) active = active != 0;
    }
    if (f.nvmlDeviceGetNvLinkState == nullptr) return;
    for (unsigned link = 0; link < kMostLinks; ++link) {
        if (gpu.link_active[link] != kUnknownNumber) continue;
        unsigned active = 0;  // an unsupported or missing link is no error of the query
        const nvml::Result result = f.nvmlDeviceGetNvLinkState(device, link, &active);
        if (result == kSuccess) gpu.link_active[link] = active != 0;
        if (result == nvml::kInvalidArgument && link >= nvml::kOldMostLinks) break;
    }
}

/// Some drivers call links inactive that the GPU does not have: as many as it has are kept.
void drop_missing(const Functions& f, Device device, NvmlGpu& gpu) {
    gpu.link_count = static_cast<std::int32_t>(
        std::count_if(gpu.link_active.begin(), gpu.link_active.end(),
                      [](std::int32_t active) { return active != kUnknownNumber; }));
    if (gpu.link_count == 0) return;
    std::array asked{field(nvml::kNvlinkCount)};
    const std::int32_t present =
        ask_fields(f, device, asked) ? number_of_field(asked[0]) : kUnknownNumber;
    if (present == kUnknownNumber) return;
    for (std::size_t link = kMostLinks; link-- > 0 && gpu.link_count > present;)
        if (gpu.link_active[link] == 0) {
            gpu.link_active[link] = kUnknownNumber;
            --gpu.link_count;
        }
}

void ask_kind(const Functions& f, Device device, unsigned link, NvmlGpu& gpu) {
    unsigned kind = 0;
    if (f.nvmlDeviceGetNvLinkRemoteDeviceType != nullptr &&
        f.nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &kind) == kSuccess && kind <= 0xff)
        gpu.link_kind[link] = static_cast<std::int32_t>(kind);
}

void ask_peer(const Functions& f, Device device, unsigned link, NvmlGpu& gpu) {
    nvml::PciInfo peer{};
    if (f.nvmlDeviceGetNvLinkRemotePciInfo_v2 != nullptr &&
        f.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &peer) == kSuccess)
        std::copy_n(peer.bus_id, gpu.link_peer[link].size() - 1, gpu.link_peer[link].begin());
    // An address tells what stands there.
    if (!PciAddress::parse(gpu.link_peer[link].data())) ask_kind(f, device, link, gpu);
}

void ask_speeds(const Functions& f, Device device, NvmlGpu& gpu) {
    gpu.link_mbytes_per_s = ask_each_link(f, device, nvml::kNvlinkSpeed);
    std::array asked{field(nvml::kNvlinkCommonSpeed)};
    const std::int32_t common =
        ask_fields(f, device, asked) ? number_of_field(asked[0]) : kUnknownNumber;
    for (std::size_t link = 0; link < kMostLinks; ++link)
        if (gpu.link_active[link] == 1 && gpu.link_mbytes_per_s[link] == kUnknownNumber)
            gpu.link_mbytes_per_s[link] = common;
}

void ask_versions(const Functions& f, Device device, NvmlGpu& gpu) {
    if (f.nvmlDeviceGetNvLinkVersion == nullptr) return;
    for (unsigned link = 0; link < kMostLinks; ++link) {
        unsigned version = 0;
        if (gpu.link_active[link] != kUnknownNumber &&
            f.nvmlDeviceGetNvLinkVersion(device, link, &version) == kSuccess && version < 256)
            gpu.link_version[link] = static_cast<std::int32_t>(version);
    }
}

void ask_c2c(const Functions& f, Device device, NvmlGpu& gpu) {
    std::array counted{field(nvml::kC2cCount)};
    const std::int32_t count =
        ask_fields(f, device, counted) ? number_of_field(counted[0]) : kUnknownNumber;
    if (count < 0 || count > 1024) return;
    gpu.c2c_links = 0;
    long long speed = 0;
    for (unsigned link = 0; link < static_cast<unsigned>(count); ++link) {
        std::array asked{field(nvml::kC2cStatus, link), field(nvml::kC2cMaxSpeed, link)};
        if (!ask_fields(f, device, asked) || number_of_field(asked[0]) != 1) continue;
        const std::int32_t told = number_of_field(asked[1]);
        if (told == kUnknownNumber) continue;
        ++gpu.c2c_links;
        speed += told;
    }
    if (gpu.c2c_links > 0 && speed <= kMostValue)
        gpu.c2c_mbytes_per_s = static_cast<std::int32_t>(speed);
}

}  // namespace

void ask_links(const Functions& functions, Device device, NvmlGpu& gpu) {
    ask_states(functions, device, gpu);
    drop_missing(functions, device, gpu);
    for (unsigned link = 0; link < kMostLinks; ++link)
        if (gpu.link_active[link] == 1) ask_peer(functions, device, link, gpu);
    if (gpu.compute_capability >= kFieldsFromCapability) ask_c2c(functions, device, gpu);
}

void ask_link_details(const Functions& functions, Device device, NvmlGpu& gpu) {
    if (gpu.link_count == 0) return;
    ask_speeds(functions, device, gpu);
    ask_versions(functions, device, gpu);
    for (unsigned link = 0; link < kMostLinks; ++link)
        if (gpu.link_active[link] == 1) ask_kind(functions, device, link, gpu);
}

}  // namespace toporun::detect
