#include "detect/import/settle_machine.hpp"

#include <doctest/doctest.h>

#include "detect/import/settle_pairs.hpp"

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

TEST_CASE("text is safe to print and a bus id belongs to one GPU") {
    Machine machine;
    machine.gpus.resize(2);
    machine.gpus[0].name = "A\x1b[31m";
    machine.gpus[0].pci = machine.gpus[1].pci = PciAddress{0, 0x18, 0, 0};
    machine.gpus[0].uuid = machine.gpus[1].uuid = "GPU-1";
    machine.gpus[1].index = 1;
    machine.nics.resize(1);
    machine.nics[0].addresses = {"10.0.0.1/24\xff"};
    machine.notes = {"\a"};
    settle_machine(machine);
    CHECK(machine.gpus[0].name == "A\\x1b[31m");
    CHECK(machine.nics[0].addresses[0] == "10.0.0.1/24\\xff");
    CHECK(machine.gpus[0].pci);
    CHECK_FALSE(machine.gpus[1].pci);
    CHECK_FALSE(machine.gpus[1].uuid);
    REQUIRE(machine.notes.size() == 3);
    CHECK(machine.notes[0] == "\\x07");
    CHECK(machine.notes[1] == "GPU 1: its bus id is that of another GPU, it is not taken");
}

TEST_CASE("two GPUs never have one index") {
    Machine machine;
    machine.gpus.resize(3);
    machine.gpus[1].index = 1;
    settle_machine(machine);
    CHECK(machine.gpus[0].index == 0);
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.gpus[2].index == 2);
    CHECK(machine.notes ==
          std::vector<std::string>{"two GPUs 0 are told: the second is GPU 2 here"});
}
