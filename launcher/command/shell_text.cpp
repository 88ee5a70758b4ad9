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
    Reader(ShellText& out, int depth) : out_(out), depth_(depth) {}

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
        if (text.substr(i).starts_with("<<")) return take_here_word(text, i);
        if (text.substr(i).starts_with("${")) return take_parameter(text, i);
        if (c == '#' && !in_word_) return std::min(text.find('\n', i), text.size()) - 1;
        if (c == '\n' && !here_words_.empty()) {
            end_command();
            return take_here_documents(text, i);
        }
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
            const std::string_view rest = text.substr(i);
            if (quote == '"' && rest.starts_with("${"))
                i = take_parameter(text, i);
            else if (quote == '"' && (rest.starts_with("$(") || rest.starts_with("`")))
                i = take_substitution(text, i);
            else
                word_ += text[i];
        }
        if (i >= text.size()) out_.whole = false;
        return i;
    }

    /// `$(COMMANDS)` and `` `COMMANDS` `` in double quotes.
    std::size_t take_substitution(std::string_view text, std::size_t i) {
        const std::size_t first = text[i] == '`' ? i + 1 : i + 2;
        const std::size_t end = text[i] == '`' ? std::min(text.find('`', first), text.size())
                                               : closing_bracket(text, i + 1);
        inner(text.substr(first, end - first));
        if (end == text.size()) out_.whole = false;
        const std::size_t last = std::min(end, text.size() - 1);
        word_ += text.substr(i, last + 1 - i);
        return last;
    }

    /// The bracket that closes the one at text[i], past quotes; the end where there is none.
    static std::size_t closing_bracket(std::string_view text, std::size_t i) {
        std::string open;  // what has to be closed, innermost last
        for (; i < text.size(); ++i) {
            const char c = text[i];
            const bool quoted = open.ends_with('"');
            if (c == '\\') {
                ++i;
            } else if (c == '"') {
                quoted ? open.pop_back() : open.push_back('"');
            } else if (c == '\'' && !quoted) {
                i = std::min(text.find('\'', i + 1), text.size());
            } else if (c == '(' && (!quoted || text[i - 1] == '$')) {
                open.push_back(')');
            } else if (c == ')' && !quoted) {
                open.pop_back();
                if (open.empty()) return i;
            }
        }
        return text.size();
    }

    /// `<<WORD`, `<<-'WORD'`; `<<<WORD` is a word like any other.
    std::size_t take_here_word(std::string_view text, std::size_t i) {
        end_word();
        if (text.substr(i).starts_with("<<<")) return i + 2;
        i += text.substr(i).starts_with("<<-") ? 3 : 2;
        while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
        const std::size_t end = std::min(text.find_first_of(" \t\r\n;&|()<>", i), text.size());
        std::string word(text.substr(i, end - i));
        std::erase_if(word, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
        if (!word.empty()) here_words_.push_back(std::move(word));
        return end - 1;
    }

    /// The lines of the here-documents that begin behind the line end at text[i]. Each line is a
    /// text of its own, for most of them are prose. Returns the position of the last character.
    std::size_t take_here_documents(std::string_view text, std::size_t i) {
        for (const std::string& word : std::exchange(here_words_, {})) {
            std::vector<std::string_view> lines;
            std::size_t at = i + 1;
            bool found = false;
            while (!found && at < text.size()) {
                const std::size_t end = std::min(text.find('\n', at), text.size());
                std::string_view line = text.substr(at, end - at);
                line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
                found = line == word;
                if (!found) lines.push_back(line);
                at = end + 1;
            }
            if (!found) break;  // no here-document: 1 << 2
            for (const std::string_view line : lines) prose(line);
            i = at - 1;
        }
        return std::min(i, text.size() - 1);
    }

    /// `${NAME:-TEXT}` is TEXT: what NAME holds is not known. Others stay as they are.
    std::size_t take_parameter(std::string_view text, std::size_t i) {
        if (text.find('}', i) == std::string_view::npos) out_.whole = false;
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
                prose(words[first].substr(value));
            else if (!is_one_of(kBefore, words[first]))
                break;
            ++first;
        }
        words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
        if (words.empty()) return;
        const std::string& front = words.front();  // of ${RUN:-srun -n 4}
        if (front.find(' ') != std::string::npos && front.find('$') != 0) prose(front);
        if (is_one_of(kDeclares, words.front()))
            for (const std::string& word : words)
                if (const std::size_t value = value_start(word)) prose(word.substr(value));
        if (words.front() == "trap" && words.size() > 1) inner(words[1]);
        if (words.front() == "eval") {
            std::string text;
            for (std::size_t i = 1; i < words.size(); ++i) text += words[i] + " ";
            inner(text);
        }
        out_.commands.push_back(std::move(words));
    }

    void inner(std::string_view text) {
        if (depth_ < kDeepest) Reader(out_, depth_ + 1).read(text);
    }

    /// A text that may be no commands at all: its quotes need not be closed.
    void prose(std::string_view text) {
        const bool whole = out_.whole;
        inner(text);
        out_.whole = whole;
    }

    ShellText& out_;
    int depth_;
    std::vector<std::string> here_words_;  ///< ends of the here-documents behind this line
    Words words_;
    std::string word_;
    bool in_word_ = false;
};

}  // namespace

ShellText read_shell_text(std::string_view text) {
    ShellText read;
    Reader(read, 0).read(text);
    return read;
}

}  // namespace toporun::launcher
