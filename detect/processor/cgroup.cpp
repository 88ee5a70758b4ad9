#include "detect/processor/cgroup.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/mounts.hpp"

namespace toporun::detect {
namespace {

/// Version 1 says "no limit" by the largest multiple of the page size: anything near it is none.
constexpr long long kNoMemoryLimit = 0x7000000000000000;

struct Group {
    std::string mount_point;
    std::string path;  ///< below the mount point: "" or "/a/b"
};

/// Path of this process in the hierarchy of `controller`, "" for version 2.
std::optional<std::string> own_path(const std::string& membership, const std::string& controller) {
    for (const std::string& line : split(membership, '\n')) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::vector<std::string> controllers =
            split(std::string_view(line).substr(first + 1, second - first - 1), ',');
        if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end())
            return line.substr(second + 1);
    }
    return std::nullopt;
}

/// Whether the group lies in the part of the hierarchy that is mounted.
bool shows(const Mount& mount, const std::string& path) {
    const std::string root = mount.root == "/" ? "" : mount.root;
    return path == root || path.starts_with(root + "/");
}

/// The group's directory. A path outside the mounted part (a container that sees its own group as
/// the top) is the mount point itself.
Group group_at(const Mount& mount, const std::string& path) {
    Group group{mount.point, path};
    if (!shows(mount, path))
        group.path.clear();
    else
        group.path = path.substr(mount.root == "/" ? 0 : mount.root.size());
    if (group.path == "/" || group.path.find("/..") != std::string::npos) group.path.clear();
    return group;
}

std::optional<Group> find_group(const std::vector<Mount>& mounts, const std::string& membership,
                                const std::string& controller) {
    const auto path = own_path(membership, controller);
    if (!path) return std::nullopt;
    const Mount* best = nullptr;
    for (const Mount& mount : mounts) {
        const std::vector<std::string> options = split(mount.super_options, ',');
        const bool fits = controller.empty()
                              ? mount.type == "cgroup2"
                              : mount.type == "cgroup" && std::find(options.begin(), options.end(),
                                                                    controller) != options.end();
        if (!fits) continue;
        // A container may have the host's hierarchy mounted beside its own.
        if (best == nullptr || (!shows(*best, *path) && shows(mount, *path))) best = &mount;
    }
    if (best == nullptr) return std::nullopt;
    return group_at(*best, *path);
}

std::optional<double> quota_v2(const Files& files, const std::string& directory) {
    const auto line = files.line(directory + "/cpu.max");
    if (!line) return std::nullopt;
    const std::vector<std::string> words = split(*line, ' ');
    const auto quota = to_integer(words[0]);  // "max" is no integer
    const auto period = words.size() > 1 ? to_integer(words[1]) : 100000;
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v1(const Files& files, const std::string& directory) {
    const auto quota = files.integer(directory + "/cpu.cfs_quota_us");
    const auto period = files.integer(directory + "/cpu.cfs_period_us");
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<std::uint64_t> memory_limit(const Files& files, const std::string& file) {
    const auto limit = files.integer(file);
    if (!limit || *limit <= 0 || *limit >= kNoMemoryLimit) return std::nullopt;
    return static_cast<std::uint64_t>(*limit);
}

std::optional<std::uint64_t> pids_limit(const Files& files, const std::string& directory) {
    const auto limit = files.integer(directory + "/pids.max");  // "max" is no integer
    if (!limit || *limit < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*limit);
}

/// The PUs that a group has in effect. Version 1 without cpuset.effective_cpus is older than 3.17.
CpuSet cpuset_of(const Files& files, const std::string& directory) {
    for (const char* name : {"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus"}) {
        const auto list = files.read(directory + name, 65536);
        if (!list || trim(*list).empty()) continue;
        try {
            return CpuSet::parse(*list);
        } catch (const Error&) {
            continue;  // a list that is none tells as little as a missing one
        }
    }
    return {};
}

template <class Value>
void take_smaller(std::optional<Value>& kept, const std::optional<Value>& found) {
    if (found && (!kept || *found < *kept)) kept = found;
}

/// Calls `visit` with the directory of the group and of each group above it.
template <class Visit>
void walk_up(const std::optional<Group>& group, const Visit& visit) {
    if (!group) return;
    std::string path = group->path;
    for (;;) {
        visit(group->mount_point + path);
        if (path.empty()) return;
        path.erase(path.rfind('/'));
    }
}

std::string read_membership(const Files& files) {
    return files.read("/proc/self/cgroup", 65536).value_or("");
}

}  // namespace

CgroupLimits read_cgroup_limits(const Files& files) {
    CgroupLimits limits;
    const std::string membership = read_membership(files);
    if (membership.empty()) return limits;
    const std::vector<Mount> mounts = read_mounts(files);
    walk_up(find_group(mounts, membership, ""), [&](const std::string& directory) {
        take_smaller(limits.cpu_quota, quota_v2(files, directory));
        take_smaller(limits.memory_bytes, memory_limit(files, directory + "/memory.max"));
        take_smaller(limits.pids, pids_limit(files, directory));
    });
    walk_up(find_group(mounts, membership, "cpu"), [&](const std::string& directory) {
        take_smaller(limits.cpu_quota, quota_v1(files, directory));
    });
    walk_up(find_group(mounts, membership, "memory"), [&](const std::string& directory) {
        take_smaller(limits.memory_bytes,
                     memory_limit(files, directory + "/memory.limit_in_bytes"));
    });
    walk_up(find_group(mounts, membership, "pids"), [&](const std::string& directory) {
        take_smaller(limits.pids, pids_limit(files, directory));
    });
    return limits;
}

std::optional<std::uint64_t> read_oom_kills(const Files& files) {
    std::optional<std::uint64_t> kills;
    const auto take = [&](const std::string& file) {
        const auto text = files.read(file, 65536);
        if (!text) return;
        for (const std::string& line : split(*text, '\n')) {
            constexpr std::string_view kName = "oom_kill ";
            if (!line.starts_with(kName)) continue;
            const auto count = to_integer(trim(std::string_view(line).substr(kName.size())));
            if (count && *count >= 0)
                kills = std::max(kills.value_or(0), static_cast<std::uint64_t>(*count));
        }
    };
    const std::string membership = read_membership(files);
    if (membership.empty()) return kills;
    const std::vector<Mount> mounts = read_mounts(files);
    walk_up(find_group(mounts, membership, ""),
            [&](const std::string& directory) { take(directory + "/memory.events"); });
    walk_up(find_group(mounts, membership, "memory"),
            [&](const std::string& directory) { take(directory + "/memory.oom_control"); });
    return kills;
}

CpuSet read_cgroup_cpus(const Files& files) {
    const std::string membership = read_membership(files);
    if (membership.empty()) return {};
    const std::vector<Mount> mounts = read_mounts(files);
    CpuSet cpus;
    for (const char* controller : {"", "cpuset"})
        walk_up(find_group(mounts, membership, controller), [&](const std::string& directory) {
            const CpuSet here = cpuset_of(files, directory);
            if (here.empty()) return;
            // Sets that exclude each other are from different moments: the own group counts.
            const CpuSet both = cpus.empty() ? here : cpus & here;
            if (!both.empty()) cpus = both;
        });
    return cpus;
}

}  // namespace toporun::detect
