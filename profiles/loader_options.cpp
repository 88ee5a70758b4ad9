#include "profiles/loader_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "base/toml.hpp"
#include "profiles/embedded.hpp"

namespace toporun::profiles {
namespace {

constexpr std::array<std::string_view, 4> kForms = {"option", "assignment", "short", "key"};

LoaderOption read_option(TomlTable& table) {
    LoaderOption option;
    option.name = table.filled_string("name");
    option.form = table.filled_string("form");
    if (std::find(kForms.begin(), kForms.end(), option.form) == kForms.end())
        table.fail("form", fmt::format("'{}' is no form", printable(option.form)),
                   "write option, assignment, short or key");
    option.python = table.boolean("python").value_or(false);
    option.used_by = table.filled_string("used_by");
    option.source = table.filled_string("source");
    return option;
}

LoaderFramework read_framework(TomlTable& table) {
    LoaderFramework framework;
    framework.name = table.filled_string("name");
    framework.words = table.strings("words").value_or(std::vector<std::string>{});
    framework.programs = table.strings("programs").value_or(std::vector<std::string>{});
    framework.not_programs = table.strings("not_programs").value_or(std::vector<std::string>{});
    if (framework.words.empty() && framework.programs.empty())
        table.fail("name", "a framework needs 'words' or 'programs'");
    framework.add = table.filled_string("add");
    if (framework.add.find("{workers}") == std::string::npos)
        table.fail("add", "'add' must contain {workers}");
    const auto workers = table.integer("default");
    if (!workers || *workers < 0 || *workers > 1024)
        table.fail("default", "'default' must be 0 to 1024");
    framework.default_workers = static_cast<int>(*workers);
    framework.source = table.filled_string("source");
    return framework;
}

}  // namespace

LoaderOptions read_loader_options(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    LoaderOptions known;
    for (TomlTable& option : table.tables("options")) known.options.push_back(read_option(option));
    for (TomlTable& framework : table.tables("frameworks"))
        known.frameworks.push_back(read_framework(framework));
    table.finish();
    return known;
}

LoaderOptions builtin_loader_options() {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == kLoaderOptionsFile) return read_loader_options(file.text, file.name);
    return {};
}

}  // namespace toporun::profiles
