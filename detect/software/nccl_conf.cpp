#include "detect/software/nccl_conf.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "detect/software/account.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostCharacters = 1023;  ///< of a name or a value (NCCL src/misc/param.cc)

bool has_name(const std::vector<ConfValue>& values, const std::string& name) {
    return std::any_of(values.begin(), values.end(),
                       [&](const ConfValue& value) { return value.name == name; });
}

std::string current_directory() {
    char* const path = get_current_dir_name();
    if (path == nullptr) return {};
    std::string text(path);
    free(path);
    return text;
}

void add_file(const Files& files, const std::string& path, std::vector<ConfValue>& values) {
    const auto text = files.read(path);
    if (!text) return;
    for (ConfValue& value : parse_nccl_conf(*text, path))
        if (!has_name(values, value.name)) values.push_back(std::move(value));
}

}  // namespace

std::vector<ConfValue> parse_nccl_conf(std::string_view text, std::string_view file) {
    std::vector<ConfValue> values;
    int number = 0;
    for (const std::string& whole : split(text, '\n')) {
        ++number;
        const std::string line = whole.substr(0, whole.find('\0'));  // NCCL reads C strings
        const std::size_t equals = line.find('=');
        if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
        ConfValue value{line.substr(0, std::min(equals, kMostCharacters)),
                        line.substr(equals + 1, kMostCharacters),
                        fmt::format("{}:{}", printable(file), number)};
        if (!has_name(values, value.name)) values.push_back(std::move(value));
    }
    return values;
}

std::vector<std::string> nccl_conf_paths(const Files& files, const std::string& named) {
    std::vector<std::string> paths;
    if (!named.empty())
        paths.push_back(named.front() == '/' ? named : current_directory() + "/" + named);
    else if (const std::string home = account_home(files); !home.empty())
        paths.push_back(home + "/.nccl.conf");
    paths.emplace_back("/etc/nccl.conf");
    return paths;
}

std::vector<ConfValue> read_nccl_conf(const std::string& root,
                                      const std::map<std::string, std::string>& environment) {
    const Files files(root);
    std::vector<ConfValue> values;
    const auto named = environment.find("NCCL_CONF_FILE");
    for (const std::string& path :
         nccl_conf_paths(files, named == environment.end() ? std::string() : named->second))
        add_file(files, path, values);
    return values;
}

}  // namespace toporun::detect
