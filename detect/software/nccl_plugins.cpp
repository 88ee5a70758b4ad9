#include "detect/software/nccl_plugins.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "detect/software/loader_cache.hpp"

namespace toporun::detect {
namespace {

/// What NCCL looks for by itself or by a short name (libnccl-net-NAME.so), and the tuner of AWS.
constexpr std::array<std::string_view, 5> kPrefixes = {
    "libnccl-net", "libnccl-tuner", "libnccl-env", "libnccl-profiler", "libnccl-ofi-tuner"};

/// Parts of paths, the first that fits counts. Packages: aws-ofi-nccl in /opt/amazon/ofi-nccl or
/// /opt/aws-ofi-nccl; /usr/local/gib, /var/lib/tcpxo, /usr/local/tcpx and google-fast-socket of
/// Google's images; nccl_rdma_sharp_plugin in HPC-X.
constexpr std::array<std::pair<std::string_view, const char*>, 15> kMakers = {
    {{"ofi-nccl", "aws-ofi"},
     {"-net-ofi", "aws-ofi"},
     {"-tuner-ofi", "aws-ofi"},
     {"-ofi-tuner", "aws-ofi"},
     {"/local/gib/", "gib"},
     {"-net_gib", "gib"},
     {"-net-gib", "gib"},
     {"tcpxo", "tcpxo"},
     {"fastrak", "tcpxo"},
     {"tcpx", "tcpx"},
     {"fast-socket", "fastsocket"},
     {"fastsocket", "fastsocket"},
     {"hpcx", "hpcx"},
     {"rdma_sharp", "hpcx"},
     {"rdma-sharp", "hpcx"}}};

constexpr std::size_t kMostPlugins = 64;

bool is_plugin(std::string_view name) {
    return name.find(".so") != std::string_view::npos &&
           std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string last_part(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

void add(const Files& files, const std::string& path, std::vector<NcclPlugin>& plugins) {
    const auto real = files.real_path(path);
    if (!real || plugins.size() == kMostPlugins) return;
    NcclPlugin plugin{printable(last_part(path)), printable(*real), nccl_plugin_maker(path)};
    // The package's own directory is often behind a link.
    if (plugin.maker.empty()) plugin.maker = nccl_plugin_maker(*real);
    const bool known = std::any_of(plugins.begin(), plugins.end(), [&](const NcclPlugin& other) {
        return other.name == plugin.name && other.file == plugin.file;
    });
    if (!known) plugins.push_back(std::move(plugin));
}

}  // namespace

std::string nccl_plugin_maker(std::string_view file) {
    std::string lower(file);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    for (const auto& [part, maker] : kMakers)
        if (lower.find(part) != std::string::npos) return maker;
    return {};
}

FoundPlugins find_nccl_plugins(const Sources& sources, const BoundedReader& reader,
                               std::string_view loader_cache) {
    const Files& files = reader.files();
    FoundPlugins found;
    std::vector<std::string> seen;
    // A path that each of these calls may wait for: the clock is read before every one.
    const auto look_at = [&](const std::string& path) {
        found.partial = found.partial || reader.spent();
        if (!found.partial) add(files, path, found.plugins);
    };
    for (const std::string& directory : sources.library_path) {
        if (std::find(seen.begin(), seen.end(), directory) != seen.end()) continue;
        seen.push_back(directory);
        found.partial = found.partial || reader.spent();
        if (found.partial) return found;
        for (const std::string& name : files.list(directory))
            if (is_plugin(name)) look_at(directory + "/" + name);
    }
    for (const std::string_view prefix : kPrefixes)
        each_in_loader_cache(loader_cache, prefix, [&](const std::string& path) {
            if (is_plugin(last_part(path))) look_at(path);
        });
    return found;
}

}  // namespace toporun::detect
