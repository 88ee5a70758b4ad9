#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;
using detect::Machine;
using detect::PathType;

namespace {

/// Every line with tabs as blanks up to columns of eight, as terminals copy it.
std::vector<std::string> terminal_lines(const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char c : text) {
        if (c == '\n')
            lines.emplace_back();
        else if (c == '\t')
            lines.back().append(8 - lines.back().size() % 8, ' ');
        else
            lines.back() += c;
    }
    return lines;
}

/// Wrapped by a terminal: at the column, in the middle of words.
std::string folded(const std::string& text, std::size_t width) {
    std::string out;
    for (std::string line : terminal_lines(text)) {
        for (; line.size() > width; line.erase(0, width)) out += line.substr(0, width) + "\n";
        out += line + "\n";
    }
    return out;
}

/// Wrapped by a mail program: at the last blank before the column, which is lost.
std::string filled(const std::string& text, std::size_t width) {
    std::string out;
    for (std::string line : terminal_lines(text)) {
        while (line.size() > width) {
            const std::size_t blank = line.find_last_of(' ', width);
            const std::size_t next = line.find_first_not_of(' ', std::min(blank, line.size()));
            if (blank == std::string::npos || next == std::string::npos || blank == 0) break;
            const std::size_t end = line.find_last_not_of(' ', blank);
            if (end == std::string::npos) break;
            out += line.substr(0, end + 1) + "\n";
            line.erase(0, next);
        }
        out += line + "\n";
    }
    return out;
}

/// The text with its lines cut at a column.
std::string cropped(const std::string& text, std::size_t width) {
    std::string out;
    for (const std::string& line : terminal_lines(text)) out += line.substr(0, width) + "\n";
    return out;
}

struct Score {
    std::size_t known = 0, of = 0;
};

/// Checks that `machine` says nothing else than `truth`, and counts what it says.
void compare(const Machine& machine, const Machine& truth, Score& score) {
    const auto fact = [&](bool known, bool right) {
        ++score.of;
        if (!known) return;
        ++score.known;
        CHECK(right);
    };
    CHECK(machine.gpus.size() <= truth.gpus.size());
    for (std::size_t i = 0; i < std::min(machine.gpus.size(), truth.gpus.size()); ++i) {
        CAPTURE(i);
        const detect::Gpu &gpu = machine.gpus[i], &real = truth.gpus[i];
        const std::string cpus = gpu.cpus.text(), expected = real.cpus.text();
        CAPTURE(cpus);
        CAPTURE(expected);
        fact(!gpu.cpus.empty(), gpu.cpus == real.cpus);
        fact(gpu.numa_node.has_value(), gpu.numa_node == real.numa_node);
        const std::string paths = path_row(machine, i), links = link_row(machine, i);
        CAPTURE(paths);
        CAPTURE(links);
        for (std::size_t j = 0; j < std::min(machine.gpus.size(), machine.gpu_paths.size()); ++j)
            // What leads through a third GPU is not known where that one was cut off.
            fact(machine.gpu_paths[i][j] != PathType::DIS &&
                     (truth.gpu_paths[i][j] != PathType::NVB ||
                      machine.gpus.size() == truth.gpus.size()),
                 machine.gpu_paths[i][j] == truth.gpu_paths[i][j]);
        for (std::size_t j = 0; j < std::min(machine.gpus.size(), machine.gpu_links.size()); ++j)
            fact(machine.gpu_links[i][j] >= 0, machine.gpu_links[i][j] == truth.gpu_links[i][j]);
    }
}

using Damage = std::string (*)(const std::string& text, std::size_t width);

/// All widths of terminals.
Score survive(const std::string& text, Damage damage, std::size_t least) {
    const Machine truth = import_text(text);
    Score score;
    for (std::size_t width = least; width <= 200; ++width) {
        CAPTURE(width);
        const std::string damaged = damage(text, width);
        CAPTURE(damaged);
        try {
            compare(import_text(damaged), truth, score);
        } catch (const Error&) {
            score.of += 1;
        }
    }
    return score;
}

std::vector<std::string> own_tables() {
    std::vector<std::string> texts;
    for (const std::string name : {"bridged-pairs.txt", "hyperthreads.txt", "many-adapters.txt"})
        texts.push_back(read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                  "detect/import/nvidia_topo" / name));
    return texts;
}

}  // namespace

TEST_CASE("tables that a terminal wrapped at any width tell the same") {
    for (const std::string& text : own_tables()) {
        CAPTURE(text);
        const Score score = survive(text, folded, 30);
        CHECK(score.known * 100 >= score.of * 95);
    }
}

TEST_CASE("tables that a mail program wrapped at any width tell the same") {
    for (const std::string& text : own_tables()) {
        CAPTURE(text);
        const Score score = survive(text, filled, 30);
        CHECK(score.known * 100 >= score.of * 95);
    }
}

TEST_CASE("tables that were cropped at any column tell nothing wrong") {
    for (const std::string& text : own_tables()) {
        CAPTURE(text);
        CHECK(survive(text, cropped, 10).known > 0);
    }
}

TEST_CASE("the tables of the shared folder tell nothing wrong however they were wrapped") {
    const std::filesystem::path folder = std::filesystem::path(TOPORUN_SHARED) / "data/topo-m";
    if (!std::filesystem::exists(folder)) {
        MESSAGE("skipped: " << folder.string() << " is not there");
        return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string file = entry.path().filename().string();
        CAPTURE(file);
        const std::string text = read_file(entry.path());
        for (const Damage damage : {folded, filled, cropped}) survive(text, damage, 72);
    }
}
