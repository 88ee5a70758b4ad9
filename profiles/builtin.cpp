#include "profiles/embedded.hpp"
#include "profiles/knowledge.hpp"

namespace toporun::profiles {
namespace {

constexpr std::string_view kProfilerVersions = "profiles/profiler-versions.toml";

bool is_profile(const EmbeddedFile& file) {
    return file.name != kProfilerVersions && file.name != kKnownBadFile &&
           file.name != kLoaderOptionsFile;
}

/// What stands before the first value: name, title, match and expectations. The files of this
/// directory are written in that order.
std::string_view head_of(std::string_view text) {
    return text.substr(0, text.find("\n[[values]]"));
}

}  // namespace

std::vector<Profile> builtin_profiles() {
    return builtin_profiles([](const Profile&) { return true; });
}

std::vector<Profile> builtin_profiles(const std::function<bool(const Profile&)>& wanted) {
    std::vector<Profile> profiles;
    for (const EmbeddedFile& file : embedded_files())
        if (is_profile(file) && wanted(read_profile(head_of(file.text), file.name)))
            profiles.push_back(read_profile(file.text, file.name));
    return profiles;
}

std::string_view builtin_text(std::string_view name) {
    for (const EmbeddedFile& file : embedded_files())
        if (is_profile(file) && file.name == name) return file.text;
    return {};
}

ProfilerVersions builtin_profiler_versions() {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == kProfilerVersions) return read_profiler_versions(file.text, file.name);
    return {};
}

Knowledge builtin_knowledge(const std::function<bool(const Profile&)>& wanted) {
    return {builtin_profiles(wanted), builtin_profiler_versions(), builtin_known_bad(), {}};
}

Knowledge builtin_knowledge() {
    return builtin_knowledge([](const Profile&) { return true; });
}

}  // namespace toporun::profiles
