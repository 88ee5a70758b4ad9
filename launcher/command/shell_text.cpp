// The words of shell texts. Grammar: POSIX.1-2017, Shell Command Language, 2.2 to 2.10.
#include "launcher/command/shell_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace toporun::launcher {
namespace {

using Words = std::vector<std::string>;

constexpr int kDeepest = 4;  ///< texts in texts

/// Words behind which a command may stand, and commands that start the command behind them.
constexpr std::array<std::string_view, 13> kBefore = {"then",    "do",      "else",  "elif", "if",
                                                      "while",   "until",   "!",     "{",    "exec",
                                                      "command", "builtin", "coproc"};
constexpr std::array<std::string_view, 5> kDeclares = {"export", "local", "declare", "readonly",
                                                       "typeset"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// NAME=VALUE, NAME+=VALUE: where the value starts; 0 = no assignment.
std::size_t value_start(std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return 0;
    std::string_view name = word.substr(0, equals);
    if (name.ends_with('+')) name.remove_suffix(1);
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z');
    });
    return plain && !name.empty() && (name[0] < '0' || name[0] > '9') ? equals + 1 : 0;
}

class Reader {
  public:
    Reader(std::vector<Words>& commands, int depth) : commands_(commands), depth_(depth) {}

    void read(std::string_view text) {
        for (std::size_t i = 0; i < text.size(); ++i) i = take(text, i);
        end_command();
    }

  private:
    /// Takes what starts at text[i]; returns the position of its last character.
    std::size_t take(std::string_view text, std::size_t i) {
        const char c = text[i];
        if (c == '\\') {
            if (i + 1 < text.size() && text[i + 1] != '\n') add(text[i + 1]);
            return i + 1;
        }
        if (c == '\'' || c == '"') return take_quoted(text, i);
        if (text.substr(i).starts_with("${")) return take_parameter(text, i);
        if (c == '#' && !in_word_) return std::min(text.find('\n', i), text.size()) - 1;
        if (c == ' ' || c == '\t' || c == '\r')
            end_word();
        else if (c == '(' && in_word_ && word_.ends_with('='))
            end_word();  // NAME=(words of an array)
        else if (std::string_view("\n;&|()`").find(c) != std::string_view::npos)
            end_command();
        else if (c == '<' || c == '>')
            end_word();
        else
            add(c);
        return i;
    }

    std::size_t take_quoted(std::string_view text, std::size_t i) {
        const char quote = text[i];
        in_word_ = true;
        for (++i; i < text.size() && text[i] != quote; ++i) {
            if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) ++i;
            if (quote == '"' && text.substr(i).starts_with("${"))
                i = take_parameter(text, i);
            else
                word_ += text[i];
        }
        return i;
    }

    /// `${NAME:-TEXT}` is TEXT: what NAME holds is not known. Others stay as they are.
    std::size_t take_parameter(std::string_view text, std::size_t i) {
        const std::size_t end = std::min(text.find('}', i), text.size() - 1);
        const std::string_view inside = text.substr(i, end - i);
        const std::size_t otherwise = inside.find('-');
        word_ += otherwise == std::string_view::npos ? text.substr(i, end + 1 - i)
                                                     : inside.substr(otherwise + 1);
        in_word_ = true;
        return end;
    }

    void add(char c) {
        word_ += c;
        in_word_ = true;
    }

    void end_word() {
        if (in_word_) words_.push_back(std::exchange(word_, ""));
        in_word_ = false;
    }

    void end_command() {
        end_word();
        Words words = std::exchange(words_, {});
        std::size_t first = 0;
        while (first < words.size()) {
            const std::size_t value = value_start(words[first]);
            if (value > 0)
                inner(words[first].substr(value));
            else if (!is_one_of(kBefore, words[first]))
                break;
            ++first;
        }
        words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
        if (words.empty()) return;
        const std::string& front = words.front();  // of ${RUN:-srun -n 4}
        if (front.find(' ') != std::string::npos && front.find('$') != 0) inner(front);
        if (is_one_of(kDeclares, words.front()))
            for (const std::string& word : words)
                if (const std::size_t value = value_start(word)) inner(word.substr(value));
        if (words.front() == "eval") {
            std::string text;
            for (std::size_t i = 1; i < words.size(); ++i) text += words[i] + " ";
            inner(text);
        }
        commands_.push_back(std::move(words));
    }

    void inner(const std::string& text) {
        if (depth_ < kDeepest) Reader(commands_, depth_ + 1).read(text);
    }

    std::vector<Words>& commands_;
    int depth_;
    Words words_;
    std::string word_;
    bool in_word_ = false;
};

}  // namespace

std::vector<std::vector<std::string>> shell_commands(std::string_view text) {
    std::vector<Words> commands;
    Reader(commands, 0).read(text);
    return commands;
}

}  // namespace toporun::launcher
