#include "detect/software/vendor_files.hpp"

#include <array>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// Where the packages put themselves: aws-efa-installer, azhpc-images, Google's gIB, TCPXO and TCPX
/// containers, HPC-X, NVIDIA's IMEX and topology daemons, HPE's Slingshot software.
constexpr std::array<const char*, 12> kVendorFiles = {
    "/opt/amazon/efa",
    "/opt/amazon/ofi-nccl",
    "/opt/aws-ofi-nccl",
    "/opt/azurehpc",
    "/usr/local/gib",
    "/var/lib/tcpxo",
    "/usr/local/tcpx",
    "/opt/hpcx",
    "/etc/nvidia-imex/nodes_config.cfg",
    "/dev/nvidia-caps-imex-channels",
    "/var/run/nvidia-topologyd/virtualTopology.xml",
    "/opt/cray/libfabric"};

/// Kept by cloud-init for all users, secrets taken out (cloud-init docs, instance-data). The size
/// is "vmSize" in Azure's part, "instance-type" in that of AWS; the other clouds' parts lack it.
constexpr const char* kInstanceData = "/run/cloud-init/instance-data.json";
constexpr std::array<std::string_view, 2> kSizeKeys = {"vmSize", "instance-type"};
constexpr std::size_t kMostInstanceData = 1u << 20;
constexpr std::size_t kLongestType = 64;

/// The text behind `"key":` when it is a plain word in quotes.
std::string quoted_after(std::string_view text, std::string_view key) {
    const std::string wanted = "\"" + std::string(key) + "\"";
    for (std::size_t at = text.find(wanted); at != std::string_view::npos;
         at = text.find(wanted, at + 1)) {
        std::string_view rest = trim(text.substr(at + wanted.size(), kLongestType + 16));
        if (!rest.starts_with(':')) continue;
        rest = trim(rest.substr(1));
        if (!rest.starts_with('"')) continue;
        const std::size_t end = rest.find('"', 1);
        const std::string_view word = rest.substr(1, end == rest.npos ? 0 : end - 1);
        const bool plain = word.find_first_not_of(
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                               "uvwxyz0123456789._-") == word.npos;
        if (!word.empty() && word.size() <= kLongestType && plain) return std::string(word);
    }
    return {};
}

}  // namespace

std::vector<std::string> vendor_files(const Files& files) {
    std::vector<std::string> found;
    for (const char* path : kVendorFiles)
        if (files.exists(path)) found.emplace_back(path);
    return found;
}

std::string cloud_instance_type(const Files& files) {
    const auto text = files.read(kInstanceData, kMostInstanceData);
    if (!text) return {};
    for (const std::string_view key : kSizeKeys)
        if (std::string word = quoted_after(*text, key); !word.empty()) return word;
    return {};
}

}  // namespace toporun::detect
