#include "detect/import/settle_pairs.hpp"

#include <doctest/doctest.h>

using namespace toporun::detect;

TEST_CASE("the half of a pair that is told counts, of two contradictory ones the worse") {
    Machine machine;
    machine.gpus.resize(3);
    machine.gpu_paths = {{PathType::LOC, PathType::NVL, PathType::DIS},
                         {PathType::SYS, PathType::LOC, PathType::PIX},
                         {PathType::PHB, PathType::PIX, PathType::LOC}};
    machine.gpu_links = {{0, 12, -1}, {4, 0, 0}, {2, 0, 0}};
    machine.peer_access = {{PeerAccess::ok, PeerAccess::ok, PeerAccess::unknown},
                           {PeerAccess::refused, PeerAccess::ok, PeerAccess::unknown},
                           {PeerAccess::ok, PeerAccess::unknown, PeerAccess::ok}};
    settle_pairs(machine);
    CHECK(machine.gpu_paths ==
          std::vector<std::vector<PathType>>{{PathType::LOC, PathType::SYS, PathType::PHB},
                                             {PathType::SYS, PathType::LOC, PathType::PIX},
                                             {PathType::PHB, PathType::PIX, PathType::LOC}});
    CHECK(machine.gpu_links == std::vector<std::vector<int>>{{0, 4, 2}, {4, 0, 0}, {2, 0, 0}});
    CHECK(machine.peer_access[0][1] == PeerAccess::refused);
    CHECK(machine.peer_access[0][2] == PeerAccess::ok);
    CHECK(machine.peer_access[1][2] == PeerAccess::unknown);
    REQUIRE(machine.notes.size() == 3);
    CHECK(machine.notes[0] ==
          "1 GPU pair is told differently in the two directions: the farther path is taken");
}

TEST_CASE("a symmetric machine and an empty one stay as they are") {
    Machine machine;
    settle_pairs(machine);
    CHECK(machine == Machine{});
    machine.gpu_links = {{0, 1}, {1, 0}};
    const Machine before = machine;
    settle_pairs(machine);
    CHECK(machine == before);
    machine.gpu_links = {{0, 1}, {}};  // never so from an importer
    settle_pairs(machine);
    CHECK(machine.notes.empty());
}
