#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/text.hpp"
#include "detect/machine.hpp"

/// What merge.cpp, merge_gpus.cpp and merge_nics.cpp share. Private to them.
namespace toporun::detect::merge {

/// Puts single facts together and tells contradictions.
class Facts {
  public:
    Facts(std::string first, std::string second, std::vector<std::string>& notes)
        : first_(std::move(first)), second_(std::move(second)), notes_(notes) {}

    /// A known fact replaces an unknown one.
    template <class T>
    void take(std::optional<T>& into, const std::optional<T>& from, const std::string& subject,
              std::string_view fact) {
        if (!from) return;
        if (!into)
            into = from;
        else if (!same(*into, *from))
            contradiction(subject, fact, show(*into), show(*from));
    }

    /// "" is unknown; a text that contains the other one ("NVIDIA H100 80GB HBM3", "H100") is the
    /// more specific. Three points at the end are a cut.
    void take(std::string& into, const std::string& from, const std::string& subject,
              std::string_view fact) {
        if (from.empty() || into == from) return;
        if (into.empty() || contains(from, into))
            into = from;
        else if (!contains(into, from))
            contradiction(subject, fact, show(into), show(from));
    }

    void take(CpuSet& into, const CpuSet& from, const std::string& subject, std::string_view fact) {
        if (from.empty()) return;
        if (into.empty())
            into = from;
        else if (into != from)
            contradiction(subject, fact, into.text(), from.text());
    }

    /// What changes from one moment to the next: the later text wins, nothing is said.
    template <class T>
    static void take_latest(std::optional<T>& into, const std::optional<T>& from) {
        if (from) into = from;
    }

    void contradiction(const std::string& subject, std::string_view fact, const std::string& a,
                       const std::string& b, bool second_is_kept = false) {
        constexpr std::size_t kMost = 20;  // different machines contradict each other everywhere
        if (++contradictions_ <= kMost)
            notes_.push_back(fmt::format("{}: {} is {} in {} and {} in {}: the {} is kept", subject,
                                         fact, a, first_, b, second_,
                                         second_is_kept ? "second" : "first"));
        else if (contradictions_ == kMost + 1)
            notes_.push_back(
                fmt::format("{} and {} contradict each other in more facts: are they from one "
                            "machine?",
                            first_, second_));
    }
    void note(const std::string& text) { notes_.push_back(text); }
    const std::string& first() const { return first_; }
    const std::string& second() const { return second_; }

  private:
    template <class T>
    static bool same(const T& a, const T& b) {
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::uint64_t>) {
            const auto x = static_cast<double>(a), y = static_cast<double>(b);
            return std::abs(x - y) <= 0.03 * std::max(std::abs(x), std::abs(y));  // rounding
        } else {
            return a == b;
        }
    }
    template <class T>
    static std::string show(const T& value) {
        if constexpr (std::is_same_v<T, PciAddress>)
            return value.text();
        else if constexpr (std::is_same_v<T, std::string>)
            return "'" + printable(value) + "'";
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
            return "'" + printable(join(value, ", ")) + "'";
        else
            return fmt::format("{}", value);
    }
    static bool contains(std::string_view longer, std::string_view part) {
        if (part.ends_with("...")) part.remove_suffix(3);
        return longer.find(trim(part)) != std::string_view::npos;
    }

    std::string first_, second_;
    std::vector<std::string>& notes_;
    std::size_t contradictions_ = 0;
};

/// `into` and `from` on a square of `size`; `a` and `b` give the new position of each old one.
/// `join` decides a cell that both have. Empty when both are.
template <class T>
std::vector<std::vector<T>> join_square(
    const std::vector<std::vector<T>>& into, const std::vector<std::size_t>& a,
    const std::vector<std::vector<T>>& from, const std::vector<std::size_t>& b, std::size_t size,
    T unknown, T diagonal, const std::function<T(std::size_t, std::size_t, T, T)>& join) {
    if (into.empty() && from.empty()) return {};
    std::vector<std::vector<T>> out(size, std::vector<T>(size, unknown));
    for (std::size_t i = 0; i < into.size(); ++i)
        for (std::size_t j = 0; j < into[i].size(); ++j) out[a[i]][a[j]] = into[i][j];
    for (std::size_t i = 0; i < from.size(); ++i)
        for (std::size_t j = 0; j < from[i].size(); ++j) {
            T& cell = out[b[i]][b[j]];
            const T& other = from[i][j];
            if (cell == unknown)
                cell = other;
            else if (other != unknown && other != cell)
                cell = join(b[i], b[j], cell, other);
        }
    for (std::size_t i = 0; i < size; ++i) out[i][i] = diagonal;
    return out;
}

/// New positions of the GPUs of both sides after merge_gpus.
struct GpuPositions {
    std::vector<std::size_t> into;
    std::vector<std::size_t> from;
    std::size_t count = 0;
};

/// Joins the lists of GPUs and their pair matrices, sorted by index. GPUs that `from` lists without
/// gpus_known add facts to those of a known list and are left out otherwise.
GpuPositions merge_gpus(Machine& into, const Machine& from, Facts& facts);

/// Joins the lists of interfaces and the GPU x NIC matrices.
void merge_nics(Machine& into, const Machine& from, const GpuPositions& gpus, Facts& facts);

/// Once everything is joined: the kernel's order, then RDMA ports without an interface; ports of
/// one device share its paths.
void finish_nics(Machine& machine);

}  // namespace toporun::detect::merge
