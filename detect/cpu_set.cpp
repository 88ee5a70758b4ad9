#include "detect/cpu_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr long long kLargestIndex = 65535;  // Linux: CONFIG_NR_CPUS is at most 8192

}  // namespace

CpuSet::CpuSet(std::vector<int> pu_os_indices) : indices_(std::move(pu_os_indices)) {
    std::sort(indices_.begin(), indices_.end());
    indices_.erase(std::unique(indices_.begin(), indices_.end()), indices_.end());
}

CpuSet CpuSet::parse(std::string_view list) {
    std::vector<std::pair<int, int>> ranges;
    if (trim(list).empty()) return {};
    for (const std::string& part : split(list, ',')) {
        const std::string_view range = trim(part);
        const std::size_t dash = range.find('-');
        const auto first = to_integer(range.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : to_integer(range.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last > kLargestIndex)
            throw Error(fmt::format("'{}' is not a list of CPUs", printable(list)), {},
                        "write it like 0-7,64-71");
        ranges.emplace_back(static_cast<int>(*first), static_cast<int>(*last));
    }
    // Ranges that overlap are expanded once only: a hostile list must not need more room than the
    // largest set.
    std::sort(ranges.begin(), ranges.end());
    std::vector<int> indices;
    for (const auto& [first, last] : ranges)
        for (int i = indices.empty() ? first : std::max(first, indices.back() + 1); i <= last; ++i)
            indices.push_back(i);
    return CpuSet(std::move(indices));
}

std::string CpuSet::text() const {
    std::string out;
    for (std::size_t i = 0; i < indices_.size();) {
        std::size_t last = i;
        while (last + 1 < indices_.size() && indices_[last + 1] == indices_[last] + 1) ++last;
        if (!out.empty()) out += ',';
        out += last == i ? fmt::format("{}", indices_[i])
                         : fmt::format("{}-{}", indices_[i], indices_[last]);
        i = last + 1;
    }
    return out;
}

bool CpuSet::contains(int pu_os_index) const {
    return std::binary_search(indices_.begin(), indices_.end(), pu_os_index);
}

bool CpuSet::contains(const CpuSet& other) const {
    return std::includes(indices_.begin(), indices_.end(), other.indices_.begin(),
                         other.indices_.end());
}

CpuSet operator&(const CpuSet& a, const CpuSet& b) {
    CpuSet out;
    std::set_intersection(a.indices_.begin(), a.indices_.end(), b.indices_.begin(),
                          b.indices_.end(), std::back_inserter(out.indices_));
    return out;
}

CpuSet operator|(const CpuSet& a, const CpuSet& b) {
    CpuSet out;
    std::set_union(a.indices_.begin(), a.indices_.end(), b.indices_.begin(), b.indices_.end(),
                   std::back_inserter(out.indices_));
    return out;
}

CpuSet operator-(const CpuSet& a, const CpuSet& b) {
    CpuSet out;
    std::set_difference(a.indices_.begin(), a.indices_.end(), b.indices_.begin(), b.indices_.end(),
                        std::back_inserter(out.indices_));
    return out;
}

}  // namespace toporun::detect
