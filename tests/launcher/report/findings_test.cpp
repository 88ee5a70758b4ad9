#include "launcher/report/findings.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace toporun::launcher {
namespace {

env::Diagnosis diagnosis() {
    env::Diagnosis made;
    made.findings = {
        {"shm-too-small", env::Severity::broken, "/dev/shm has 64 MiB", "df -h /dev/shm",
         "NCCL stops", "docker run --shm-size=8g", "", "or --ipc=\x1bhost"},
        {"rdma-port-slow", env::Severity::slow, "mlx5_1:1 runs at \x1b[31m200 Gb/s", "ibstat", "",
         "replace the cable\nreboot", "mlx5_1:1"},
    };
    made.checks = 90;
    made.not_made = 3;
    made.unknown = {"the memlock limit", "kernel.numa_balancing"};
    return made;
}

TEST_CASE("findings as JSON hold the contract's keys") {
    const auto json = nlohmann::json::parse(findings_json(diagnosis()));
    CHECK(json["schema"] == "toporun.findings/1");
    REQUIRE(json["findings"].size() == 2);
    CHECK(json["findings"][0] == nlohmann::json{{"id", "shm-too-small"},
                                                {"severity", "broken"},
                                                {"what", "/dev/shm has 64 MiB"},
                                                {"evidence", "df -h /dev/shm"},
                                                {"effect", "NCCL stops"},
                                                {"fix", "docker run --shm-size=8g"},
                                                {"remark", "or --ipc=\x1bhost"},
                                                {"where", nullptr}});
    CHECK(json["findings"][1]["remark"].is_null());
    CHECK(json["findings"][1]["where"] == "mlx5_1:1");
    CHECK(json["checks"]["total"] == 90);
    CHECK(json["checks"]["not_made"] == 3);
    CHECK(json["checks"]["unknown"].size() == 2);
}

TEST_CASE("bytes that are no UTF-8 do not break the JSON") {
    env::Diagnosis odd = diagnosis();
    odd.findings[0].what = "\xff\xfe";
    CHECK(nlohmann::json::parse(findings_json(odd))["findings"].size() == 2);
}

TEST_CASE("findings as text are safe for a terminal and end with a count") {
    CHECK(findings_text(diagnosis(), false) ==
          "broken  /dev/shm has 64 MiB  [shm-too-small]\n"
          "        seen:   df -h /dev/shm\n"
          "        effect: NCCL stops\n"
          "        fix:    docker run --shm-size=8g\n"
          "        remark: or --ipc=\\x1bhost\n"
          "\n"
          "slow    mlx5_1:1 runs at \\x1b[31m200 Gb/s  [rdma-port-slow]\n"
          "        where:  mlx5_1:1\n"
          "        seen:   ibstat\n"
          "        fix:    replace the cable\\x0areboot\n"
          "\n"
          "1 broken, 1 slow: 90 checks, 3 of them could not be made (not known: the memlock limit, "
          "kernel.numa_balancing)\n");
    CHECK(findings_text(diagnosis(), true).starts_with("\033[31mbroken\033[0m  "));
}

TEST_CASE("notes of captures are counted, with the command that shows them") {
    env::Diagnosis noted = diagnosis();
    noted.findings.clear();
    noted.unknown.clear();
    noted.not_made = 0;
    noted.notes = {"the NIC legend is missing", "2 lines were not understood"};
    CHECK(findings_text(noted, false, "toporun detect --from a.txt") ==
          "nothing found: 90 checks\n"
          "the capture has 2 notes: toporun detect --from a.txt shows them\n");
    CHECK(findings_text(noted, false) == "nothing found: 90 checks\n");
    CHECK(nlohmann::json::parse(findings_json(noted))["notes"] ==
          nlohmann::json{"the NIC legend is missing", "2 lines were not understood"});
    CHECK(nlohmann::json::parse(findings_json(diagnosis()))["notes"] == nlohmann::json::array());
}

TEST_CASE("nothing found is one line") {
    env::Diagnosis none;
    none.checks = 90;
    CHECK(findings_text(none, true) == "nothing found: 90 checks\n");
}

TEST_CASE("the list of checks is told by family, in lines of at most 100 characters") {
    const std::string text = check_list_text();
    CHECK(text.find("\nnvlink\n") != std::string::npos);
    CHECK(text.find("  nvlink-links-down (slow)\n      ") != std::string::npos);
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        CHECK(end - begin <= 100);
    const auto json = nlohmann::json::parse(check_list_json());
    CHECK(json["schema"] == "toporun.checks/1");
    CHECK(json["checks"].size() == env::check_list().size());
    CHECK(json["checks"][0].contains("explanation"));
}

}  // namespace
}  // namespace toporun::launcher
