#include "launcher/profiler/interval_union.hpp"

#include <algorithm>
#include <iterator>

namespace toporun::profiler {

void IntervalUnion::add(std::uint64_t start, std::uint64_t stop) {
    if (stop <= start) return;
    first_ = std::min(first_, start);
    last_ = std::max(last_, stop);
    start = std::max(start, horizon_);
    if (stop <= start) return;
    auto next = open_.upper_bound(start);  // merge with every interval that touches this one
    if (next != open_.begin() && std::prev(next)->second >= start) --next;
    while (next != open_.end() && next->first <= stop) {
        start = std::min(start, next->first);
        stop = std::max(stop, next->second);
        next = open_.erase(next);
    }
    open_.emplace(start, stop);
    if (open_.size() > kOpen) fold_oldest();
}

void IntervalUnion::fold_oldest() {
    const auto oldest = open_.begin();
    folded_ += static_cast<double>(oldest->second - oldest->first);
    horizon_ = oldest->second;
    open_.erase(oldest);
}

double IntervalUnion::covered() const {
    double sum = folded_;
    for (const auto& [start, stop] : open_) sum += static_cast<double>(stop - start);
    return sum;
}

double IntervalUnion::window() const {
    return empty() ? 0 : static_cast<double>(last_ - first_);
}

}  // namespace toporun::profiler
