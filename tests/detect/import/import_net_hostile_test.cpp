#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "detect/import/formats.hpp"
#include "detect/import/json_entries.hpp"
#include "files.hpp"

// Input that nobody would print: neither a crash nor more than it is worth. A hang is the time
// limit of the test.
namespace toporun::detect {
namespace {

using Factory = Importer (*)();

const std::vector<Factory> kImporters = {ip_json_importer,      ip_addr_importer,
                                         ip_brief_importer,     ifconfig_importer,
                                         ibstat_importer,       ibv_devinfo_importer,
                                         ibdev2netdev_importer, rdma_link_importer,
                                         show_gids_importer,    sys_class_infiniband_importer,
                                         ip_route_importer,     ethtool_importer,
                                         lscpu_importer,        numactl_importer,
                                         ulimit_importer,       df_importer};

std::string repeated(std::size_t bytes, const std::string& piece) {
    std::string out;
    while (out.size() < bytes) out += piece;
    return out;
}

/// Reads with every importer that recognises the text. Returns how many Nics came out.
std::size_t read_with_all(const std::string& text) {
    const Lines lines = read_lines(text, "capture");
    std::size_t nics = 0;
    for (const Factory factory : kImporters) {
        const Importer importer = factory();
        if (!importer.recognise(lines)) continue;
        try {
            const Reading reading = importer.read(lines);
            CHECK(reading.understood.size() == lines.lines.size());
            nics += reading.machine.nics.size();
        } catch (const Error& error) {
            CHECK(error.where().starts_with("capture:"));
        }
    }
    return nics;
}

/// Enough for anything that grows with the square of the size to reach the time limit.
constexpr std::size_t kMuch = std::size_t{1} << 17;

TEST_CASE("much of one piece is read in its time") {
    for (const std::string piece : {"[",
                                    "{",
                                    "[{",
                                    "[{\"",
                                    "[{\"ifname\":",
                                    "[{\"ifname\":\"a\"},",
                                    "[{}, ",
                                    "[   ",
                                    "\"ifname\"[{\"a\":[",
                                    "1: a: <",
                                    "1: a: <\n",
                                    "1: a: <UP> mtu 5\n",
                                    "<UP,",
                                    "\\",
                                    "1: a inet 1.1.1.1/8\\",
                                    "a UP\n",
                                    "eth0 UP 1.1.1.1 ",
                                    "eth0: flags=1<UP> mtu 1\n",
                                    "inet addr:1.1.1.1\n",
                                    "CA 'a'\n",
                                    "CA 'a'\n Port 1:\n",
                                    "hca_id: a\nport: 1\n",
                                    "GID[ 1]: fe80::1\n",
                                    "a port 1 ==> b (Up)\n",
                                    "==>",
                                    "link a/1 state b\n",
                                    "a 1 1 fe80::1 v2 b\n",
                                    "a/ports/1/gids/1:fe80::1\n",
                                    "a/ports/1/counters/x:1\n",
                                    "default dev a\n",
                                    "1.1.1.1 dev a src 1.1.1.1\n",
                                    "Settings for a:\n",
                                    "Socket(s): 1\nNUMA node0 CPU(s): 0-65535\n",
                                    "node 1 cpus: 0-65535\n",
                                    "node distances:\n",
                                    " 0: 1 1 1 1\n",
                                    "a (kbytes, -l) 5\n",
                                    "a 1 1 1 1% /dev/shm\n",
                                    "\t",
                                    "\n",
                                    "\r",
                                    "\x1b[",
                                    "\xff",
                                    "@",
                                    ":",
                                    "/"}) {
        CAPTURE(piece);
        read_with_all(repeated(kMuch, piece));
        read_with_all("[{\"ifname\":\"a\"}]\n" + repeated(kMuch / 4, piece));
        read_with_all("1: lo: <UP> mtu 5 state UP\n" + repeated(kMuch / 4, piece));
        read_with_all("hca_id: mlx5_0\n port: 1\n" + repeated(kMuch / 4, piece));
    }
}

TEST_CASE("public captures of other tools and logs are not taken for these") {
    const std::filesystem::path shared(TOPORUN_SHARED);
    if (!std::filesystem::exists(shared / "data")) {
        MESSAGE("skipped: there is no " << (shared / "data").string());
        return;
    }
    for (const std::string folder : {"data/topo-m", "data/nccl-logs", "data/nccl-topo-xml",
                                     "data/hwloc-xml", "data/slurm", "logs"}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(shared / folder)) {
            if (!entry.is_regular_file()) continue;
            const std::string text = tests::read_file(entry.path());
            const Lines lines = read_lines(text, "capture");
            CAPTURE(entry.path().string());
            for (const Factory factory : kImporters) {
                CAPTURE(factory().format);
                CHECK_FALSE(factory().recognise(lines));
            }
        }
    }
}

TEST_CASE("many different interfaces are all read") {
    std::string text;
    for (int i = 1; i <= 20'000; ++i)
        text += fmt::format("{}: eth{}: <UP,LOWER_UP> mtu 1500 state UP\n", i, i);
    CHECK(read_with_all(text) == 20'000);
}

TEST_CASE("brackets beyond every tool's depth are no entry") {
    const std::string text = "[{\"ifname\":\"lo\"},{\"ifname\":\"a\",\"x\":" + repeated(100, "[");
    const Lines lines = read_lines(text, "capture");
    REQUIRE(ip_json_importer().recognise(lines));
    const JsonEntries found = json_entries(lines);
    REQUIRE(found.entries.size() == 2);
    CHECK(found.entries[0].complete);
    CHECK_FALSE(found.entries[1].complete);
    CHECK(ip_json_importer().read(lines).machine.nics.size() == 1);
}

TEST_CASE("wrong types of JSON values are unknown facts") {
    const std::string text =
        R"([{"ifname":"a","ifindex":-5,"mtu":1e99,"flags":7,"addr_info":{},"linkinfo":[],"link":3,)"
        R"("operstate":null,"master":{}},{"ifname":5},{"ifname":"b","ifindex":18446744073709551615,)"
        R"("mtu":99999999999,"flags":[1,null,"UP"],"addr_info":[1,{"local":7},{"local":"10.0.0.1",)"
        R"("prefixlen":"x"}]},{"ifname":"no/name"},{"ifname":"","addr_info":[]}])";
    const Lines lines = read_lines(text, "capture");
    const Reading reading = ip_json_importer().read(lines);
    REQUIRE(reading.machine.nics.size() == 2);
    CHECK(reading.machine.nics[0].os_index == 0);
    CHECK_FALSE(reading.machine.nics[0].mtu);
    CHECK(reading.machine.nics[0].state == "unknown");
    CHECK(reading.machine.nics[1].os_index == 0);
    CHECK(reading.machine.nics[1].addresses == std::vector<std::string>{"10.0.0.1"});
}

TEST_CASE("JSON that holds no entry is refused with line and column") {
    const std::string text = "output:\n  [{\"ifname\": oops}]\n";
    const Lines lines = read_lines(text, "capture");
    REQUIRE(ip_json_importer().recognise(lines));
    try {
        ip_json_importer().read(lines);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.where() == "capture:2:15");
        CHECK(std::string(error.what()) == "not JSON");
    }
}

TEST_CASE("an entry with a number that is too large is left out") {
    const std::string text = "[{\"ifname\":\"eth0\",\"mtu\":1e999},{\"ifname\":\"eth1\"}]\n";
    const Reading reading = ip_json_importer().read(read_lines(text, "capture"));
    REQUIRE(reading.machine.nics.size() == 1);
    CHECK(reading.machine.nics[0].name == "eth1");
    REQUIRE(reading.machine.notes.size() == 1);
    CHECK(reading.machine.notes[0].find("a number is larger than any can be") != std::string::npos);
    CHECK_THROWS_AS(ip_json_importer().read(read_lines("[{\"ifname\":\"a\",\"x\":-1e999}]", "c")),
                    Error);
}

}  // namespace
}  // namespace toporun::detect
