#include "launcher/command/loader_option.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "launcher/command/program.hpp"
#include "profiles/loader_options.hpp"

namespace toporun::launcher {
namespace {

constexpr std::string_view kPlaceholder = "{workers}";
constexpr int kMostWorkers = 100000;

const profiles::LoaderOptions& known() {
    static const profiles::LoaderOptions options = profiles::builtin_loader_options();
    return options;
}

std::string folded(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '-', '_');
    return text;
}

std::optional<int> workers_in(std::string_view text) {
    if (text.empty() || text.size() > 6 ||
        text.find_first_not_of("0123456789") != std::string_view::npos)
        return std::nullopt;
    const auto number = to_integer(text);
    if (!number || *number > kMostWorkers) return std::nullopt;
    return static_cast<int>(*number);
}

/// `val_dataloader.num_workers`: a loader that does not run in a training step.
bool of_validation(std::string_view path) {
    constexpr std::array<std::string_view, 4> kOthers = {"val", "test", "eval", "predict"};
    return std::any_of(kOthers.begin(), kOthers.end(), [&](std::string_view other) {
        const std::size_t found = path.find(other);
        return found != std::string_view::npos &&
               (found == 0 || path[found - 1] == '.' || path[found - 1] == '_');
    });
}

/// The dotted name is the option's own or ends in it.
bool names(std::string_view path, const std::string& name) {
    const std::string text = folded(path);
    const std::string wanted = folded(name);
    const std::size_t dot = text.rfind('.');
    if (dot == std::string::npos) return text == wanted;
    return text.substr(dot + 1) == wanted && !of_validation(std::string_view(text).substr(0, dot));
}

class Finder {
  public:
    explicit Finder(const Command& command)
        : argv_(command.argv), first_(command.program_at.empty() ? 0 : command.program_at.front()) {
        for (std::size_t i = first_; i < argv_.size(); ++i)
            python_ = python_ || is_python(argv_[i]) || argv_[i].ends_with(".py");
        python_ = python_ || command.job.launcher == "torchrun";
    }

    std::vector<LoaderNumber> numbers() const {
        std::vector<LoaderNumber> found;
        for (std::size_t i = first_ + 1; i < argv_.size(); ++i)
            for (const profiles::LoaderOption& option : known().options)
                if (auto number = read(i, option)) {
                    found.push_back(std::move(*number));
                    break;
                }
        return found;
    }

    std::optional<LoaderAdvice> advice() const {
        for (const profiles::LoaderFramework& framework : known().frameworks)
            if (any_word([&](const std::string& word) { return shows(word, framework); }) &&
                !any_word([&](const std::string& word) { return excludes(word, framework); }))
                return LoaderAdvice{framework.name, framework.add, framework.default_workers};
        return std::nullopt;
    }

  private:
    template <class Holds>
    bool any_word(const Holds& holds) const {
        return std::any_of(argv_.begin() + static_cast<std::ptrdiff_t>(first_), argv_.end(), holds);
    }

    static bool excludes(const std::string& word, const profiles::LoaderFramework& framework) {
        return std::any_of(framework.not_programs.begin(), framework.not_programs.end(),
                           [&](const std::string& end) { return base_name(word).ends_with(end); });
    }

    static bool shows(const std::string& word, const profiles::LoaderFramework& framework) {
        const std::string name = word.substr(0, word.find('='));
        const auto& programs = framework.programs;
        return std::find(framework.words.begin(), framework.words.end(), name) !=
                   framework.words.end() ||
               std::find(programs.begin(), programs.end(), base_name(word)) != programs.end();
    }

    std::optional<LoaderNumber> read(std::size_t i, const profiles::LoaderOption& option) const {
        if (option.python && !python_) return std::nullopt;
        const std::string& word = argv_[i];
        if (option.form == "key") return word == option.name ? next_word(i) : std::nullopt;
        if (option.form == "short") {
            if (word == "-" + option.name) return next_word(i);
            return word.starts_with("-" + option.name) ? rest(i, option.name.size() + 1)
                                                       : std::nullopt;
        }
        const bool dashes = word.starts_with("--");
        if (dashes != (option.form == "option")) return std::nullopt;
        // `+key=` and `++key=` are Hydra's.
        const std::size_t begin = word.find_first_not_of(dashes ? "-" : "+");
        const std::size_t equals = word.find('=');
        if (begin == std::string::npos) return std::nullopt;
        const auto path = std::string_view(word).substr(
            begin, equals == std::string::npos ? equals : equals - begin);
        if (!names(path, option.name)) return std::nullopt;
        if (equals != std::string::npos) return rest(i, equals + 1);
        return dashes ? next_word(i) : std::nullopt;
    }

    std::optional<LoaderNumber> next_word(std::size_t i) const {
        if (i + 1 >= argv_.size()) return std::nullopt;
        const auto workers = workers_in(argv_[i + 1]);
        if (!workers) return std::nullopt;
        return LoaderNumber{i + 1, 0, *workers, argv_[i] + " " + argv_[i + 1]};
    }

    std::optional<LoaderNumber> rest(std::size_t i, std::size_t at) const {
        const auto workers = workers_in(std::string_view(argv_[i]).substr(at));
        if (!workers) return std::nullopt;
        return LoaderNumber{i, at, *workers, argv_[i]};
    }

    const std::vector<std::string>& argv_;
    std::size_t first_;
    bool python_ = false;
};

/// The placeholder at or behind `from`; npos when there is none.
std::size_t find_placeholder(const std::string& word, std::size_t from) {
    for (std::size_t at = word.find(kPlaceholder, from); at != std::string::npos;
         at = word.find(kPlaceholder, at + 1))
        if (at == 0 || (word[at - 1] != '{' && word[at - 1] != '$')) return at;
    return std::string::npos;
}

}  // namespace

std::vector<LoaderNumber> loader_numbers(const Command& command) {
    return Finder(command).numbers();
}

std::optional<LoaderAdvice> loader_advice(const Command& command) {
    return Finder(command).advice();
}

bool has_workers_placeholder(const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return find_placeholder(word, 0) != std::string::npos;
    });
}

std::vector<std::string> fill_in_workers(std::vector<std::string> words, int workers) {
    const std::string text = std::to_string(workers);
    for (std::string& word : words)
        for (std::size_t at = find_placeholder(word, 0); at != std::string::npos;
             at = find_placeholder(word, at + text.size()))
            word.replace(at, kPlaceholder.size(), text);
    return words;
}

std::vector<std::string> set_loader_numbers(const Command& command,
                                            const std::vector<LoaderNumber>& numbers, int workers) {
    std::vector<std::string> words = command.argv;
    for (const LoaderNumber& number : numbers)
        words[number.word].replace(number.at, std::string::npos, std::to_string(workers));
    return words;
}

}  // namespace toporun::launcher
