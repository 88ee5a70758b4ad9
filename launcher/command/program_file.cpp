#include "launcher/command/program_file.hpp"

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

/// srun 22.05 takes 9000 characters and refuses 20000.
constexpr std::size_t kLongestLine = 8000;
/// A task gets 127 words at most (multi_prog.c), those of the shim among them.
constexpr std::size_t kMostWords = 60;

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/// The words from `at` on; false where a quote stays open or the line goes on behind a backslash.
bool read_words(const std::string& line, std::size_t at, std::vector<std::string>& words) {
    while (at < line.size()) {
        std::string word;
        for (; at < line.size() && !is_blank(line[at]); ++at) {
            if (line[at] == '\\') {
                if (++at == line.size()) return false;
                word += line[at];
            } else if (line[at] == '\'') {
                const std::size_t end = line.find('\'', at + 1);
                if (end == std::string::npos) return false;
                word += line.substr(at + 1, end - at - 1);
                at = end;
            } else {
                word += line[at];
            }
        }
        words.push_back(std::move(word));
        while (at < line.size() && is_blank(line[at])) ++at;
    }
    return true;
}

std::string quoted_word(const std::string& word) {
    std::string text = "'";
    for (const char c : word) {
        if (c == '\'')
            text += "'\\''";
        else
            text += c;
    }
    return text + "'";
}

}  // namespace

ProgramFile read_program_file(std::string_view text) {
    ProgramFile file;
    bool any = false;
    for (std::string& row : split(text, '\n')) {
        ProgramLine line;
        line.text = std::move(row);
        const std::string& all = line.text;
        std::size_t at = 0;
        while (at < all.size() && is_blank(all[at])) ++at;
        if (at < all.size() && all[at] != '#') {
            while (at < all.size() && !is_blank(all[at])) ++at;
            while (at < all.size() && is_blank(all[at])) ++at;
            line.at = at;
            const std::string program = all.substr(at, all.find_first_of(" \t", at) - at);
            if (program.empty() || program.find_first_of("'\"\\%") != std::string::npos ||
                !read_words(all, at, line.words) || line.words.size() > kMostWords) {
                file.problem = "a line of srun's file of programs is not understood";
                return file;
            }
            any = true;
        }
        file.lines.push_back(std::move(line));
    }
    if (!any) file.problem = "srun's file of programs names none";
    return file;
}

std::string program_file_text(const std::vector<ProgramLine>& lines,
                              const std::vector<std::string>& words) {
    std::string inserted;
    for (const std::string& word : words) {
        if (word.find_first_of("\n%") != std::string::npos) return {};  // srun fills in %t and %o
        inserted += quoted_word(word) + " ";
    }
    std::string text;
    for (const ProgramLine& line : lines) {
        std::string row = line.text;
        if (line.at > 0) row.insert(line.at, inserted);
        if (row.size() > kLongestLine) return {};
        text += row + "\n";
    }
    return text;
}

}  // namespace toporun::launcher
