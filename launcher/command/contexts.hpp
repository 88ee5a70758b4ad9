#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"

/// Command lines of several programs: `mpirun ./a : ./b`, `srun ./a : ./b`.
namespace toporun::launcher {

/// An application context: its options and its program.
struct Context {
    Scan scan;
    std::size_t end = 0;  ///< the word behind its last one: `:` or the end
};

/// The contexts of argv[first...], separated by a word that is exactly `:`.
std::vector<Context> read_contexts(const std::vector<std::string>& argv, std::size_t first,
                                   const OptionTable& table);

/// Why the contexts cannot be rewritten; "" when they can.
std::string contexts_problem(const std::vector<Context>& contexts);

/// Notes the program words, the first program that is found, and the variables that options like
/// `-x NAME=VALUE` give to the ranks.
Command add_programs(Command command, const std::vector<Context>& contexts, const Host& host);

/// The program of each context.
std::vector<ProgramWord> program_words(const std::vector<Context>& contexts);

}  // namespace toporun::launcher
