#include "detect/software/python_paths.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

std::string parent(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

bool is_python_name(std::string_view name) {
    return name.starts_with("python") || name.starts_with("pypy");
}

/// "3.11" out of the names of an interpreter: python3.11 behind any number of links.
std::string version_of(const Files& files, const std::string& interpreter) {
    const std::string name = base_name(files.real_path(interpreter).value_or(interpreter));
    const std::string_view version =
        std::string_view(name).substr(std::min(name.find_first_of("0123456789"), name.size()));
    return version.find('.') == std::string_view::npos ? std::string() : std::string(version);
}

/// lib/python3.X of a prefix; only the interpreter's own version when it is known.
void add_prefix(const Files& files, const std::string& prefix, const std::string& version,
                std::vector<std::string>& directories) {
    const std::string base = prefix == "/" ? "" : prefix;
    for (const char* lib : {"/lib", "/lib64"})
        for (const std::string& name : files.list(base + lib)) {
            if (!is_python_name(name) || (!version.empty() && name != "python" + version)) continue;
            for (const char* packages : {"/site-packages", "/dist-packages"})
                if (files.exists(base + lib + "/" + name + packages))
                    directories.push_back(base + lib + "/" + name + packages);
        }
}

/// A value of pyvenv.cfg: "home = /usr/bin".
std::string setting_of(const std::string& text, std::string_view key) {
    for (const std::string& line : split(text, '\n')) {
        const std::size_t equals = line.find('=');
        if (equals != std::string::npos && trim(std::string_view(line).substr(0, equals)) == key)
            return std::string(trim(std::string_view(line).substr(equals + 1)));
    }
    return {};
}

void add_base(const Files& files, const std::string& prefix, const std::string& version,
              const std::string& home, std::vector<std::string>& directories) {
    if (!home.empty()) add_prefix(files, home + "/.local", version, directories);
    if (prefix == "/usr" || prefix == "/") {  // Debian and Ubuntu
        add_prefix(files, "/usr/local", version, directories);
        add_prefix(files, "/usr", version, directories);
        if (files.exists("/usr/lib/python3/dist-packages"))
            directories.emplace_back("/usr/lib/python3/dist-packages");
        return;
    }
    add_prefix(files, prefix, version, directories);
}

}  // namespace

std::optional<std::string> python_interpreter(const Files& files, const std::string& program) {
    if (is_python_name(base_name(program))) return program;
    const std::string start = files.read(program, 256).value_or("");
    if (!start.starts_with("#!")) return std::nullopt;
    const std::string_view line = trim(std::string_view(start).substr(2, start.find('\n') - 2));
    std::string interpreter(line.substr(0, line.find_first_of(" \t")));
    if (!is_python_name(base_name(interpreter))) return std::nullopt;
    return interpreter;
}

std::vector<std::string> site_packages(const Files& files, const std::string& interpreter,
                                       const std::string& home) {
    std::vector<std::string> directories;
    const std::string version = version_of(files, interpreter);
    const std::string prefix = parent(parent(interpreter));
    const auto environment = files.read(prefix + "/pyvenv.cfg", 4096);
    if (environment) {
        add_prefix(files, prefix, version, directories);
        if (setting_of(*environment, "include-system-site-packages") != "true") return directories;
        const std::string base = setting_of(*environment, "home");
        add_base(files, parent(base), version, home, directories);
        return directories;
    }
    const std::string real = files.real_path(interpreter).value_or(interpreter);
    add_base(files, parent(parent(real)), version, home, directories);
    return directories;
}

}  // namespace toporun::detect
