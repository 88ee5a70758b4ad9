#include "launcher/log/test_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostTables = 64;
constexpr std::size_t kMostWords = 20;

using Words = std::array<std::string_view, kMostWords>;

/// The number of words, 0 when there are too many.
std::size_t split_words(std::string_view line, Words& words) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < line.size();) {
        at = std::min(line.find_first_not_of(" \r\n", at), line.size());
        const std::size_t end = std::min(line.find_first_of(" \r\n", at), line.size());
        if (at == end) break;
        if (count == words.size()) return 0;
        words[count++] = line.substr(at, end - at);
        at = end;
    }
    return count;
}

template <typename Number>
std::optional<Number> number_of(std::string_view word) {
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_type(std::string_view word) {
    constexpr std::array<std::string_view, 15> kTypes = {
        "int8",   "uint8",    "int32", "uint32", "int64",  "uint64", "half",   "float",
        "double", "bfloat16", "char",  "int",    "f8e4m3", "f8e5m2", "float16"};
    return is_one_of(word, kTypes);
}

bool is_op(std::string_view word) {
    constexpr std::array<std::string_view, 7> kOps = {"sum", "prod", "max",   "min",
                                                      "avg", "none", "mulsum"};
    return is_one_of(word, kOps);
}

struct Side {
    double algbw = 0;
    double busbw = 0;
    std::uint64_t wrong = 0;
};

/// A count, from a million on as `1.34218e+08`; the largest error of old versions, N/A and numbers
/// below one are none.
std::uint64_t wrong_values(std::string_view word) {
    constexpr double kMost = 1e18;
    if (const auto count = number_of<std::uint64_t>(word)) return *count;
    const auto rounded = number_of<double>(word);
    return rounded && word.find("e+") != word.npos && *rounded >= 1 && *rounded <= kMost
               ? static_cast<std::uint64_t>(*rounded)
               : 0;
}

/// Time in us, algbw, busbw, and the largest error (old versions) or the number of wrong values.
std::optional<Side> side_of(const std::string_view* words, std::uint64_t bytes) {
    const auto time = number_of<double>(words[0]);
    const auto algbw = number_of<double>(words[1]);
    const auto busbw = number_of<double>(words[2]);
    if (!time || !algbw || !busbw || *time <= 0 || *algbw < 0 || *busbw < 0) return std::nullopt;
    constexpr double kGigabyte = 1e3;  // bytes a us
    const double expected = static_cast<double>(bytes) / *time / kGigabyte;
    constexpr double kRounding = 0.0051, kOfTime = 0.02;  // two digits, times of three or more
    if (!(std::abs(expected - *algbw) <= kRounding + kOfTime * expected)) return std::nullopt;
    constexpr double kMostFactor = 2.01;  // of a bus bandwidth
    if (!(*busbw <= kMostFactor * *algbw + kRounding * 2)) return std::nullopt;
    return Side{*algbw, *busbw, wrong_values(words[3])};
}

}  // namespace

std::optional<TestRow> parse_test_row(std::string_view line) {
    if (!may_be_test_row(line)) return std::nullopt;
    Words words;
    const std::size_t count = split_words(line, words);
    constexpr std::size_t kSide = 4;
    for (std::size_t at = 2; at + kSide < count && at < 6; ++at) {
        if (!is_type(words[at])) continue;
        const auto bytes = number_of<std::uint64_t>(words[at - 2]);
        if (!bytes || *bytes == 0 || !number_of<std::uint64_t>(words[at - 1])) return std::nullopt;
        TestRow row;
        row.bytes = *bytes;
        row.type = words[at++];
        if (is_op(words[at])) row.op = words[at++];
        const std::size_t left = count - at;
        if (left % kSide == 1) {  // root
            if (!number_of<int>(words[at])) return std::nullopt;
            ++at;
        }
        const std::size_t sides = (count - at) / kSide;
        if ((count - at) % kSide != 0 || sides == 0 || sides > 2) return std::nullopt;
        bool any = false;
        for (std::size_t side = 0; side < sides; ++side) {
            const std::string_view* first = &words[at + side * kSide];
            const auto read = side_of(first, row.bytes);
            if (!read && first[0] != "N/A") return std::nullopt;
            if (!read) continue;  // some have no in place
            any = true;
            if (read->busbw >= row.busbw_gbytes_per_s) {
                row.algbw_gbytes_per_s = read->algbw;
                row.busbw_gbytes_per_s = read->busbw;
            }
            row.wrong += read->wrong;
        }
        return any ? std::optional(row) : std::nullopt;
    }
    return std::nullopt;
}

void TestTables::add(const TestRow& row) {
    const bool follows = !tables_.empty() && tables_.back().type == row.type &&
                         tables_.back().op == row.op && tables_.back().most_bytes < row.bytes;
    if (!follows) {
        if (tables_.size() >= kMostTables) return;
        LogTest table;
        table.type = row.type;
        table.op = row.op;
        table.least_bytes = row.bytes;
        tables_.push_back(table);
        before_last_ = 0;
    }
    LogTest& table = tables_.back();
    ++table.rows;
    table.most_bytes = row.bytes;
    table.last_gbytes_per_s = std::max(before_last_, row.busbw_gbytes_per_s);
    before_last_ = row.busbw_gbytes_per_s;
    if (row.busbw_gbytes_per_s > table.peak_gbytes_per_s) {
        table.peak_gbytes_per_s = row.busbw_gbytes_per_s;
        table.peak_bytes = row.bytes;
    }
    // Of all functions AllReduce alone has a factor above 1: 2 (n - 1) / n of three ranks or more.
    constexpr double kAboveOne = 1.2, kReadable = 0.5;
    if (row.algbw_gbytes_per_s >= kReadable &&
        row.busbw_gbytes_per_s >= kAboveOne * row.algbw_gbytes_per_s)
        table.function = "AllReduce";
    if (row.wrong > 0 && table.wrong == 0) table.wrong_bytes = row.bytes;
    table.wrong += row.wrong;
}

}  // namespace toporun::launcher
