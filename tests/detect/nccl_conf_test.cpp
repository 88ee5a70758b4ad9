#include "detect/software/nccl_conf.hpp"

#include <unistd.h>

#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::ConfValue;

std::string shown(const std::vector<ConfValue>& values) {
    std::string text;
    for (const ConfValue& value : values)
        text += "[" + value.name + "][" + value.value + "] " + value.where + "\n";
    return text;
}

std::string passwd_line(const std::string& home) {
    return "daemon:x:99999:1:::/bin/sh\nbroken\nu:x:" + std::to_string(getuid()) + ":0::" + home +
           ":/bin/sh\n";
}

}  // namespace

TEST_CASE("a configuration file is taken as NCCL takes it") {
    struct Row {
        std::string name;
        std::string text;
        std::string expected;
    };
    using namespace std::string_literals;
    const Row rows[] = {
        {"plain", "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0",
         "[NCCL_DEBUG][INFO] f:1\n[NCCL_IB_HCA][mlx5_0] f:2\n"},
        {"blanks stay", " NCCL_DEBUG = INFO \n", "[ NCCL_DEBUG ][ INFO ] f:1\n"},
        {"quotes stay", "NCCL_DEBUG=\"INFO\"\n", "[NCCL_DEBUG][\"INFO\"] f:1\n"},
        {"comment in column 0 only", "#NCCL_A=1\n #NCCL_B=2\nNCCL_C=3 # x\n",
         "[ #NCCL_B][2] f:2\n[NCCL_C][3 # x] f:3\n"},
        {"no equals sign", "NCCL_A\n\nNCCL_B=\n", "[NCCL_B][] f:3\n"},
        {"second equals sign", "NCCL_A=b=c\n", "[NCCL_A][b=c] f:1\n"},
        {"carriage return stays", "NCCL_A=x\r\n", "[NCCL_A][x\r] f:1\n"},
        {"first of a name wins", "NCCL_A=1\nNCCL_A=2\n", "[NCCL_A][1] f:1\n"},
        {"no name", "=1\n", ""},
        {"NUL ends the line", "NCCL_A=1\0=2\nNCCL_B\0=1\n"s, "[NCCL_A][1] f:1\n"},
        {"empty", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(shown(detect::parse_nccl_conf(row.text, "f")) == row.expected);
    }
    const auto values =
        detect::parse_nccl_conf(std::string(2000, 'N') + "=" + std::string(5000, 'v'), "f");
    REQUIRE(values.size() == 1);
    CHECK(values[0].name.size() == 1023);
    CHECK(values[0].value.size() == 1023);
}

TEST_CASE("the named file replaces the user's, the system's is always read") {
    const Tree tree;
    tree.write("/etc/passwd", passwd_line("/home/u"));
    tree.write("/home/u/.nccl.conf", "NCCL_A=user\n");
    tree.write("/etc/nccl.conf", "NCCL_A=system\nNCCL_B=system\n");
    tree.write("/opt/named.conf", "NCCL_B=named\n");
    const auto read = [&](const std::map<std::string, std::string>& environment) {
        return shown(detect::read_nccl_conf(tree.root(), environment));
    };
    const std::string without =
        "[NCCL_A][user] /home/u/.nccl.conf:1\n[NCCL_B][system] /etc/nccl.conf:2\n";
    CHECK(read({{"HOME", "/elsewhere"}}) == without);
    CHECK(read({{"NCCL_CONF_FILE", ""}}) == without);
    CHECK(read({{"NCCL_CONF_FILE", "/opt/named.conf"}}) ==
          "[NCCL_B][named] /opt/named.conf:1\n[NCCL_A][system] /etc/nccl.conf:1\n");
    CHECK(read({{"NCCL_CONF_FILE", "/missing"}}) ==
          "[NCCL_A][system] /etc/nccl.conf:1\n[NCCL_B][system] /etc/nccl.conf:2\n");
}

TEST_CASE("a user without a home has no file of his own") {
    const Tree tree;
    tree.write("/etc/passwd", "root:x:notanumber:0::/root:/bin/sh\n");
    tree.write("/root/.nccl.conf", "NCCL_A=1\n");
    CHECK(detect::read_nccl_conf(tree.root(), {}).empty());
}

}  // namespace toporun::tests
