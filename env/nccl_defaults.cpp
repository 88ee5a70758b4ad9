#include "env/nccl_defaults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "env/carrier.hpp"
#include "env/match_known_bad.hpp"

namespace toporun::env {
namespace {

using detect::PathType;

enum class CpuKind { unknown, intel, amd, arm, zhaoxin, other };

CpuKind cpu_kind(const detect::Cpu& cpu) {
    if (cpu.architecture == "aarch64" || cpu.vendor == "ARM") return CpuKind::arm;
    if (cpu.vendor == "GenuineIntel") return CpuKind::intel;
    if (cpu.vendor == "AuthenticAMD") return CpuKind::amd;
    if (cpu.vendor == "CentaurHauls" || trim(cpu.vendor) == "Shanghai") return CpuKind::zhaoxin;
    if (cpu.vendor.empty() && (cpu.architecture.empty() || cpu.architecture == "x86_64"))
        return CpuKind::unknown;
    return CpuKind::other;
}

LevelDefault since_2_23(CpuKind cpu, int gpus) {
    if (gpus > 2) return {PathType::PXB, "the default of 2.23 and later", true};
    if (cpu == CpuKind::amd)
        return {PathType::SYS, "2.23 and later: AMD with at most two GPUs", true};
    if (cpu == CpuKind::unknown)
        return {PathType::PXB, "the default of 2.23 and later; SYS if the CPU is AMD's", false};
    return {PathType::PXB, "the default of 2.23 and later", true};
}

LevelDefault since_2_9(CpuKind cpu) {
    switch (cpu) {
        case CpuKind::intel:
            return {PathType::PXB, "2.9 to 2.22: Intel", true};
        case CpuKind::arm:
            return {PathType::PXB, "2.9 to 2.22: Arm", true};
        case CpuKind::zhaoxin:
            return {PathType::PXB, "2.9 to 2.22: Zhaoxin", true};
        case CpuKind::unknown:
            return {PathType::PXB, "2.9 to 2.22: if the CPU is Intel's or Arm's, else SYS", false};
        case CpuKind::amd:
            return {PathType::SYS, "2.9 to 2.22: AMD", true};
        case CpuKind::other:
            break;
    }
    return {PathType::SYS, "2.9 to 2.22: neither Intel nor Arm", true};
}

/// 2.8: Intel is split at Skylake, family 6 model 0x55.
LevelDefault before_2_9(const detect::Cpu& cpu, CpuKind kind) {
    if (kind != CpuKind::intel) {
        LevelDefault level = since_2_9(kind);
        const std::size_t colon = level.why.find(':');
        if (colon != std::string::npos) level.why = "2.8" + level.why.substr(colon);
        return level;
    }
    const bool old = cpu.family == 6 && cpu.model_number && *cpu.model_number < 0x55;
    if (old) return {PathType::PXB, "2.8: Intel before Skylake", true};
    return {PathType::PHB, "2.8: Intel Skylake and later", cpu.model_number.has_value()};
}

}  // namespace

bool is_nvlink(PathType path) {
    return path == PathType::NVL || path == PathType::NVB;
}

namespace {

LevelDefault likely_p2p_level(const Inputs& inputs, int gpus) {
    const CpuKind cpu = cpu_kind(inputs.machine.cpu);
    if (inputs.rccl)  // ROCm/rccl src/graph/paths.cc; read in one version only
        return cpu == CpuKind::arm ? LevelDefault{PathType::PXB, "RCCL on Arm", false}
                                   : LevelDefault{PathType::SYS, "RCCL", false};
    if (!inputs.nccl) {
        LevelDefault level = since_2_23(cpu, gpus);
        level.why += "; the version is not known";
        level.certain = false;
        return level;
    }
    if (*inputs.nccl >= 22300) return since_2_23(cpu, gpus);
    if (*inputs.nccl >= 20900) return since_2_9(cpu);
    return before_2_9(inputs.machine.cpu, cpu);
}

}  // namespace

LevelDefault default_p2p_level(const Inputs& inputs, int gpus) {
    LevelDefault level = likely_p2p_level(inputs, gpus);
    const CpuKind cpu = cpu_kind(inputs.machine.cpu);
    const bool never_above =
        cpu == CpuKind::intel || cpu == CpuKind::arm || cpu == CpuKind::zhaoxin;
    level.at_most = level.certain || never_above ? level.level : PathType::SYS;
    return level;
}

std::vector<std::string> level_names(std::optional<int> nccl) {
    struct Name {
        const char* name;
        int since;
    };
    constexpr std::array<Name, 10> kNames = {{{"LOC", 0},
                                              {"NVL", 0},
                                              {"NVB", 20800},
                                              {"C2C", 22600},
                                              {"PIX", 0},
                                              {"PXB", 0},
                                              {"P2C", 22700},
                                              {"PXN", 21200},
                                              {"PHB", 0},
                                              {"SYS", 0}}};
    std::vector<std::string> names;
    for (const Name& name : kNames)
        if (!nccl || *nccl >= name.since) names.emplace_back(name.name);
    return names;
}

bool is_level_digit(const std::string& value) {
    return !value.empty() && value.front() >= '0' && value.front() <= '9';
}

std::optional<PathType> level_of_value(const std::string& value, std::optional<int> nccl) {
    // Before 2.6 there were no names, and a word is the number 0 (NVIDIA/nccl issue 332).
    const bool words = !nccl || *nccl >= 20600;
    const std::vector<std::string> names = level_names(nccl);
    if (words && std::find(names.begin(), names.end(), value) != names.end())
        return detect::parse_path_name(value);
    if (words && !is_level_digit(value)) return std::nullopt;
    if (value.empty()) return std::nullopt;
    constexpr std::array<PathType, 5> kOldScale = {PathType::LOC, PathType::PIX, PathType::PXB,
                                                   PathType::PHB, PathType::SYS};
    const long long number = std::clamp(nccl_integer(value), 0LL, 4LL);
    return kOldScale[static_cast<std::size_t>(number)];
}

TransportSwitches with_users_switches(const Inputs& inputs, TransportSwitches switches) {
    const auto number = [&](const char* name) {
        return nccl_integer(user_value(inputs, name).value_or("0"));
    };
    switches.shm_disabled = number("NCCL_SHM_DISABLE") == 1;
    switches.ignore_disabled_p2p = number("NCCL_IGNORE_DISABLED_P2P") >= 1;
    // Without RDMA, or when the user forbids it, the adapters carry nothing between these GPUs.
    if (number("NCCL_NET_DISABLE_INTRA") == 1 || !data_over_rdma(inputs)) switches.network.clear();
    if (const auto level = level_of_value(user_value(inputs, kP2pLevel).value_or(""), inputs.nccl))
        switches.level = *level;
    if (number(kP2pDisable) == 1) switches.level = PathType::LOC;
    return switches;
}

bool assumed_refused(const Inputs& inputs, const PairMatrix& matrix, int a, int b) {
    return matrix.peer_access(a, b) == detect::PeerAccess::unknown &&
           !is_nvlink(matrix.path(a, b)) &&
           (stock_refusal(inputs, a) != nullptr || stock_refusal(inputs, b) != nullptr);
}

std::string pair_transport(const Inputs& inputs, const PairMatrix& matrix, int a, int b,
                           const TransportSwitches& switches) {
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    const bool network = !switches.network.empty() && switches.network[x][y];
    const std::string otherwise = network || switches.shm_disabled ? "NET" : "SHM";
    const PathType path = matrix.path(a, b);
    if (path > switches.level || matrix.mig(a, b)) return otherwise;
    if (matrix.peer_access(a, b) == detect::PeerAccess::refused) {
        // NVML is asked since 2.12, and a refusal over NVLink is taken for a broken link.
        const bool asked = !inputs.nccl || *inputs.nccl >= 21200;
        return is_nvlink(path) && asked && !inputs.rccl && !switches.ignore_disabled_p2p
                   ? "NONE"
                   : otherwise;
    }
    if (network || assumed_refused(inputs, matrix, a, b)) return otherwise;
    return path == PathType::NVB ? "P2P-indirect" : "P2P";
}

}  // namespace toporun::env
