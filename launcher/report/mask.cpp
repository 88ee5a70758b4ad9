#include "launcher/report/mask.hpp"

#include <algorithm>
#include <optional>

namespace toporun::launcher {
namespace {

bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_alnum(char c) {
    return is_upper(c) || is_lower(c) || is_digit(c);
}
bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// Lower-case parts of a name: "wandb.apiKey" -> wandb, api, key; "HF_TOKEN" -> hf, token.
std::vector<std::string> name_parts(std::string_view name) {
    std::vector<std::string> parts(1);
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        const bool hump = is_upper(c) && i > 0 && is_lower(name[i - 1]);
        if ((!is_alnum(c) || hump) && !parts.back().empty()) parts.emplace_back();
        if (is_alnum(c)) parts.back() += static_cast<char>(is_upper(c) ? c - 'A' + 'a' : c);
    }
    if (parts.back().empty()) parts.pop_back();
    return parts;
}

template <std::size_t n>
bool is_one_of(const std::string& word, const std::string_view (&list)[n]) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

constexpr std::string_view kSecretParts[] = {"auth", "bearer",    "jwt", "pass", "pat",
                                             "pin",  "signature", "sig", "pwd",  "token"};
constexpr std::string_view kSecretWords[] = {
    "password",  "passwd",     "passphrase", "secret",  "apikey",       "credential",
    "accesskey", "privatekey", "authtoken",  "authkey", "authorization"};

/// The first characters of tokens that well-known services hand out.
constexpr std::string_view kTokenStarts[] = {"hf_", "ghp_",  "gho_",   "ghs_",  "github_pat_",
                                             "sk-", "xoxb-", "xoxp-",  "AKIA",  "ASIA",
                                             "eyJ", "ya29.", "glpat-", "nvapi-"};

bool is_token_char(char c) {
    return is_alnum(c) || c == '_' || c == '-' || c == '+' || c == '=';
}

/// At least 20 letters and digits in a row that change between upper case, lower case and digits as
/// words do not.
bool looks_random(std::string_view run) {
    constexpr std::size_t kShortest = 20;
    if (run.size() < kShortest) return false;
    std::size_t digits = 0;
    std::size_t changes = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
        digits += is_digit(run[i]);
        const bool change = i > 0 && (is_digit(run[i]) != is_digit(run[i - 1]) ||
                                      (is_upper(run[i]) && is_lower(run[i - 1])));
        changes += change;
    }
    const bool letters = digits < run.size();
    return letters && (changes * 6 >= run.size() || (digits >= 4 && changes >= 4));
}

bool has_random_run(std::string_view word) {
    for (std::size_t i = 0; i < word.size();) {
        std::size_t end = i;
        while (end < word.size() && is_alnum(word[end])) ++end;
        if (looks_random(word.substr(i, end - i))) return true;
        i = end + 1;
    }
    return false;
}

bool is_token(std::string_view run) {
    constexpr std::size_t kShortest = 12;
    const auto starts = [&](std::string_view start) { return run.starts_with(start); };
    const bool known = run.size() >= kShortest &&
                       std::any_of(std::begin(kTokenStarts), std::end(kTokenStarts), starts);
    return known || has_random_run(run);
}

/// Random-looking parts of `word`, between the characters that paths and lists are made of.
std::string without_tokens(std::string_view word) {
    std::string out;
    for (std::size_t i = 0; i < word.size();) {
        std::size_t end = i;
        while (end < word.size() && is_token_char(word[end])) ++end;
        const std::string_view run = word.substr(i, end - i);
        out += is_token(run) ? kMask : run;
        if (end < word.size()) out += word[end];
        i = end + 1;
    }
    return out;
}

/// `scheme://user:password@host` with the part before '@' masked.
std::string without_url_user(std::string_view word) {
    std::string out;
    for (;;) {
        const std::size_t scheme = word.find("://");
        if (scheme == word.npos) return out + std::string(word);
        out += word.substr(0, scheme + 3);
        word.remove_prefix(scheme + 3);
        const std::string_view authority = word.substr(0, word.find_first_of("/?#, "));
        const std::size_t at = authority.rfind('@');
        if (at == authority.npos) continue;
        out += kMask;
        word.remove_prefix(at);
    }
}

/// Where the value of a `NAME=VALUE` inside a word ends.
std::size_t value_end(std::string_view text, std::size_t start) {
    if (start < text.size() && (text[start] == '\'' || text[start] == '"')) {
        const std::size_t quote = text.find(text[start], start + 1);
        return quote == text.npos ? text.size() : quote + 1;
    }
    return std::min(text.find_first_of(",;&'\"", start), text.size());
}

