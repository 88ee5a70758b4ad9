// The commands of shell texts.
#include "launcher/command/shell_text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/text.hpp"

using namespace toporun;

namespace {

/// The commands, parted by `|`, the words of each by blanks.
std::string commands_of(const std::string& text) {
    std::vector<std::string> commands;
    for (const std::vector<std::string>& words : launcher::read_shell_text(text).commands)
        commands.push_back(join(words, " "));
    return join(commands, "|");
}

}  // namespace

TEST_CASE("the commands of a shell text") {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"", ""},
        {"# srun a\n", ""},
        {"a # srun b\nc", "a|c"},
        {"a b#c", "a b#c"},
        {"a; b && c || d | e & f", "a|b|c|d|e|f"},
        {"if a; then srun b; else c; fi", "a|srun b|c|fi"},
        {"for i in 1 2; do srun b; done", "for i in 1 2|srun b|done"},
        {"A=1 B=2 srun x", "1|2|srun x"},
        {"RUN=\"srun -n 4\"; $RUN a", "srun -n 4|$RUN a"},
        {"export RUN='srun -n 4'", "srun -n 4|export RUN=srun -n 4"},
        {"RUN=(srun -n 4)", "srun -n 4"},
        {"a \"$(srun b)\" 'srun c'", "srun b|a $(srun b) srun c"},
        {"A=\"x $(b \"$(srun c)\" ')' ) y\"", "srun c|b $(srun c) )|x $|srun c|b $(srun c) )|y"},
        {"a \"`srun b`\"", "srun b|a `srun b`"},
        {"trap 'srun b' EXIT", "srun b|trap srun b EXIT"},
        {"cat <<EOF\ndon't\n  srun a\nEOF\nsrun b", "cat|dont|srun a|srun b"},
        {"cat <<-'E' >f; a\n\tdon't\n\tE\nsrun b", "cat f|a|dont|srun b"},
        {"cat <<A <<B\na\nA\nb\nB\nsrun c", "cat|a|b|srun c"},
        {"cat <<< 'a b'\nsrun c", "cat a b|srun c"},
        {"a $((1 << 2))\nsrun c", "a $|1|srun c"},
        {"cat <<EOF", "cat"},
        {"cat <<EOF\nsrun b", "cat|srun b"},
        {"a $(srun b)", "a $|srun b"},
        {"a \\\n  srun", "a srun"},
        {"a \\;b", "a ;b"},
        {"eval \"srun $X\"", "srun $X|eval srun $X"},
        {"${RUN:-srun -n 4} a", "srun -n 4|srun -n 4 a"},
        {"\"${RUN}\" a", "${RUN} a"},
        {"exec srun a", "srun a"},
        {"a >srun 2>&1", "a srun 2|1"},
        {"\"not closed", "not closed|not closed"},
        {"${not closed", "${not closed"},
        {"\\", ""},
    };
    for (const auto& [text, commands] : rows) {
        CAPTURE(text);
        CHECK(commands_of(text) == commands);
    }
}

TEST_CASE("texts within texts end") {
    std::string text = "srun";
    for (int i = 0; i < 1000; ++i) text = "A=" + text;
    CHECK(launcher::read_shell_text(text).commands.size() < 10);
}

TEST_CASE("what is not closed is said") {
    for (const char* text : {"a 'b", "a \"b", "a \"$(b", "a ${b", "eval \"it's\""}) {
        CAPTURE(text);
        CHECK_FALSE(launcher::read_shell_text(text).whole);
    }
    for (const char* text :
         {"", "a 'b'", "# don't", "cat <<E\ndon't\nE\n", "A=\"don't\"", "a \\'"}) {
        CAPTURE(text);
        CHECK(launcher::read_shell_text(text).whole);
    }
}
