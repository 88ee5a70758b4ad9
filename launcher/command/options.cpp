#include "launcher/command/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

/// The part before the first `=`, and what follows it.
struct Word {
    std::string name;
    std::string value;
    bool has_value = false;
};

Word cut_at_equals(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return {std::string(text), "", false};
    return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)), true};
}

const Option* find_exact(const OptionTable& table, std::string_view name) {
    const auto found = std::find_if(table.options.begin(), table.options.end(),
                                    [&](const Option& option) { return option.name == name; });
    return found == table.options.end() ? nullptr : &*found;
}

const Option* find_long(const OptionTable& table, std::string name) {
    if (table.underscores) std::replace(name.begin(), name.end(), '_', '-');
    if (const Option* exact = find_exact(table, name)) return exact;
    if (!table.abbreviations || name.empty()) return nullptr;
    const Option* only = nullptr;
    for (const Option& option : table.options) {
        if (option.name.size() < 2 || !option.name.starts_with(name)) continue;
        if (only != nullptr) return nullptr;
        only = &option;
    }
    return only;
}

/// A word that argparse takes as a value, not as the next option: with a blank in it too.
bool is_value(const std::string& word) {
    if (word.size() < 2 || word[0] != '-' || to_integer(word).has_value()) return true;
    return word.find(' ') < word.find('=');
}

class Scanner {
  public:
    Scanner(std::span<const std::string> argv, std::size_t first, std::size_t end,
            const OptionTable& table)
        : argv_(argv), at_(first), end_(end), table_(table) {
        scan_.options_end = first;
    }

    Scan run() {
        while (at_ < end_ && scan_.problem.empty()) {
            const std::string& word = argv_[at_];
            scan_.options_end = at_;
            if (word == "--" && table_.double_dash) {
                ++at_;
                break;
            }
            if (word.size() < 2 || word[0] != '-') break;
            word_at_ = at_;
            ++at_;
            const std::size_t before = scan_.given.size();
            take(word);
            for (std::size_t i = before; i < scan_.given.size(); ++i)
                scan_.given[i].words = shell_line(argv_.subspan(word_at_, at_ - word_at_));
            scan_.options_end = at_;
            if (!scan_.given.empty() && scan_.given.back().meaning == Meaning::program_is_module)
                break;
        }
        scan_.program = at_;
        return scan_;
    }

  private:
    void take(const std::string& word) {
        const bool two_dashes = word.starts_with("--");
        if (two_dashes || table_.single_dash_long) {
            const Word parts = cut_at_equals(std::string_view(word).substr(two_dashes ? 2 : 1));
            const bool split = parts.has_value && table_.equals;
            const Option* option = find_long(table_, parts.has_value && !split ? "" : parts.name);
            if (option != nullptr) return take_long(word, *option, parts);
            if (two_dashes && split && table_.unknown_with_equals)
                return add(Option{parts.name, Arity::one, Meaning::plug_in}, parts.value);
            if (two_dashes && table_.unknown_takes_value) return split ? void() : guess(word);
        }
        if (two_dashes || !take_short(word)) fail(fmt::format("unknown option '{}'", word));
    }

    /// The next word is a value or the program: a Python script is taken for the program.
    void guess(const std::string& word) {
        if (at_ >= end_ || !is_value(argv_[at_])) return;
        if (scan_.guessed.empty()) scan_.guessed = printable(word);
        if (!argv_[at_].ends_with(".py")) ++at_;
    }

    void take_long(const std::string& word, const Option& option, const Word& parts) {
        if (!parts.has_value) return take_values(word, option);
        if (option.arity == Arity::flag || option.arity == Arity::two)
            return fail(fmt::format("option '{}' takes no value in this form", word));
        add(option, parts.value);
    }

    /// `-n`, `-n 4`, `-n4`, `-lu`. False when a letter is unknown.
    bool take_short(const std::string& word) {
        for (std::size_t i = 1; i < word.size(); ++i) {
            const Option* option = find_exact(table_, std::string_view(word).substr(i, 1));
            if (option == nullptr) return false;
            const std::string rest = word.substr(i + 1);
            if (option->arity != Arity::flag) {
                if (!rest.empty() && !table_.glued) return false;
                if (rest.empty())
                    take_values(word, *option);
                else
                    add(*option,
                        rest.starts_with('=') && table_.abbreviations ? rest.substr(1) : rest);
                return true;
            }
            if (!rest.empty() && !table_.clusters) return false;
            add(*option, "");
        }
        return true;
    }

    void take_values(const std::string& word, const Option& option) {
        if (option.arity == Arity::flag || option.arity == Arity::optional) return add(option, "");
        if (option.arity == Arity::many) {
            while (at_ < end_ && is_value(argv_[at_])) ++at_;
            return add(option, "");
        }
        const bool pair =
            option.arity == Arity::two || (option.arity == Arity::two_or_assignment && at_ < end_ &&
                                           argv_[at_].find('=') == std::string::npos);
        const std::size_t wanted = pair ? 2 : 1;
        const bool refused = table_.abbreviations && at_ < end_ && !is_value(argv_[at_]);
        if (end_ - at_ < wanted || refused)
            return fail(fmt::format("option '{}' lacks its value", word));
        add(option, argv_[at_]);
        if (wanted == 2) scan_.given.back().second = argv_[at_ + 1];
        at_ += wanted;
    }

    void add(const Option& option, std::string value) {
        scan_.given.push_back(
            {std::string(option.name), option.meaning, std::move(value), "", word_at_});
    }

    void fail(std::string problem) { scan_.problem = printable(problem); }

    std::span<const std::string> argv_;
    std::size_t at_;
    std::size_t word_at_ = 0;
    std::size_t end_;
    const OptionTable& table_;
    Scan scan_;
};

}  // namespace

Scan scan_options(std::span<const std::string> argv, std::size_t first, std::size_t end,
                  const OptionTable& table) {
    return Scanner(argv, first, end, table).run();
}

const Given* last_given(const Scan& scan, Meaning meaning) {
    const auto found = std::find_if(scan.given.rbegin(), scan.given.rend(),
                                    [&](const Given& given) { return given.meaning == meaning; });
    return found == scan.given.rend() ? nullptr : &*found;
}

std::optional<int> positive_count(std::string_view text) {
    const auto value = to_integer(trim(text));
    if (!value || *value < 1 || *value > 1'000'000) return std::nullopt;
    return static_cast<int>(*value);
}

}  // namespace toporun::launcher
