#include "launcher/command/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

constexpr std::string_view kPythonLink = "toporun-python";
/// On a host where the shim is missing, or of another processor, the program starts without it.
constexpr const char* kGuard =
    "if \"$0\" --ok >/dev/null 2>&1; then exec \"$0\" \"$@\"; fi; "
    "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";

/// The same behind srun, whose own status for a program that is not there is the error number.
constexpr const char* kSrunGuard =
    "if \"$0\" --ok >/dev/null 2>&1; then exec \"$0\" \"$@\"; fi; "
    "while [ \"$1\" != -- ]; do shift; done; shift; "
    "e() { echo \"error: cannot run '$1': $2\" >&2; exit $3; }; "
    "case $1 in */*) [ -e \"$1\" ] || e \"$1\" 'No such file or directory' 2; "
    "[ -x \"$1\" ] || e \"$1\" 'Permission denied' 13;; "
    "*) command -v \"$1\" >/dev/null || e \"$1\" 'No such file or directory' 2;; esac; "
    "exec \"$@\"";
/// In front of toporun and its options: kStepAsideWord (launch.hpp) by itself asks whether it runs.
constexpr const char* kToporunGuard =
    "if \"$0\" --step-aside >/dev/null 2>&1; then exec \"$0\" --step-aside \"$@\"; fi; "
    "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";

const char* shell_guard(Guard guard) {
    return guard == Guard::srun ? kSrunGuard : guard == Guard::toporun ? kToporunGuard : kGuard;
}

/// The same for Python, of characters that a shell takes as they are between quotes of either kind,
/// and of words without dashes: argparse looks at those behind the program too, and stops at a
/// beginning that several of its options have. K the place of the program behind the shim and its
/// options, M that of the local rank's word (0: none), N the variable that tells it, W the word.
constexpr const char* kPythonGuard =
    "import os,sys; k,m,n,w,*a=sys.argv[1:]; k=int(k); m=int(m); d=chr(45)*2; r=os.environ.get(n); "
    "m and r and a.insert(m,d+w+r); a[1:k]=[d+x for x in a[1:k]]; "
    "i=k if os.spawnv(os.P_WAIT,a[0],[a[0],d+chr(111)+chr(107)]) else 0; os.execvp(a[i],a[i:])";

class Builder {
  public:
    Builder(const Command& command, const env::Plan& plan, const Environment& environment)
        : command_(command), plan_(plan), environment_(environment) {
        launch_.argv = command.argv;
        launch_.rewrite = Rewrite::export_only;
    }

    void add(const std::string& name, const std::string& value) {
        launch_.added.emplace_back(name, value);
    }
    void note(std::string text) { launch_.notes.push_back(std::move(text)); }
    bool is_set(const std::string& name) const { return environment_.contains(name); }

    /// The settings that are the same for every rank. What the user has set is replaced only where
    /// that was asked for.
    void add_settings() {
        // Where ranks are on other hosts only what the launcher itself reads goes with it.
        const auto travels = [&](const env::Setting& setting) {
            return !command_.job.other_hosts || setting.name.starts_with("OMPI_MCA_") ||
                   setting.name.starts_with("PRTE_MCA_");
        };
        for (const env::Setting& setting : plan_.settings)
            if (travels(setting) && setting.exported && !setting.per_rank && setting.value &&
                (setting.replaces || !is_set(setting.name)))
                add(setting.name, *setting.value);
    }

    void add_markers(const ShimFiles& files) {
        const std::string outer = variable(environment_, "TOPORUN_ACTIVE");
        const auto level = to_integer(outer);
        if (!outer.empty()) note("inside another toporun: what that one has set stays as it is");
        add("TOPORUN_ACTIVE",
            fmt::format("{}", level && *level > 0 && *level < 100 ? *level + 1 : 1));
        if (command_.job.other_hosts) return;
        for (const auto& [name, value] : profiler_variables(plan_, files, environment_))
            add(name, value);
    }

