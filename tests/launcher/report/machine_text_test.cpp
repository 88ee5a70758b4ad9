#include "launcher/report/machine_text.hpp"

#include <doctest/doctest.h>

#include "sample_machines.hpp"

namespace toporun::tests {

TEST_CASE("names that count upwards are told as ranges") {
    struct Row {
        std::vector<std::string> names;
        const char* text;
    };
    const Row rows[] = {
        {{}, ""},
        {{"eth0"}, "eth0"},
        {{"mlx5_0", "mlx5_1", "mlx5_2"}, "mlx5_0-2"},
        {{"eno3", "mlx5_0", "mlx5_1", "mlx5_4"}, "eno3 mlx5_0-1 mlx5_4"},
        {{"rdmap8s0", "rdmap9s0", "rdmap10s0"}, "rdmap8-10s0"},
        {{"ens10np0", "ens10np1"}, "ens10np0-1"},
        {{"mlx5_1", "mlx5_0"}, "mlx5_1 mlx5_0"},
        {{"a", "a"}, "a a"},
        {{"eth01", "eth02"}, "eth01 eth02"},
        {{"7", "8"}, "7-8"},
        {{"x99999999999", "x999999999910"}, "x99999999999 x999999999910"},
        {{"\x1b[31m", "\x1b[32m"}, "\\x1b[31-32m"},
    };
    for (const Row& row : rows) CHECK(launcher::name_list(row.names) == row.text);
}

TEST_CASE("CPUs that alternate between nodes are told with a step") {
    struct Row {
        const char* list;
        const char* text;
    };
    const Row rows[] = {{"", ""},
                        {"3", "3"},
                        {"0-7,64-71", "0-7,64-71"},
                        {"0,2,4,6,8", "0-8:2"},
                        {"1,3,5,7,40,42,44,46", "1-7:2,40-46:2"},
                        {"0,2,4", "0,2,4"},
                        {"0,4,8,12,13,14", "0-12:4,13-14"},
                        {"0,56", "0,56"},
                        {"0-1,3-4,6-7", "0-1,3-4,6-7"}};
    for (const Row& row : rows) {
        CAPTURE(row.list);
        CHECK(launcher::cpu_list(CpuSet::parse(row.list)) == row.text);
    }
}

TEST_CASE("links of a GPU are those to the switches or those of all pairs") {
    detect::Machine machine = hgx_machine();
    CHECK(launcher::links_of(machine, 3) == 18);
    machine.nvswitch = false;
    CHECK(launcher::links_of(machine, 3) == 7 * 18);
    CHECK_FALSE(launcher::links_of(machine, 8).has_value());
}

TEST_CASE("links of a GPU with a pair that is not told") {
    detect::Machine machine = hgx_machine();
    machine.gpu_links[3][4] = -1;
    CHECK(launcher::links_of(machine, 3) == 18);  // each pair shows those to the switches
    machine.nvswitch = false;
    CHECK_FALSE(launcher::links_of(machine, 3).has_value());
    CHECK(launcher::links_of(machine, 2) == 7 * 18);
}

TEST_CASE("the nearest GPUs of an adapter") {
    const detect::Machine machine = hgx_machine();
    CHECK_FALSE(launcher::nearest_gpus(machine, 0).has_value());  // no PCI device
    const auto nearest = launcher::nearest_gpus(machine, 2);
    REQUIRE(nearest.has_value());
    CHECK(nearest->path == PathType::PIX);
    CHECK(nearest->indices == std::vector<int>{2, 3});
    CHECK_FALSE(launcher::nearest_gpus(machine, 5).has_value());
    detect::Machine torn = machine;
    torn.gpu_nic_paths.pop_back();
    CHECK_FALSE(launcher::nearest_gpus(torn, 2).has_value());
}

TEST_CASE("a column without a word is left out of a table") {
    launcher::Table table({"a", "b", "c"});
    CHECK(table.text().empty());
    table.row({"1", "", "long"});
    table.row({"22", "", "\x1b"});
    CHECK(table.text() == "  a   c\n  1   long\n  22  \\x1b\n");
    CHECK(table.width() == 2 + 4 + 6);
}

}  // namespace toporun::tests
