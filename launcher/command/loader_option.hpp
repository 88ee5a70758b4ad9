#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command/command.hpp"

/// The number of loader workers in the words of a command.
namespace toporun::launcher {

/// What {workers} stands for where nothing is known: what Megatron-LM takes by itself, and what a
/// host of one GPU can bear.
inline constexpr int kSafeWorkers = 2;

/// Where a word says a number of loader workers.
struct LoaderNumber {
    std::size_t word = 0;  ///< the word that holds the number
    std::size_t at = 0;    ///< where in it the number begins; it ends with the word
    int workers = 0;
    std::string words;  ///< as typed: "--num-workers 2"
};

/// Every number of loader workers behind the program word, by profiles/loader-options.toml; those
/// of validation and test loaders left out. The last one counts.
std::vector<LoaderNumber> loader_numbers(const Command& command);

/// The framework that the words show, and what to add for its loader workers.
struct LoaderAdvice {
    std::string framework;
    std::string add;  ///< with {workers} for the number
    int default_workers = 0;
};

/// Nothing when no known framework is seen.
std::optional<LoaderAdvice> loader_advice(const Command& command);

/// The words hold the placeholder {workers}.
bool has_workers_placeholder(const std::vector<std::string>& words);

/// `words` with every {workers} replaced. `${workers}` and `{{workers}}` belong to somebody else (a
/// shell, Hydra, a template) and stay, as does every other character.
std::vector<std::string> fill_in_workers(std::vector<std::string> words, int workers);

/// `command` with the given numbers replaced, no other character changed.
std::vector<std::string> set_loader_numbers(const Command& command,
                                            const std::vector<LoaderNumber>& numbers, int workers);

}  // namespace toporun::launcher
