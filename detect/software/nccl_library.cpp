#include "detect/software/nccl_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/text.hpp"
#include "detect/software/loader_cache.hpp"
#include "detect/software/nccl_plugins.hpp"
#include "detect/software/python_paths.hpp"
#include "detect/software/version_cache.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kLibrary = "libnccl.so.2";
/// Where the loader looks after its cache; last the CUDA toolkit, to which programs carry an RPATH.
constexpr std::array<const char*, 8> kSystemDirectories = {"/usr/lib/x86_64-linux-gnu",
                                                           "/usr/lib/aarch64-linux-gnu",
                                                           "/usr/lib64",
                                                           "/usr/lib",
                                                           "/lib64",
                                                           "/usr/local/lib",
                                                           "/usr/local/cuda/lib64",
                                                           "/usr/local/cuda/lib"};

constexpr std::uint64_t kLaunchBytes = std::uint64_t{1} << 20;
constexpr std::chrono::milliseconds kLaunchTime{20};

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

/// What all steps of one search share.
struct Search {
    const Sources& sources;
    const Files& files;
    BoundedReader reader;
    VersionCache cache;
    std::string loader_cache;  ///< bytes of /etc/ld.so.cache
    NcclLibrary nccl;

    Search(const Sources& from, const Files& below)
        : sources(from),
          files(below),
          reader(from.deep ? BoundedReader(below)
                           : BoundedReader(below, kLaunchBytes, kLaunchTime)),
          cache(below.real() ? from.cache_directory : std::string()) {}
};

/// The version in the file's strings, or as the cache knows it.
std::optional<std::string> searched_version(Search& search, const std::string& file) {
    const auto identity = search.files.real() ? identity_of(file) : std::nullopt;
    const auto known = identity ? search.cache.find(*identity) : std::nullopt;
    if (known) return known->empty() ? std::nullopt : known;
    auto version = nccl_version_in_elf(search.reader, file, search.sources.deep);
    // That a short search found nothing says little.
    if (identity && (version || search.sources.deep))
        search.cache.keep(*identity, version.value_or(""));
    return version;
}

/// Takes `file` as the library and learns its version: real name, then its strings.
void take(Search& search, const std::string& file) {
    const std::string real = search.files.real_path(file).value_or(file);
    NcclLibrary& nccl = search.nccl;
    nccl.file = printable(real);
    if (!nccl.version) nccl.version = version_in_name(real);
    if (!nccl.version) nccl.version = searched_version(search, real);
    if (!nccl.version)
        nccl.note = fmt::format("NCCL's version is unknown until NCCL starts: {} does not tell it",
                                *nccl.file);
}

bool find_preloaded(Search& search) {
    std::string list = search.sources.preload;
    std::replace(list.begin(), list.end(), ':', ' ');
    for (const std::string& entry : split(list, ' ')) {
        const std::string name = entry.substr(entry.rfind('/') + 1);
        if (!name.starts_with("libnccl.so") || !search.files.exists(entry)) continue;
        take(search, entry);
        return true;
    }
    return false;
}

template <class Directories>
bool find_in(Search& search, const Directories& directories) {
    for (const auto& directory : directories) {
        if (search.reader.spent()) return false;
        const std::string file = fmt::format("{}/{}", directory, kLibrary);
        if (!search.files.exists(file)) continue;
        take(search, file);
        return true;
    }
    return false;
}

bool find_in_packages(Search& search, const std::string& packages) {
    const std::string wheel = packages + "/nvidia/nccl/lib/" + std::string(kLibrary);
    if (search.files.exists(wheel)) {
        search.nccl.version = version_in_metadata(search.files, packages);
        take(search, wheel);
        return true;
    }
    const std::string torch = packages + "/torch/lib";
    if (find_in(search, std::array{torch})) return true;
    // Older wheels have NCCL inside: a library of GiB, searched on request only.
    const std::string cuda = torch + "/libtorch_cuda.so";
    if (!search.files.exists(cuda)) return false;
    take(search, cuda);
    return true;
}

bool find_in_python(Search& search, const std::string& interpreter) {
    for (const std::string& packages :
         site_packages(search.files, interpreter, search.sources.home)) {
        if (search.reader.spent()) return false;
        if (find_in_packages(search, packages)) return true;
    }
    const std::string prefix = interpreter.substr(0, interpreter.rfind("/bin/"));
    return prefix != interpreter && find_in(search, std::array{prefix + "/lib"});
}

bool find_in_program(Search& search) {
    const std::string& program = search.sources.program;
    if (program.empty()) return false;
    if (const auto interpreter = python_interpreter(search.files, program))
        return find_in_python(search, *interpreter);
    search.nccl.version = searched_version(search, program);
    if (search.nccl.version) search.nccl.file = printable(program);
    return search.nccl.version.has_value();
}

bool find_cached(Search& search) {
    bool found = false;
    each_in_loader_cache(search.loader_cache, kLibrary, [&](const std::string& path) {
        if (found || !path.ends_with(kLibrary) || !search.files.exists(path)) return;
        take(search, path);
        found = true;
    });
    return found;
}

/// A launch knows the program; whoever looks at the machine beforehand may have another in mind.
void note_system_library(Search& search) {
    const std::string& program = search.sources.program;
    if (!search.sources.deep || program.empty() || !search.nccl.note.empty()) return;
    search.nccl.note = fmt::format(
        "NCCL is the system's: {} has none of its own, a job with another Python may load another",
        printable(program));
}

void find_library(Search& search) {
    if (find_preloaded(search) || find_in(search, search.sources.library_path) ||
        find_in_program(search))
        return;
    if (find_cached(search) || find_in(search, kSystemDirectories))
        return note_system_library(search);
    search.nccl.note = search.reader.spent()
                           ? "NCCL's version is unknown until NCCL starts: the search took too long"
                           : "NCCL's version is unknown until NCCL starts: no libnccl.so.2 found";
}

}  // namespace

NcclLibrary find_nccl(const Sources& sources, const Files& files) {
    Search search(sources, files);
    search.loader_cache = search.reader.read_at("/etc/ld.so.cache", 0, kMostBytes).value_or("");
    find_library(search);
    FoundPlugins found = find_nccl_plugins(sources, search.reader, search.loader_cache);
    search.nccl.plugins = std::move(found.plugins);
    search.nccl.plugins_partial = found.partial;
    return std::move(search.nccl);
}

}  // namespace toporun::detect
