#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::launcher {

/// What stands in the place of a secret.
inline constexpr std::string_view kMask = "***";

/// A command line that may be recorded: values of token, password, secret and key options
/// (`--opt=value`, `--opt value`), of NAME=VALUE words with such names (also in lists and in shell
/// strings), user parts of URLs and long random-looking words are replaced by `***`. Rather too
/// much than too little is masked. As many words as before.
std::vector<std::string> masked_command(std::span<const std::string> argv);

/// True for the name of an option, variable or parameter whose value is a secret: "HF_TOKEN",
/// "api-key", "wandb.apiKey"; not for "tokenizer", "max_tokens", "key_size".
bool is_secret_name(std::string_view name);

/// True for the variables that a run may record: those of NCCL, CUDA, OpenMP, Slurm and launchers.
bool recordable_variable(std::string_view name);

}  // namespace toporun::launcher
