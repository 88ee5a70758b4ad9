#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/p2p_measured.hpp"
#include "env/profile_skeleton.hpp"
#include "launcher/cli/knowledge.hpp"
#include "launcher/cli/subcommands.hpp"
#include "launcher/report/profiles_view.hpp"
#include "launcher/report/write_file.hpp"
#include "launcher/version.hpp"

namespace toporun::launcher {
namespace {

using profiles::Profile;
using Words = std::vector<std::string>;

constexpr std::size_t kMostNearest = 3;
constexpr int kMostMisses = 2;

bool every(const Profile& profile) {
    static_cast<void>(profile);
    return true;
}

Loaded load_all(const Arguments& arguments, const Environment& environment,
                const Console& console) {
    Loaded loaded = load_knowledge(arguments.profile_files, environment, every);
    warn(loaded.problems, console);
    std::stable_sort(loaded.knowledge.profiles.begin(), loaded.knowledge.profiles.end(),
                     [](const Profile& a, const Profile& b) { return a.layer > b.layer; });
    return loaded;
}

int list(const Arguments& arguments, const Loaded& loaded) {
    const auto& known = loaded.knowledge.profiles;
    print(arguments.json ? profile_list_json(known) : profile_list_text(known));
    return 0;
}

int show(const Arguments& arguments, const std::string& name, const Loaded& loaded) {
    Words names;
    for (const Profile& profile : loaded.knowledge.profiles) {  // the strongest of a name is first
        names.push_back(profile.name);
        if (profile.name != name) continue;
        const std::string text = profile.layer == profiles::Layer::built_in
                                     ? std::string(profiles::builtin_text(profile.file))
                                     : read_text_file(profile.file);
        print(arguments.json
                  ? profile_show_json(profile, text)
                  : fmt::format("# {}\n{}", printable(profile.file), printable_lines(text)));
        return 0;
    }
    const auto close = closest_word(name, names);
    throw Error(fmt::format("no profile is called '{}'", printable(name)), {},
                close ? fmt::format("did you mean '{}'?", *close)
                      : "toporun profiles list shows their names");
}

int misses(const MatchedProfile& one) {
    return static_cast<int>(
        std::count_if(one.features.begin(), one.features.end(),
                      [](const env::Feature& feature) { return feature.fit != env::Fit::fits; }));
}

/// Something fits that not every machine of the size has.
bool has_something(const MatchedProfile& one) {
    return std::any_of(one.features.begin(), one.features.end(), [](const env::Feature& feature) {
        return feature.fit == env::Fit::fits && !feature.name.starts_with("gpu_count") &&
               feature.name != "virtual_machine";
    });
}

/// Those that fail by one or two conditions and fit in at least as many, the closest first.
std::vector<MatchedProfile> nearest_of(std::vector<MatchedProfile> others) {
    std::erase_if(others, [](const MatchedProfile& one) {
        const int missed = misses(one);
        return missed > kMostMisses || 2 * missed > static_cast<int>(one.features.size()) ||
               !has_something(one);
    });
    std::stable_sort(others.begin(), others.end(),
                     [](const MatchedProfile& a, const MatchedProfile& b) {
                         if (misses(a) != misses(b)) return misses(a) < misses(b);
                         return specificity(a.profile->match) > specificity(b.profile->match);
                     });
    if (others.size() > kMostNearest) others.resize(kMostNearest);
    return others;
}

MatchResult match_result(const detect::Machine& machine, const Loaded& loaded,
                         const env::Plan& plan) {
    MatchResult result;
    const auto used = env::matching_profiles(machine, loaded.knowledge.profiles);
    std::vector<MatchedProfile> others;
    for (const Profile& profile : loaded.knowledge.profiles) {
        MatchedProfile one{&profile, env::match_features(machine, profile.match), false};
        one.used = std::find(used.begin(), used.end(), &profile) != used.end();
        (misses(one) == 0 ? result.matched : others).push_back(std::move(one));
    }
    std::stable_sort(result.matched.begin(), result.matched.end(),
                     [](const auto& a, const auto& b) { return a.used && !b.used; });
    result.nearest = nearest_of(std::move(others));
    for (const env::Setting& setting : plan.settings)
        if (std::any_of(used.begin(), used.end(), [&](const Profile* profile) {
                return std::any_of(
                    profile->values.begin(), profile->values.end(),
                    [&](const profiles::Value& value) { return value.name == setting.name; });
            }))
            result.settings.push_back(setting);
    return result;
}

env::Plan plan_for(const Arguments& arguments, const Environment& environment,
                   const detect::Machine& machine, const Loaded& loaded) {
    env::Options options = arguments.options;
    options.for_shell = true;
    return decide(shell_job(arguments, environment), machine, read_user_environment(environment),
                  options, loaded.knowledge);
}

int match(const Arguments& arguments, const Environment& environment, const Loaded& loaded) {
    const detect::Machine machine = read_machine(arguments, environment, {}, true);
    const MatchResult result =
        match_result(machine, loaded, plan_for(arguments, environment, machine, loaded));
    print(arguments.json ? profile_match_json(result) : profile_match_text(result));
    return 0;
}

CheckedFile checked(const std::string& file, const detect::Machine& machine) {
    CheckedFile result{file, {}, {}, {}, {}, false};
    const std::string text = read_text_file(file);
    try {
        if (profiles::is_measured(text, file)) {
            const profiles::Measured measured = profiles::read_measured(text, file);
            result.name = measured.name;
            result.fits = env::measured_here(machine, measured);
        } else {
            const Profile profile = profiles::read_profile(text, file);
            result.name = profile.name;
            result.fits = env::matches(machine, profile.match);
        }
    } catch (const Error& fault) {
        result.what = fault.what();
        result.where = fault.where().empty() ? file : fault.where();
        result.hint = fault.hint();
    }
    return result;
}

/// Captures and saved machines in place of this host.
bool is_here(const Arguments& arguments) {
    return arguments.machine_files.empty() && arguments.captures.empty();
}

int check(const Arguments& arguments, const Environment& environment, const Words& files,
          const Console& console) {
    const detect::Machine machine = read_machine(arguments, environment, {}, false);
    std::vector<CheckedFile> results;
    for (const std::string& file : files) results.push_back(checked(file, machine));
    print(arguments.json ? profile_check_json(results) : profile_check_text(results));
    const bool misfit = std::any_of(results.begin(), results.end(), [](const CheckedFile& one) {
        return one.what.empty() && !one.fits;
    });
    if (misfit && is_here(arguments) && machine.gpus.empty())
        console.say("no GPU is seen here: --machine FILE or --from FILE checks for another host");
    const bool good = std::all_of(results.begin(), results.end(),
                                  [](const CheckedFile& one) { return one.what.empty(); });
    return good ? 0 : 1;
}

/// Makes the directories of `path` that are missing, for the user alone.
void make_directories(const std::string& path) {
    for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        const std::string part = path.substr(0, slash);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
            throw Error(fmt::format("cannot make '{}': {}", printable(part), std::strerror(errno)),
                        {}, "make it, or set XDG_CONFIG_HOME to a directory that you may write to");
        if (slash == std::string::npos) return;
    }
}

int save(const Arguments& arguments, const Environment& environment, const std::string& name,
         const Loaded& loaded, const Console& console) {
    profiles::check_profile_name(name);
    if (name.starts_with('.'))
        throw Error(fmt::format("'{}' is no profile name", printable(name)), {},
                    "files that start with a dot are not read");
    const std::string directory = user_profile_directory(environment);
    if (directory.empty())
        throw Error("no place for your profiles: neither XDG_CONFIG_HOME nor HOME is a path", {},
                    "set one of them");
    const detect::Machine machine = read_machine(arguments, environment, {}, true);
    const std::string text = env::profile_skeleton(
        name, machine, plan_for(arguments, environment, machine, loaded),
        read_user_environment(environment),
        fmt::format("toporun {} {}", kVersion,
                    is_here(arguments) ? "on this machine" : "for a capture"));
    const std::string file = directory + "/" + name + ".toml";
    static_cast<void>(profiles::read_profile(text, file));  // never writes what cannot be read
    struct stat info {};
    if (!arguments.force && ::lstat(file.c_str(), &info) == 0)
        throw Error(fmt::format("'{}' is there already", printable(file)), {},
                    "take another name, or replace it with --force");
    make_directories(directory);
    try {
        write_file(file, text);
    } catch (const Error& fault) {
        throw Error(fault.what(), fault.where(), "look at the permissions of that directory");
    }
    console.say(fmt::format("saved to {}; complete it, then: toporun profiles check {}", file,
                            shell_word(file)));
    if (arguments.json) print(profile_saved_json(name, file));
    return 0;
}

/// Wrong usage unless `given` lies between the two.
void expect_words(std::string_view verb, std::size_t given, std::size_t least, std::size_t most,
                  std::string_view what) {
    if (given >= least && given <= most) return;
    throw Error(given < least ? fmt::format("'toporun profiles {}' needs {}", verb, what)
                              : fmt::format("too many words for 'toporun profiles {}'", verb),
                {}, "toporun profiles --help shows the verbs and what they take");
}

}  // namespace