/// `a=1,HF_TOKEN=x,b=2`, `https://host/?token=x&b=2`: values behind secret names masked.
std::string without_assigned_secrets(std::string_view word) {
    std::string out;
    std::size_t start = 0;  // of the name
    for (std::size_t i = 0; i < word.size(); ++i) {
        const char c = word[i];
        if (c == '=' && is_secret_name(word.substr(start, i - start))) {
            out += '=';
            out += kMask;
            i = value_end(word, i + 1) - 1;
            start = i + 1;
            continue;
        }
        out += c;
        if (!is_alnum(c) && c != '_' && c != '-' && c != '.') start = i + 1;
    }
    return out;
}

std::string masked_word(std::string_view word);

struct Sentence {
    std::vector<std::string> words;
    std::string blanks;  ///< the one character behind each word but the last
};

/// `text` cut at its blanks, with `quotes` only at those outside of quotes.
Sentence cut(std::string_view text, bool quotes) {
    Sentence result{{std::string()}, ""};
    char open = 0;
    for (const char c : text) {
        if (open == 0 && is_blank(c)) {
            result.words.emplace_back();
            result.blanks += c;
            continue;
        }
        result.words.back() += c;
        if (!quotes || (c != '\'' && c != '"')) continue;
        if (open == 0) {
            open = c;
        } else if (open == c) {
            open = 0;
        }
    }
    return open == 0 ? result : cut(text, false);  // an apostrophe, not a quote
}

bool is_quoted(std::string_view word) {
    return word.size() >= 2 && (word.front() == '\'' || word.front() == '"') &&
           word.back() == word.front();
}

/// A word with blanks is a shell string or a list: its parts are masked as words.
std::string masked_sentence(std::string_view text) {
    Sentence sentence = cut(text, true);
    if (sentence.words.size() == 1 && is_quoted(text)) {
        return text.front() + masked_word(text.substr(1, text.size() - 2)) + text.back();
    }
    if (sentence.words.size() == 1) sentence = cut(text, false);
    const std::vector<std::string> words = masked_command(sentence.words);
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i) {
        out += words[i];
        if (i < sentence.blanks.size()) out += sentence.blanks[i];
    }
    return out;
}

std::string masked_word(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const bool one_name = std::none_of(name.begin(), name.end(), is_blank) &&
                          name.find_first_of("/?&,:") == name.npos;
    if (equals != word.npos && one_name && is_secret_name(name)) {
        return std::string(name) + "=" + std::string(kMask);
    }
    if (std::any_of(word.begin(), word.end(), is_blank)) return masked_sentence(word);
    return without_tokens(without_assigned_secrets(without_url_user(word)));
}

bool is_secret_option(std::string_view word) {
    while (word.starts_with('\'') || word.starts_with('"')) word.remove_prefix(1);
    return word.starts_with('-') && word.find('=') == word.npos && is_secret_name(word);
}

}  // namespace

bool is_secret_name(std::string_view name) {
    const std::vector<std::string> parts = name_parts(name);
    if (parts.empty()) return false;
    std::string joined;
    for (const std::string& part : parts) {
        if (is_one_of(part, kSecretParts) || part.ends_with("token")) return true;
        joined += part;
    }
    for (const std::string_view word : kSecretWords) {
        if (joined.find(word) != joined.npos) return true;
    }
    return parts.back() == "key" || parts.back() == "keys";
}

std::vector<std::string> masked_command(std::span<const std::string> argv) {
    std::vector<std::string> result;
    result.reserve(argv.size());
    bool value_follows = false;
    for (const std::string& word : argv) {
        const bool option = word.starts_with('-');
        if (value_follows && !option) {
            result.emplace_back(kMask);
            value_follows = false;
            continue;
        }
        value_follows = is_secret_option(word);
        result.push_back(masked_word(word));
    }
    return result;
}

bool recordable_variable(std::string_view name) {
    constexpr std::string_view kPrefixes[] = {
        "NCCL_",       "RCCL_", "CUDA_", "OMP_",  "SLURM_",  "TOPORUN_",  "TORCHELASTIC_",
        "TORCH_NCCL_", "OMPI_", "PMI_",  "PMIX_", "PRTE_",   "MPI_",      "I_MPI_",
        "HYDRA_",      "MV2_",  "GLOO_", "UCX_",  "FI_",     "OFI_NCCL_", "HIP_",
        "ROCR_",       "KMP_",  "GOMP_", "PET_",  "HOROVOD_"};
    constexpr std::string_view kNames[] = {"MASTER_ADDR",
                                           "MASTER_PORT",
                                           "WORLD_SIZE",
                                           "RANK",
                                           "LOCAL_RANK",
                                           "NODE_RANK",
                                           "GROUP_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "PYTHON_EXEC",
                                           "TOPORUN",
                                           "MKL_NUM_THREADS",
                                           "OPENBLAS_NUM_THREADS",
                                           "NVIDIA_VISIBLE_DEVICES"};
    const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
    const bool known = std::any_of(std::begin(kPrefixes), std::end(kPrefixes), starts) ||
                       std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    return known && !is_secret_name(name);
}

}  // namespace toporun::launcher