    /// Why the shim cannot be used; "" when it can.
    std::string missing(const Installed& installed, const ShimFiles& files) const {
        const bool environment = command_.rewrite == Rewrite::environment;
        if (command_.guard == Guard::toporun)
            return installed.toporun.empty() ? "toporun's own file is not known" : "";
        if ((environment ? installed.python : installed.shim).empty())
            return fmt::format("{} is not installed beside toporun",
                               environment ? kPythonLink : "toporun-shim");
        if (files.shim_plan.empty()) return "the plan for the ranks could not be written";
        if (!command_.job.other_hosts || !by_python(command_.guard)) return {};
        for (const std::string& word : shim_words(installed, files))
            if (!passes_shell(word))
                return fmt::format("{} does not quote '{}' on its way to other hosts",
                                   command_.job.launcher, printable(word));
        return {};
    }

    /// The shim and its options.
    std::vector<std::string> shim_words(const Installed& installed, const ShimFiles& files) const {
        if (command_.guard == Guard::toporun) {
            std::vector<std::string> words = {installed.toporun};
            words.insert(words.end(), files.tell.begin(), files.tell.end());
            return words;
        }
        std::vector<std::string> words = {installed.shim};
        if (command_.job.other_hosts || command_.drops_variables)
            words.push_back("--plan=" + files.shim_plan);
        if (!command_.job.other_hosts) return words;
        words.push_back("--node=" + std::string(base_name(files.directory)));
        for (const std::string& word : files.tell) words.push_back("--tell=" + word);
        return words;
    }

    /// What stands in front of the program, `behind` words before the script itself.
    std::vector<std::string> rank_words(const std::vector<std::string>& shim,
                                        std::size_t behind) const {
        std::vector<std::string> words;
        const bool inside = command_.guard == Guard::toporun;
        if (inside || (command_.job.other_hosts && !by_python(command_.guard))) {
            words = {"/bin/sh", "-c", shell_guard(command_.guard)};
        } else if (command_.job.other_hosts) {
            const bool tells = command_.guard == Guard::python_local_rank;
            const std::size_t place = tells ? shim.size() + behind + 1 : 0;
            words = {command_.interpreter, "-c", kPythonGuard};
            words.push_back(std::to_string(shim.size()));
            words.push_back(std::to_string(place));
            words.insert(words.end(), {"LOCAL_RANK", "local_rank="});
            for (const std::string& word : shim)
                words.push_back(word.starts_with("--") ? word.substr(2) : word);
            return words;
        }
        words.insert(words.end(), shim.begin(), shim.end());
        // A program word that looks like an option is none of the shim's.
        if (inside || shim.size() > 1) words.emplace_back("--");
        return words;
    }

    /// srun's file of programs, in whose place a copy of it comes.
    bool names_programs(const Edit& edit) const {
        return edit.drop && edit.shim && command_.job.launcher == "srun";
    }

    /// The file as it is now, and what goes in front of its programs. False where it has changed,
    /// or a line would become longer than srun takes.
    bool read_programs(const Installed& installed, const ShimFiles& files, const Host& host) {
        for (const Edit& edit : command_.edits) {
            if (!names_programs(edit)) continue;
            const auto text = host.read_file(command_.argv[edit.at], kMostProgramFileBytes);
            ProgramFile file = read_program_file(text.value_or(""));
            launch_.rank_words = rank_words(shim_words(installed, files), 0);
            if (!file.problem.empty() || files.directory.empty() ||
                program_file_text(file.lines, launch_.rank_words).empty())
                return false;
            launch_.program_lines = std::move(file.lines);
            launch_.programs_path = files.directory + "/programs";
        }
        return true;
    }

    /// From the end, so that the positions of the other edits stay.
    void edit_words(const Installed& installed, const ShimFiles& files) {
        std::vector<Edit> edits = command_.edits;
        std::stable_sort(edits.begin(), edits.end(),
                         [](const Edit& a, const Edit& b) { return a.at > b.at; });
        std::vector<std::string>& argv = launch_.argv;
        for (const Edit& edit : edits) {
            if (edit.when_binding && !plan_.binds) continue;
            const auto place = argv.begin() + static_cast<std::ptrdiff_t>(edit.at);
            std::vector<std::string> words = edit.before;
            if (names_programs(edit))
                words.push_back(launch_.programs_path);
            else if (edit.shim)
                for (std::string& word :
                     rank_words(shim_words(installed, files), edit.after.size()))
                    words.push_back(std::move(word));
            words.insert(words.end(), edit.after.begin(), edit.after.end());
            argv.insert(edit.drop ? argv.erase(place) : place, words.begin(), words.end());
        }
    }

