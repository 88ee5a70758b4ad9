#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::launcher {

/// How many words an option takes.
enum class Arity {
    flag,
    one,                ///< the next word, or glued
    two,                ///< the next two words
    two_or_assignment,  ///< the next two words, or one that holds a `=`
    optional,           ///< glued only: `-K1`, `--opt=value`; the next word is not its value
    many,               ///< every word up to the next option
};

/// What an option says, as far as toporun cares.
enum class Meaning {
    other,
    total_ranks,
    ranks_per_node,
    one_rank_per_node,
    nodes,
    hosts,        ///< a list of hosts
    host_file,    ///< a file with a list of hosts
    rank_file,    ///< hosts and CPUs of each rank
    binds,        ///< asks the launcher to bind
    bind_policy,  ///< a word that says how to bind, `none` too
    map_policy,   ///< binds when it has `pe=`
    parameter,    ///< an MCA parameter, name and value
    directory,    ///< the working directory of the ranks
    rendezvous,
    master_address,
    standalone,
    node_rank,
    elsewhere,          ///< the ranks start in another place, or by a way that is not read
    given_variable,     ///< `-x NAME=VALUE` for the ranks
    narrows_variables,  ///< hands over only the variables that it names
    one_process,        ///< accelerate starts the script by itself, without torchrun
    several_processes,  ///< accelerate starts the script through torchrun
    deepspeed,          ///< accelerate prepares for deepspeed
    launcher,           ///< the launcher that deepspeed reaches other nodes by
    config_file,        ///< options in a file
    shell_option,       ///< flux -o KEY[=VALUE]
    program_is_module,  ///< the option's value is the program
    no_python,
    no_local_rank,  ///< the launcher does not tell the script its local rank as an option
    run_path,
    module,
    export_list,
    container,
    gpu_bind,   ///< shows each rank GPUs of its own, or says that it does not
    gpu_list,   ///< the GPUs that the launcher shows to its ranks
    threads,    ///< OMP_NUM_THREADS of the ranks
    exclude,    ///< hosts that are left out
    plug_in,    ///< none of the launcher's own options: what it does is not known
    opaque,     ///< the command cannot be rewritten with it
    no_launch,  ///< help, version: nothing is started
};

struct Option {
    std::string_view name;  ///< without dashes
    Arity arity = Arity::flag;
    Meaning meaning = Meaning::other;
};

/// Rows of the option tables, by the number of words that are the option's value.
constexpr Option flag(std::string_view name, Meaning meaning = Meaning::other) {
    return {name, Arity::flag, meaning};
}
constexpr Option one(std::string_view name, Meaning meaning = Meaning::other) {
    return {name, Arity::one, meaning};
}
constexpr Option two(std::string_view name, Meaning meaning = Meaning::other) {
    return {name, Arity::two, meaning};
}
constexpr Option two_or_assignment(std::string_view name, Meaning meaning = Meaning::other) {
    return {name, Arity::two_or_assignment, meaning};
}
/// Only glued: `-K1`, `--name=value`.
constexpr Option optional_value(std::string_view name, Meaning meaning = Meaning::other) {
    return {name, Arity::optional, meaning};
}

/// The form that a family of option parsers accepts.
struct OptionTable {
    std::span<const Option> options;
    bool equals = true;                ///< `--name=value`
    bool single_dash_long = false;     ///< `-name` is `--name`
    bool abbreviations = false;        ///< a unique beginning of a long name (argparse)
    bool underscores = false;          ///< `_` in long names is `-`
    bool glued = true;                 ///< `-n4`
    bool clusters = false;             ///< `-lu` is `-l -u`
    bool double_dash = true;           ///< `--` ends the options
    bool unknown_with_equals = false;  ///< an unknown `--name=value` is one word (plug-ins of srun)
    bool unknown_takes_value = false;  ///< an unknown `--name` takes the next word (accelerate)
};

/// An option that was given.
struct Given {
    std::string name;  ///< as in the table
    Meaning meaning = Meaning::other;
    std::string value;       ///< "" for a flag
    std::string second;      ///< of Arity::two
    std::size_t at = 0;      ///< the option's word in argv
    std::string words = {};  ///< as typed, for a shell: `--nnodes 2`; or as a file says it
};

struct Scan {
    std::vector<Given> given;
    std::size_t program = 0;      ///< the first word that is no option; `end` when there is none
    std::size_t options_end = 0;  ///< the word behind the last option: `--` or the program
    std::string guessed;  ///< the first unknown option that was taken to have a value; "" = none
    std::string problem;  ///< one line: what was not understood; then `program` means nothing
};

/// Reads the options in argv[first, end) up to the first word that is none.
Scan scan_options(std::span<const std::string> argv, std::size_t first, std::size_t end,
                  const OptionTable& table);

/// The value that was given last for `meaning`; nullptr when it was not given.
const Given* last_given(const Scan& scan, Meaning meaning);

/// A count of nodes or ranks: 1 to 1000000, blanks around it allowed; nothing for anything else.
std::optional<int> positive_count(std::string_view text);

}  // namespace toporun::launcher
