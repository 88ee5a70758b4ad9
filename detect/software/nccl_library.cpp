#include "detect/software/nccl_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "detect/software/python_paths.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kLibrary = "libnccl.so.2";
constexpr std::array<std::string_view, 4> kPluginPrefixes = {"libnccl-net", "libnccl-tuner",
                                                             "libnccl-env", "libnccl-profiler"};
/// Where the loader looks after its cache; last the CUDA toolkit, to which programs carry an RPATH.
constexpr std::array<const char*, 7> kSystemDirectories = {"/usr/lib/x86_64-linux-gnu",
                                                           "/usr/lib/aarch64-linux-gnu",
                                                           "/usr/lib64",
                                                           "/usr/lib",
                                                           "/lib64",
                                                           "/usr/local/lib",
                                                           "/usr/local/cuda/lib64"};

/// "2.28.9" at the end of a name: libnccl.so.2.28.9.
std::optional<std::string> version_in_name(std::string_view name) {
    constexpr std::string_view kStem = "libnccl.so.";
    const std::size_t at = name.rfind(kStem);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view version = name.substr(at + kStem.size());
    if (std::count(version.begin(), version.end(), '.') != 2 ||
        version.find_first_not_of("0123456789.") != std::string_view::npos)
        return std::nullopt;
    return std::string(version);
}

/// "2.28.9" of "nvidia_nccl_cu13-2.28.9.dist-info", beside the package directory.
std::optional<std::string> version_in_metadata(const Files& files, const std::string& packages) {
    for (const std::string& name : files.list(packages)) {
        if (!name.starts_with("nvidia_nccl_") || !name.ends_with(".dist-info")) continue;
        const std::string stem =
            name.substr(0, name.size() - std::string_view(".dist-info").size());
        const std::size_t dash = stem.rfind('-');
        if (dash != std::string::npos && dash + 1 < stem.size())
            return printable(stem.substr(dash + 1));
    }
    return std::nullopt;
}

/// Takes `file` as the library and learns its version: real name, then its strings.
void take(const Files& files, const std::string& file, bool deep, NcclLibrary& nccl) {
    const std::string real = files.real_path(file).value_or(file);
    nccl.file = printable(real);
    if (!nccl.version) nccl.version = version_in_name(real);
    if (!nccl.version) nccl.version = nccl_version_in_elf(files, real, deep);
    if (!nccl.version)
        nccl.note = fmt::format("NCCL's version is unknown until NCCL starts: {} does not tell it",
                                *nccl.file);
}

bool find_preloaded(const Sources& sources, const Files& files, NcclLibrary& nccl) {
    std::string list = sources.preload;
    std::replace(list.begin(), list.end(), ':', ' ');
    for (const std::string& entry : split(list, ' ')) {
        const std::string name = entry.substr(entry.rfind('/') + 1);
        if (!name.starts_with("libnccl.so") || !files.exists(entry)) continue;
        take(files, entry, sources.deep, nccl);
        return true;
    }
    return false;
}

template <class Directories>
bool find_in(const Directories& directories, const Sources& sources, const Files& files,
             NcclLibrary& nccl) {
    for (const auto& directory : directories) {
        const std::string file = fmt::format("{}/{}", directory, kLibrary);
        if (!files.exists(file)) continue;
        take(files, file, sources.deep, nccl);
        return true;
    }
    return false;
}

bool find_in_python(const Sources& sources, const Files& files, const std::string& interpreter,
                    NcclLibrary& nccl) {
    for (const std::string& packages : site_packages(files, interpreter, sources.home)) {
        const std::string wheel = packages + "/nvidia/nccl/lib/" + std::string(kLibrary);
        if (files.exists(wheel)) {
            nccl.version = version_in_metadata(files, packages);
            take(files, wheel, sources.deep, nccl);
            return true;
        }
        const std::string torch = packages + "/torch/lib";
        if (find_in(std::array{torch}, sources, files, nccl)) return true;
        // Older wheels have NCCL inside: a library of GiB, searched on request only.
        if (const std::string cuda = torch + "/libtorch_cuda.so"; files.exists(cuda)) {
            take(files, cuda, sources.deep, nccl);
            return true;
        }
    }
    const std::string prefix = interpreter.substr(0, interpreter.rfind("/bin/"));
    return prefix != interpreter && find_in(std::array{prefix + "/lib"}, sources, files, nccl);
}

/// Calls `visit` with each path in the loader's cache whose last part starts with `name`. The cache
/// holds paths as C strings; nothing else of its format matters here.
template <class Visit>
void each_cached(std::string_view cache, std::string_view name, const Visit& visit) {
    const std::string wanted = fmt::format("/{}", name);
    for (std::size_t at = cache.find(wanted); at != std::string_view::npos;
         at = cache.find(wanted, at + 1)) {
        const std::size_t before = cache.rfind('\0', at);
        const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
        const std::size_t end = std::min(cache.find('\0', at), cache.size());
        const std::string_view path = cache.substr(begin, end - begin);
        if (path.starts_with('/') && path.find('/', at - begin + 1) == std::string_view::npos)
            visit(std::string(path));
    }
}

bool find_cached(std::string_view cache, const Sources& sources, const Files& files,
                 NcclLibrary& nccl) {
    bool found = false;
    each_cached(cache, kLibrary, [&](const std::string& path) {
        if (found || !path.ends_with(kLibrary) || !files.exists(path)) return;
        take(files, path, sources.deep, nccl);
        found = true;
    });
    return found;
}

bool is_plugin(std::string_view name) {
    return name.find(".so") != std::string_view::npos &&
           std::any_of(kPluginPrefixes.begin(), kPluginPrefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> find_plugins(const Sources& sources, const Files& files,
                                      std::string_view cache) {
    std::vector<std::string> names;
    for (const std::string& directory : sources.library_path)
        for (const std::string& name : files.list(directory))
            if (is_plugin(name)) names.push_back(printable(name));
    for (const std::string_view prefix : kPluginPrefixes)
        each_cached(cache, prefix, [&](const std::string& path) {
            const std::string name = path.substr(path.rfind('/') + 1);
            if (is_plugin(name) && files.exists(path)) names.push_back(printable(name));
        });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

void find_library(const Sources& sources, const Files& files, std::string_view cache,
                  NcclLibrary& nccl) {
    if (find_preloaded(sources, files, nccl)) return;
    if (find_in(sources.library_path, sources, files, nccl)) return;
    if (!sources.program.empty()) {
        const auto interpreter = python_interpreter(files, sources.program);
        if (interpreter && find_in_python(sources, files, *interpreter, nccl)) return;
        if (!interpreter) nccl.version = nccl_version_in_elf(files, sources.program, sources.deep);
        if (nccl.version) {
            nccl.file = printable(sources.program);
            return;
        }
    }
    if (find_cached(cache, sources, files, nccl)) return;
    if (find_in(kSystemDirectories, sources, files, nccl)) return;
    nccl.note = "NCCL's version is unknown until NCCL starts: no libnccl.so.2 found";
}

}  // namespace

NcclLibrary find_nccl(const Sources& sources, const Files& files) {
    NcclLibrary nccl;
    const std::string cache = files.read("/etc/ld.so.cache").value_or("");
    find_library(sources, files, cache, nccl);
    nccl.plugins = find_plugins(sources, files, cache);
    return nccl;
}

}  // namespace toporun::detect
