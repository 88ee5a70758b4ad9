#include "launcher/log/host_names.hpp"

#include <doctest/doctest.h>

#include <string>

using toporun::launcher::HostNames;

namespace {

HostNames counted(int times, std::int64_t pid, std::string_view name) {
    HostNames names;
    for (int i = 0; i < times; ++i) names.count(pid, name);
    return names;
}

}  // namespace

TEST_CASE("a name is not known before it was seen some times") {
    CHECK(counted(1, 7, "0x5node-a").right(7, "0x5node-a") == std::nullopt);
    CHECK(counted(3, 7, "node-a").right(7, "node-a") == "node-a");
}

TEST_CASE("a name that is glued to other text or cut is that of the process") {
    const HostNames names = counted(5, 7, "node-a");
    CHECK(names.right(7, "0x5node-a") == "node-a");
    CHECK(names.right(7, "de-a") == "node-a");
    CHECK(names.right(7, "node-b") == std::nullopt);
    CHECK(names.right(7, "0x5e-a") == std::nullopt);  // both
}

TEST_CASE("what is glued several times is no name beside one that is seen much more often") {
    HostNames names = counted(20, 7, "node-a");
    for (int i = 0; i < 3; ++i) names.count(7, "0node-a");
    CHECK(names.right(7, "0node-a") == "node-a");
    for (int i = 0; i < 9; ++i) names.count(7, "0node-a");
    CHECK(names.right(7, "node-a") == std::nullopt);  // no longer clear
}

TEST_CASE("a process without a name of its own has one of the others") {
    HostNames names = counted(9, 7, "node-a");
    CHECK(names.right(8, "strenode-a") == "node-a");
    for (int i = 0; i < 9; ++i) names.count(9, "fast-node-a");
    CHECK(names.right(8, "node-a") == std::nullopt);  // of two that it may be
    CHECK(names.right(9, "node-a") == "fast-node-a");
    CHECK(names.right(7, "x-node-a") == "node-a");
}

TEST_CASE("processes of one number on two hosts have both names") {
    HostNames names = counted(4, 7, "node-a");
    for (int i = 0; i < 4; ++i) names.count(7, "node-b");
    CHECK(names.right(7, "node-a") == "node-a");
    CHECK(names.right(7, "2node-b") == "node-b");
}

TEST_CASE("containers whose processes have one number keep all their names") {
    HostNames names;
    for (int round = 0; round < 5; ++round)
        for (int host = 0; host < 40; ++host) names.count(20, "pod-" + std::to_string(100 + host));
    for (int host = 0; host < 40; ++host) {
        const std::string name = "pod-" + std::to_string(100 + host);
        CHECK(names.right(20, name) == name);
        CHECK(names.right(20, "0x5" + name) == name);
    }
}
