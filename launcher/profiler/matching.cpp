#include "launcher/profiler/matching.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace toporun::profiler {
namespace {

bool has_rank(const Match& match, std::size_t rank) {
    return std::any_of(match.samples.begin(), match.samples.end(),
                       [&](const Sample& sample) { return sample.rank == rank; });
}

}  // namespace

std::vector<Match> Matching::add(const Match& head, const Sample& sample) {
    std::vector<Place>& same = index_[{head.communicator, head.sequence, head.function}];
    auto found = std::find_if(same.begin(), same.end(),
                              [&](Place place) { return !has_rank(*place, sample.rank); });
    if (found == same.end()) {
        pending_.push_back(head);
        same.push_back(std::prev(pending_.end()));
        found = std::prev(same.end());
    }
    const Place place = *found;
    place->samples.push_back(sample);
    std::vector<Match> over;
    if (place->samples.size() >= static_cast<std::size_t>(std::max(place->ranks, 1))) {
        over.push_back(take(place));
    }
    if (pending_.size() > kPending) over.push_back(take(pending_.begin()));
    return over;
}

Match Matching::take(Place place) {
    const Key key{place->communicator, place->sequence, place->function};
    std::vector<Place>& same = index_[key];
    std::erase(same, place);
    if (same.empty()) index_.erase(key);
    Match match = std::move(*place);
    pending_.erase(place);
    return match;
}

}  // namespace toporun::profiler
