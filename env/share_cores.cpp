#include <algorithm>
#include <map>

#include "env/cores.hpp"

/// A flow of cores to places: atoms are cores near the same places.
namespace toporun::env {
namespace {

using detect::Core;

struct Atom {
    std::vector<std::size_t> places;  ///< that it is near to, ascending
    std::vector<std::size_t> order;   ///< the same, by their first PU
    std::vector<std::size_t> cores;
    std::size_t free = 0;
};

int first_pu(const Place& place) {
    return place.near.empty() ? -1 : place.near.indices().front();
}

class Flow {
  public:
    Flow(const std::vector<Core>& cores, const std::vector<Place>& places) {
        std::map<std::vector<std::size_t>, std::vector<std::size_t>> by_places;
        for (std::size_t core = 0; core < cores.size(); ++core) {
            std::vector<std::size_t> near;
            for (std::size_t place = 0; place < places.size(); ++place)
                if (places[place].near.empty() || !(cores[core].pus & places[place].near).empty())
                    near.push_back(place);
            if (!near.empty()) by_places[near].push_back(core);
        }
        for (const auto& [near, members] : by_places) {
            Atom atom;
            atom.places = atom.order = near;
            atom.cores = members;
            atom.free = members.size();
            // Handed out in the order of the places, so that each gets neighbours.
            std::stable_sort(atom.order.begin(), atom.order.end(),
                             [&](std::size_t left, std::size_t right) {
                                 return first_pu(places[left]) < first_pu(places[right]);
                             });
            atoms_.push_back(std::move(atom));
        }
        // What only one place is near to is of no use to the others.
        std::stable_sort(atoms_.begin(), atoms_.end(), [](const Atom& a, const Atom& b) {
            return a.places.size() < b.places.size();
        });
        taken_.assign(places.size(), std::vector<std::size_t>(atoms_.size(), 0));
    }

    /// One more core for the place, if need be from another place that finds a substitute: its
    /// total stays.
    bool add_one(std::size_t place) {
        std::vector<bool> seen(atoms_.size(), false);
        return take(place, seen);
    }

    /// Which cores each place gets; within an atom the places follow each other.
    std::vector<std::vector<std::size_t>> cores() const {
        std::vector<std::vector<std::size_t>> out(taken_.size());
        for (std::size_t atom = 0; atom < atoms_.size(); ++atom) {
            auto next = atoms_[atom].cores.begin();
            for (const std::size_t place : atoms_[atom].order) {
                const auto end = next + static_cast<std::ptrdiff_t>(taken_[place][atom]);
                out[place].insert(out[place].end(), next, end);
                next = end;
            }
        }
        return out;
    }

  private:
    static bool near(const Atom& atom, std::size_t place) {
        return std::binary_search(atom.places.begin(), atom.places.end(), place);
    }

    bool take(std::size_t place, std::vector<bool>& seen) {
        for (std::size_t i = 0; i < atoms_.size(); ++i) {
            if (atoms_[i].free == 0 || !near(atoms_[i], place)) continue;
            --atoms_[i].free;
            ++taken_[place][i];
            return true;
        }
        for (std::size_t i = 0; i < atoms_.size(); ++i) {
            if (seen[i] || !near(atoms_[i], place)) continue;
            seen[i] = true;
            for (const std::size_t other : atoms_[i].places) {
                if (other == place || taken_[other][i] == 0 || !take(other, seen)) continue;
                --taken_[other][i];
                ++taken_[place][i];
                return true;
            }
        }
        return false;
    }

    std::vector<Atom> atoms_;
    std::vector<std::vector<std::size_t>> taken_;  ///< place x atom
};

}  // namespace

std::vector<std::vector<Core>> share_among_places(const std::vector<Core>& cores,
                                                  const std::vector<Place>& places) {
    Flow flow(cores, places);
    std::vector<bool> hungry(places.size(), true);
    // Each round is one core more for every rank of every place that can still have it.
    while (std::find(hungry.begin(), hungry.end(), true) != hungry.end())
        for (std::size_t place = 0; place < places.size(); ++place)
            for (std::size_t i = 0; hungry[place] && i < places[place].ranks.size(); ++i)
                hungry[place] = flow.add_one(place);
    std::vector<std::vector<Core>> shares;
    for (std::size_t place = 0; const std::vector<std::size_t>& indices : flow.cores()) {
        std::vector<Core> share;
        for (const std::size_t core : indices) share.push_back(cores[core]);
        if (!places[place].near.empty()) share = within(share, places[place].near);
        shares.push_back(std::move(share));
        ++place;
    }
    return shares;
}

}  // namespace toporun::env