    /// False when the user's own PYTHON_EXEC has to stay.
    bool point_python(const Installed& installed, const Host& host) {
        std::string interpreter = command_.interpreter;
        const std::string users = variable(environment_, "PYTHON_EXEC");
        if (!users.empty() && base_name(users) != kPythonLink) {
            interpreter = host.find_executable(users);
            if (interpreter.empty()) {
                note(
                    fmt::format("PYTHON_EXEC='{}' is not an executable file: left as it is, "
                                "the ranks are not placed",
                                printable(users)));
                return false;
            }
            add("TOPORUN_PYTHON_EXEC", users);
        }
        add("PYTHON_EXEC", installed.python);
        if (!interpreter.empty()) add("TOPORUN_PYTHON", interpreter);
        return true;
    }

    void use_shim(const Installed& installed, const ShimFiles& files, const Host& host) {
        if (!read_programs(installed, files, host)) {
            note("srun's file of programs cannot be written anew: it stays as it is");
            return;
        }
        if (command_.rewrite == Rewrite::environment) {
            if (!point_python(installed, host)) return;
        } else {
            edit_words(installed, files);
        }
        const bool plan_by_variable = !command_.job.other_hosts && command_.guard != Guard::toporun;
        if (plan_by_variable) add("TOPORUN_SHIM_PLAN", files.shim_plan);
        launch_.rewrite = command_.rewrite;
    }

    /// `env -i` hands on nothing but the words behind it.
    void repeat_as_assignments() {
        if (!command_.assignments_at) return;
        std::vector<std::string> words;
        for (const auto& [name, value] : launch_.added) words.push_back(name + "=" + value);
        launch_.argv.insert(
            launch_.argv.begin() + static_cast<std::ptrdiff_t>(*command_.assignments_at),
            words.begin(), words.end());
    }

    Launch take() { return std::move(launch_); }

  private:
    const Command& command_;
    const env::Plan& plan_;
    const Environment& environment_;
    Launch launch_;
};

}  // namespace

bool by_python(Guard guard) {
    return guard == Guard::python || guard == Guard::python_local_rank;
}

bool passes_shell(std::string_view word) {
    return word.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=,+@") ==
           std::string_view::npos;
}

std::vector<std::pair<std::string, std::string>> profiler_variables(
    const env::Plan& plan, const ShimFiles& files, const Environment& environment) {
    std::vector<std::pair<std::string, std::string>> variables;
    if (!plan.measures) return variables;
    if (!files.directory.empty() && !environment.contains("TOPORUN_PROFILE_DIR"))
        variables.emplace_back("TOPORUN_PROFILE_DIR", files.directory);
    if (files.ring_slots > 0 && !environment.contains("TOPORUN_PROFILE_SLOTS"))
        variables.emplace_back("TOPORUN_PROFILE_SLOTS", std::to_string(files.ring_slots));
    return variables;
}

Launch prepare_launch(const Command& command, const env::Plan& plan, const Installed& installed,
                      const ShimFiles& files, const Environment& environment, const Host& host) {
    Builder builder(command, plan, environment);
    const bool inside = command.guard == Guard::toporun && command.rewrite == Rewrite::inserted;
    if (!inside) builder.add_settings();
    if (command.rewrite != Rewrite::export_only) {
        const std::string missing = builder.missing(installed, files);
        if (missing.empty())
            builder.use_shim(installed, files, host);
        else
            builder.note(
                fmt::format("ranks are started without toporun in front of them: {}", missing));
    }
    if (!inside) builder.add_markers(files);
    builder.repeat_as_assignments();
    return builder.take();
}

}  // namespace toporun::launcher
