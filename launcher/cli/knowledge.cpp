#include "launcher/cli/knowledge.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "env/match_profile.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kSiteDirectory = "/etc/toporun/profiles";
constexpr std::size_t kMostFiles = 256;
constexpr std::size_t kLargestProfile = 1u << 20;

/// Why others than root and the user could have put it there; "" when they could not.
std::string unsafe(const struct stat& info) {
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) return "it belongs to another user";
    if ((info.st_mode & S_IWOTH) != 0) return "everybody may write to it";
    return (info.st_mode & S_IWGRP) != 0 ? "its group may write to it" : "";
}

ProfileProblem refused(const std::string& path, const std::string& why) {
    return {fmt::format("profiles are not read: {}", why), path,
            fmt::format("chmod go-w {}", shell_word(path))};
}

/// Names of the .toml files, sorted; nothing when the directory cannot be read, for which errno
/// tells why.
std::optional<std::vector<std::string>> toml_files(const std::string& directory) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
    if (!open) return std::nullopt;
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(open.get()))
        if (const std::string name = entry->d_name; name.ends_with(".toml") && name[0] != '.')
            names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
}

/// The whole file; throws Error when it is none of the user's or root's own.
std::string read_own_file(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0)
        throw Error(fmt::format("cannot be read: {}", std::strerror(errno)), path);
    if (!S_ISREG(info.st_mode)) throw Error("not read: it is no regular file", path);
    if (const std::string why = unsafe(info); !why.empty())
        throw Error(fmt::format("not read: {}", why), path,
                    fmt::format("chmod go-w {}", shell_word(path)));
    std::string text;
    char chunk[16384];
    for (;;) {
        const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(fmt::format("cannot be read: {}", std::strerror(errno)), path);
        if (got == 0) return text;
        text.append(chunk, static_cast<std::size_t>(got));
        if (text.size() > kLargestProfile)
            throw Error(fmt::format("not read: larger than {}", format_bytes(kLargestProfile)),
                        path);
    }
}

void take(profiles::Profile profile, profiles::Layer layer, Loaded& loaded) {
    profile.layer = layer;
    for (const profiles::Profile& known : loaded.knowledge.profiles)
        if (known.name == profile.name && known.layer == layer)
            throw Error(
                fmt::format("the name '{}' is taken by {}", profile.name, printable(known.file)),
                profile.file, "give it a name of its own");
    loaded.knowledge.profiles.push_back(std::move(profile));
}

/// A profile of a kind of machine, or what was measured on one.
void take_file(const std::string& text, const std::string& file, profiles::Layer layer,
               Loaded& loaded) {
    if (profiles::is_measured(text, file))
        loaded.knowledge.measured.push_back(profiles::read_measured(text, file));
    else
        take(profiles::read_profile(text, file), layer, loaded);
}

/// Whether others could have put files into the directory or replaced it.
std::string unsafe_directory(const std::string& path) {
    for (const std::string& level : {path, path.substr(0, path.rfind('/'))}) {
        struct stat info {};
        if (::stat(level.c_str(), &info) != 0) return std::strerror(errno);
        if (std::string why = unsafe(info); !why.empty()) return why;
    }
    return "";
}

std::string variable_text(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

}  // namespace

std::string user_profile_directory(const Environment& environment) {
    const std::string config = variable_text(environment, "XDG_CONFIG_HOME");
    if (config.starts_with('/')) return config + "/toporun/profiles";
    const std::string home = variable_text(environment, "HOME");
    return home.starts_with('/') ? home + "/.config/toporun/profiles" : "";
}

std::vector<ProfileDirectory> profile_directories(const Environment& environment) {
    std::vector<ProfileDirectory> list = {{kSiteDirectory, profiles::Layer::site}};
    if (const std::string own = user_profile_directory(environment); !own.empty())
        list.push_back({own, profiles::Layer::user});
    return list;
}

std::string problem_text(const ProfileProblem& problem) {
    return problem.where.empty() ? problem.what
                                 : fmt::format("{} ({})", problem.what, problem.where);
}

void read_profile_directory(const ProfileDirectory& directory, Loaded& loaded) {
    auto names = toml_files(directory.path);
    if (!names) {
        if (errno != ENOENT && errno != ENOTDIR)
            loaded.problems.push_back(
                {fmt::format("profiles cannot be read: {}", std::strerror(errno)), directory.path,
                 "make the directory readable, or set XDG_CONFIG_HOME to one of your own"});
        return;
    }
    if (names->empty()) return;
    if (const std::string why = unsafe_directory(directory.path); !why.empty())
        return loaded.problems.push_back(refused(directory.path, why));
    if (names->size() > kMostFiles) {
        loaded.problems.push_back({fmt::format("{} profiles: those after the first {} are left out",
                                               names->size(), kMostFiles),
                                   directory.path, ""});
        names->resize(kMostFiles);
    }
    for (const std::string& name : *names) {
        const std::string path = directory.path + "/" + name;
        try {
            take_file(read_own_file(path), path, directory.layer, loaded);
        } catch (const Error& fault) {
            loaded.problems.push_back({fmt::format("a profile is left out: {}", fault.what()),
                                       fault.where().empty() ? path : fault.where(), fault.hint()});
        }
    }
}

Loaded load_knowledge(const std::vector<std::string>& named, const Environment& environment,
                      const std::function<bool(const profiles::Profile&)>& wanted) {
    Loaded loaded;
    loaded.knowledge = profiles::builtin_knowledge(wanted);
    for (const ProfileDirectory& directory : profile_directories(environment))
        read_profile_directory(directory, loaded);
    for (const std::string& file : named)
        take_file(read_text_file(file), file, profiles::Layer::command_line, loaded);
    return loaded;
}

Loaded load_knowledge(const Arguments& arguments, const Environment& environment,
                      const detect::Machine& machine) {
    const bool all = !arguments.options.leave.empty();
    return load_knowledge(arguments.profile_files, environment,
                          [&](const profiles::Profile& profile) {
                              return all || env::matches(machine, profile.match);
                          });
}

}  // namespace toporun::launcher
