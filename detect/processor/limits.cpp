#include "detect/processor/limits.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "detect/mounts.hpp"
#include "detect/processor/cgroup.hpp"

namespace toporun::detect {
namespace {

/// A number with tmpfs's suffix: "65536k".
std::optional<std::uint64_t> size_option(std::string_view text) {
    unsigned shift = 0;
    if (text.ends_with('k')) shift = 10;
    if (text.ends_with('m')) shift = 20;
    if (text.ends_with('g')) shift = 30;
    if (shift != 0) text.remove_suffix(1);
    const auto number = to_integer(text);
    if (!number || *number <= 0 || *number > (INT64_MAX >> shift)) return std::nullopt;
    return static_cast<std::uint64_t>(*number) << shift;
}

void read_shm_of_tree(const Files& files, Limits& limits) {
    for (const Mount& mount : read_mounts(files)) {
        if (mount.point != "/dev/shm") continue;
        for (const std::string& option : split(mount.super_options, ','))
            if (option.starts_with("size=")) limits.shm_bytes = size_option(option.substr(5));
    }
}

void read_shm(const Files& files, Limits& limits) {
    if (!files.real()) return read_shm_of_tree(files, limits);
    struct statvfs status {};
    if (statvfs("/dev/shm", &status) != 0) return;
    limits.shm_bytes = std::uint64_t{status.f_blocks} * status.f_frsize;
    limits.shm_free_bytes = std::uint64_t{status.f_bavail} * status.f_frsize;
}

/// The soft limit in a line of /proc/self/limits: name, two or more blanks, soft, hard, unit.
std::optional<std::uint64_t> soft_limit(std::string_view text, std::string_view name) {
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = trim(text.substr(at + name.size(), 256));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
    if (word == "unlimited") return kUnlimited;
    const auto number = to_integer(word);
    if (!number || *number < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
}

/// The kernel asks for the capability in the first user namespace (Linux
/// drivers/infiniband/core/umem.c, capable): root of a rootless container has its bit and not its
/// power. There the map of users is not the whole range onto itself.
std::optional<bool> holds_ipc_lock(const Files& files) {
    constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK, include/uapi/linux/capability.h
    const auto status = files.read("/proc/self/status", 16384);
    const auto bits = status ? value_of(*status, "CapEff") : std::nullopt;
    if (!bits) return std::nullopt;
    std::uint64_t effective = 0;
    const auto [end, error] =
        std::from_chars(bits->data(), bits->data() + bits->size(), effective, 16);
    if (error != std::errc() || end != bits->data() + bits->size()) return std::nullopt;
    if ((effective >> kIpcLock & 1) == 0) return false;
    const auto map = files.read("/proc/self/uid_map", 4096);
    if (!map) return true;  // a kernel without user namespaces
    std::vector<std::string> words = split(trim(*map), ' ');
    std::erase(words, "");
    return words == std::vector<std::string>{"0", "0", "4294967295"};
}

std::optional<std::uint64_t> memory_total(const Files& files) {
    const auto text = files.read("/proc/meminfo", 4096);
    const auto total = text ? value_of(*text, "MemTotal") : std::nullopt;
    if (!total) return std::nullopt;
    const auto kib = to_integer(std::string_view(*total).substr(0, total->find(' ')));
    if (!kib || *kib <= 0 || *kib > (INT64_MAX >> 10)) return std::nullopt;
    return static_cast<std::uint64_t>(*kib) << 10;
}

}  // namespace

Limits detect_limits(const Files& files) {
    Limits limits;
    read_shm(files, limits);
    const std::string text = files.read("/proc/self/limits", 16384).value_or("");
    limits.memlock_bytes = soft_limit(text, "Max locked memory");
    limits.ipc_lock = holds_ipc_lock(files);
    limits.nofile = soft_limit(text, "Max open files");
    limits.nproc = soft_limit(text, "Max processes");
    limits.memory_bytes = memory_total(files);
    const CgroupLimits groups = read_cgroup_limits(files);
    limits.cpu_quota = groups.cpu_quota;
    limits.memory_limit_bytes = groups.memory_bytes;
    if (groups.pids) limits.nproc = std::min(limits.nproc.value_or(kUnlimited), *groups.pids);
    return limits;
}

}  // namespace toporun::detect
