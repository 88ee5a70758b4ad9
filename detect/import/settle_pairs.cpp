#include "detect/import/settle_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace toporun::detect {
namespace {

/// Calls `settle` for each pair of a square matrix; returns how many pairs it calls contradictory.
template <class Cell, class Settle>
int settle_matrix(std::vector<std::vector<Cell>>& matrix, Settle settle) {
    int contradictions = 0;
    for (std::size_t a = 0; a < matrix.size(); ++a)
        for (std::size_t b = 0; b < std::min(a, matrix[a].size()); ++b)
            if (a < matrix[b].size() && matrix[a][b] != matrix[b][a])
                contradictions += settle(matrix[a][b], matrix[b][a]) ? 1 : 0;
    return contradictions;
}

/// Both cells become `worse`, or the one that is not `unknown`.
template <class Cell>
bool settle_cells(Cell& one, Cell& other, Cell unknown, Cell worse) {
    const bool contradiction = one != unknown && other != unknown;
    one = other = contradiction ? worse : one == unknown ? other : one;
    return contradiction;
}

void note(Machine& machine, int pairs, const char* what) {
    if (pairs > 0)
        machine.notes.push_back(fmt::format("{} GPU {} told differently in the two directions: {}",
                                            pairs, pairs == 1 ? "pair is" : "pairs are", what));
}

}  // namespace

void settle_pairs(Machine& machine) {
    const int paths = settle_matrix(machine.gpu_paths, [](PathType& one, PathType& other) {
        return settle_cells(one, other, PathType::DIS, std::max(one, other));
    });
    const int links = settle_matrix(machine.gpu_links, [](int& one, int& other) {
        return settle_cells(one, other, -1, std::min(one, other));
    });
    const int access = settle_matrix(machine.peer_access, [](PeerAccess& one, PeerAccess& other) {
        return settle_cells(one, other, PeerAccess::unknown, PeerAccess::refused);
    });
    note(machine, paths, "the farther path is taken");
    note(machine, links, "the smaller number of links is taken");
    note(machine, access, "a refusal of peer access is taken");
}

}  // namespace toporun::detect
