#include "profiles/embedded.hpp"
#include "profiles/knowledge.hpp"

namespace toporun::profiles {
namespace {

constexpr std::string_view kProfilerVersions = "profiles/profiler-versions.toml";

}  // namespace

std::vector<Profile> builtin_profiles() {
    std::vector<Profile> profiles;
    for (const EmbeddedFile& file : embedded_files())
        if (file.name != kProfilerVersions && file.name != kKnownBadFile &&
            file.name != kLoaderOptionsFile)
            profiles.push_back(read_profile(file.text, file.name));
    return profiles;
}

ProfilerVersions builtin_profiler_versions() {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == kProfilerVersions) return read_profiler_versions(file.text, file.name);
    return {};
}

Knowledge builtin_knowledge() {
    return {builtin_profiles(), builtin_profiler_versions(), builtin_known_bad(), {}};
}

}  // namespace toporun::profiles