int profiles_command(const Arguments& arguments, const Console& console) {
    static const Words kVerbs = {"list", "show", "match", "check", "save"};
    const Words& words = arguments.positional;
    const std::string verb = words.empty() ? "" : words.front();
    if (std::find(kVerbs.begin(), kVerbs.end(), verb) == kVerbs.end()) {
        const auto close = closest_word(verb, kVerbs);
        throw Error(verb.empty() ? std::string("which? list, show, match, check or save")
                                 : fmt::format("'{}' is none of list, show, match, check, save",
                                               printable(verb)),
                    {},
                    close ? fmt::format("did you mean 'toporun profiles {}'?", *close)
                          : "toporun profiles --help shows what each does");
    }
    const Words rest(words.begin() + 1, words.end());
    const bool named = verb == "show" || verb == "save";
    const std::size_t least = named || verb == "check" ? 1 : 0;
    const std::size_t most = verb == "check" ? SIZE_MAX : least;
    expect_words(verb, rest.size(), least, most, verb == "check" ? "a file" : "a name");
    const Environment environment = environment_map();
    if (verb == "check") return check(arguments, environment, rest, console);
    const Loaded loaded = load_all(arguments, environment, console);
    if (verb == "list") return list(arguments, loaded);
    if (verb == "show") return show(arguments, rest.front(), loaded);
    if (verb == "match") return match(arguments, environment, loaded);
    return save(arguments, environment, rest.front(), loaded, console);
}

}  // namespace toporun::launcher
