#include "detect/import/wrapped_row.hpp"

#include <algorithm>
#include <optional>

#include "detect/import/gpu_table.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostJoints = 6;  ///< a row of 32 devices at 40 columns has fewer

bool blank(char c) {
    return c == ' ' || c == '\t';
}

}  // namespace

bool all_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_affinity(std::string_view word) {
    return word == "N/A" ||
           (!word.empty() && word.find_first_not_of("0123456789,-") == std::string_view::npos);
}

std::vector<std::string> unglue(std::string_view word, IsCell is_cell) {
    constexpr std::size_t kLongestCell = 5, kLongestWord = 512;
    std::vector<std::string> parts;
    if (word.size() > kLongestWord) return {};
    while (!word.empty()) {
        std::size_t length = std::min(kLongestCell, word.size());
        while (length > 0 && !is_cell(word.substr(0, length))) --length;
        if (length == 0) {
            if (parts.empty() || !is_affinity(word)) return {};
            length = word.size();
        }
        parts.emplace_back(word.substr(0, length));
        word.remove_prefix(length);
    }
    return parts;
}

void WrappedRow::add_line(std::string_view line) {
    const std::vector<std::string_view> next = words(line);
    if (next.empty()) return;
    std::size_t from = 0;
    if (!words_.empty()) {
        std::string& last = words_.back();
        const std::string_view rest = next[0];
        const auto numbers = [](std::string_view word) {
            return is_affinity(word) && word != "N/A";
        };
        const auto whole = [&](std::string_view word) {
            return is_cell_(word) || is_affinity(word);
        };
        const bool in_list = numbers(last) && numbers(rest) &&
                             (last.ends_with(",") || last.ends_with("-") || rest.starts_with(",") ||
                              rest.starts_with("-"));
        const bool apart = whole(last) && whole(rest);
        if (in_list || (whole(last + std::string(rest)) && !apart)) {
            last += rest;
            from = 1;
        } else if (whole(last + std::string(rest)) && !blank_end_ && !blank(line[0])) {
            joints_.push_back(words_.size());
        }
    }
    words_.insert(words_.end(), next.begin() + static_cast<std::ptrdiff_t>(from), next.end());
    blank_end_ = blank(line.back());
}

/// `choice` has a bit for each joint: joined there.
std::vector<std::string> WrappedRow::joined(unsigned choice) const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < words_.size(); ++i) {
        const auto joint = std::find(joints_.begin(), joints_.end(), i);
        const bool join = joint != joints_.end() && (choice >> (joint - joints_.begin()) & 1) != 0;
        if (join)
            out.back() += words_[i];
        else
            out.push_back(words_[i]);
    }
    return out;
}

bool WrappedRow::fits(const std::vector<std::string>& words, std::size_t cells,
                      std::size_t behind) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (count == cells) {
            // A number on its own may be a NUMA node; a list is one of CPUs.
            const std::string& list = words[i];
            return words.size() - i == behind && (list == "N/A" || cpu_list(list));
        }
        const std::vector<std::string> parts =
            is_cell_(words[i]) ? std::vector<std::string>{} : unglue(words[i], is_cell_);
        count += std::max<std::size_t>(parts.size(), 1);
    }
    return count == cells && behind == 0;
}

std::vector<std::string> WrappedRow::take(std::size_t cells, std::size_t behind) {
    unclear_ = false;
    if (joints_.empty()) return std::move(words_);
    std::optional<unsigned> fitting;
    std::size_t several = 0;
    for (unsigned choice = 0; joints_.size() <= kMostJoints && choice < 1u << joints_.size();
         ++choice)
        if (fits(joined(choice), cells, behind)) {
            fitting = choice;
            ++several;
        }
    if (several == 1) return joined(*fitting);
    unclear_ = true;
    unsigned in_cells = 0;
    for (std::size_t i = 0; i < joints_.size() && i < kMostJoints; ++i)
        if (joints_[i] <= cells) in_cells |= 1u << i;
    return joined(in_cells);
}

}  // namespace toporun::detect
