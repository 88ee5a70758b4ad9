#include "launcher/command/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

constexpr std::string_view kPythonLink = "toporun-python";

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
        for (const env::Setting& setting : plan_.settings)
            if (setting.exported && !setting.per_rank && setting.value &&
                (setting.replaces || !is_set(setting.name)))
                add(setting.name, *setting.value);
    }

    void add_markers(const NodeFiles& files) {
        const std::string outer = variable(environment_, "TOPORUN_ACTIVE");
        const auto level = to_integer(outer);
        if (!outer.empty()) note("inside another toporun: what that one has set stays as it is");
        add("TOPORUN_ACTIVE",
            fmt::format("{}", level && *level > 0 && *level < 100 ? *level + 1 : 1));
        if (plan_.measures && !files.directory.empty() && !is_set("TOPORUN_PROFILE_DIR"))
            add("TOPORUN_PROFILE_DIR", files.directory);
        if (plan_.measures && files.ring_slots > 0 && !is_set("TOPORUN_PROFILE_SLOTS"))
            add("TOPORUN_PROFILE_SLOTS", std::to_string(files.ring_slots));
    }

    /// Why the shim cannot be used; "" when it can.
    std::string missing(const Installed& installed, const NodeFiles& files) const {
        const bool environment = command_.rewrite == Rewrite::environment;
        if ((environment ? installed.python : installed.shim).empty())
            return fmt::format("{} is not installed beside toporun",
                               environment ? kPythonLink : "toporun-shim");
        return files.shim_plan.empty() ? "the plan for the ranks could not be written" : "";
    }

    void insert_shim(const Installed& installed) {
        std::vector<std::size_t> places = command_.program_at;
        std::sort(places.rbegin(), places.rend());
        for (const std::size_t place : places)
            launch_.argv.insert(launch_.argv.begin() + static_cast<std::ptrdiff_t>(place),
                                installed.shim);
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

    void use_shim(const Installed& installed, const NodeFiles& files, const Host& host) {
        if (command_.rewrite == Rewrite::environment) {
            if (!point_python(installed, host)) return;
        } else {
            insert_shim(installed);
        }
        add("TOPORUN_SHIM_PLAN", files.shim_plan);
        launch_.rewrite = command_.rewrite;
    }

    Launch take() { return std::move(launch_); }

  private:
    const Command& command_;
    const env::Plan& plan_;
    const Environment& environment_;
    Launch launch_;
};

}  // namespace

Launch prepare_launch(const Command& command, const env::Plan& plan, const Installed& installed,
                      const NodeFiles& files, const Environment& environment, const Host& host) {
    Builder builder(command, plan, environment);
    builder.add_settings();
    if (command.rewrite != Rewrite::export_only) {
        const std::string missing = builder.missing(installed, files);
        if (missing.empty())
            builder.use_shim(installed, files, host);
        else
            builder.note(
                fmt::format("ranks are started without toporun in front of them: {}", missing));
    }
    builder.add_markers(files);
    return builder.take();
}

}  // namespace toporun::launcher
