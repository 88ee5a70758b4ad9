#pragma once

#include <string>
#include <string_view>
#include <vector>

/// How a command line tells a framework its number of loader workers, as data
/// (loader-options.toml).
namespace toporun::profiles {

struct LoaderOption {
    std::string name;     ///< dashes and underscores are equal
    std::string form;     ///< "option", "assignment", "short", "key"
    bool python = false;  ///< only where a Python program runs
    std::string used_by;
    std::string source;
};

/// A framework that is seen by its words. At least one of the two lists is not empty.
struct LoaderFramework {
    std::string name;
    std::vector<std::string> words;         ///< options, by exact name
    std::vector<std::string> programs;      ///< base names of words
    std::vector<std::string> not_programs;  ///< ends of base names of words: it is not this one
    std::string add;                        ///< with {workers} for the number
    int default_workers = 0;                ///< what it takes without the option
    std::string source;
};

struct LoaderOptions {
    std::vector<LoaderOption> options;
    std::vector<LoaderFramework> frameworks;
};

/// Reads loader-options.toml. Throws Error with file:line:column.
LoaderOptions read_loader_options(std::string_view text, std::string_view file);

/// The table compiled into the program.
LoaderOptions builtin_loader_options();

}  // namespace toporun::profiles
