#include <doctest/doctest.h>

#include "facts.hpp"
#include "files.hpp"
#include "launcher/report/json.hpp"
#include "launcher/report/report.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;

TEST_CASE("the report of eight GPUs above the limit") {
    check_golden(report_text(eight_gpu_run()), "report/eight-gpus.txt");
    check_golden(report_json(eight_gpu_run()), "report/eight-gpus.json");
}

TEST_CASE("the report of a CPU ring below the limit") {
    check_golden(report_text(ring_run()), "report/ring.txt");
    check_golden(report_json(ring_run()), "report/ring.json");
}

TEST_CASE("the report of a program without NCCL") {
    check_golden(report_text(plain_run()), "report/plain.txt");
    check_golden(report_json(plain_run()), "report/plain.json");
}
