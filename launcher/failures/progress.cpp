#include "launcher/failures/progress.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "launcher/failures/digits.hpp"

namespace toporun::launcher::failures {
namespace {

// Words of the training loops of Lightning, transformers, DeepSpeed, fairseq, Megatron, tqdm, and
// of what people write themselves.
constexpr std::array<std::string_view, 10> kLoopWords = {
    "step", "epoch", "iter", "loss", "update", "batch", "it/s", "s/it", "tokens", "samples"};

// Python's warnings module ("UserWarning: "), loggers, TensorFlow's glog, libraries that try again.
constexpr std::array<std::string_view, 13> kHandledWords = {
    "Warning: ", "warning: ",   "WARNING",  "W tensorflow/", "skipping",     "Skipping", "ignoring",
    "Ignoring",  "can ignore ", "retrying", "Retrying",      "falling back", "fallback"};

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool holds_word(std::string_view text, std::string_view word) {
    const auto same = [](char a, char b) { return lower(a) == b; };
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

void mix(std::uint64_t& hash, char c) {  // FNV-1a
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
}

}  // namespace

std::optional<Progress> progress_of(std::string_view message) {
    constexpr std::size_t kLongest = 1000;
    message = message.substr(0, kLongest);
    const bool loop = std::any_of(kLoopWords.begin(), kLoopWords.end(),
                                  [&](std::string_view word) { return holds_word(message, word); });
    if (!loop || std::none_of(message.begin(), message.end(), is_digit)) return std::nullopt;
    constexpr std::uint64_t kBasis = 14695981039346656037U;
    Progress progress{kBasis, kBasis};
    bool in_number = false;
    for (const char c : message) {
        const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
        if (is_digit(c)) {
            in_number = true;
            mix(progress.numbers, c);
        } else if (letter && !in_number) {
            mix(progress.shape, c);
        } else if (!letter) {  // letters in a number: 1e-05, 10k
            if (in_number) mix(progress.numbers, ' ');
            in_number = false;
        }
    }
    return progress;
}

bool tells_handled(std::string_view line) {
    return std::any_of(kHandledWords.begin(), kHandledWords.end(),
                       [&](std::string_view word) { return line.find(word) != line.npos; });
}

}  // namespace toporun::launcher::failures
