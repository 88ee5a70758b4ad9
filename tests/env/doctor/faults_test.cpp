#include <set>

#include "faults.hpp"

namespace toporun::tests {
namespace {

std::vector<Fault> all_rows() {
    std::vector<Fault> all;
    for (const auto& rows :
         {interface_faults(), rdma_faults(), gpu_faults(), system_faults(), setting_faults()})
        all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

TEST_CASE("each check speaks of its fault and is silent without it") {
    for (const Fault& row : all_rows()) {
        CAPTURE(row.id);
        CAPTURE(row.name);
        Patient patient;
        patient.machine = row.healthy();
        CHECK_FALSE(has(examine(patient.machine, patient.user, patient.job), row.id));
        row.harm(patient);
        const auto diagnosis = examine(patient.machine, patient.user, patient.job);
        REQUIRE(has(diagnosis, row.id));
        const env::Finding found = finding(diagnosis, row.id);
        CHECK(env::severity_text(found.severity) == env::severity_text(row.severity));
        CHECK_FALSE(found.what.empty());
        CHECK_FALSE(found.evidence.empty());
        CHECK_FALSE(found.effect.empty());
        CHECK_FALSE(found.fix.empty());
    }
}

TEST_CASE("GPUs that a job was not given are no fault of the board") {
    for (const std::string scheduler :
         {"slurm", "pbs", "lsf", "flux", "htcondor", "cobalt", "sge", "oar", "kubernetes"}) {
        CAPTURE(scheduler);
        Machine machine = healthy_node();
        drop_gpus(machine, 2);
        REQUIRE(has(examine(machine), "gpu-count-odd"));
        machine.software.scheduler = scheduler;
        CHECK_FALSE(has(examine(machine), "gpu-count-odd"));
    }
}

TEST_CASE("variables are judged by the value that NCCL sees") {
    struct Row {
        std::string name, value, id;  ///< "" = nothing is said
        std::string version = "2.28.9";
    };
    const std::vector<Row> rows = {
        {"NCCL_LAUNCH_MODE", "GROUP", "variable-dangerous"},
        {"NCCL_LAUNCH_MODE", "group", "variable-dangerous"},
        {"NCCL_LAUNCH_MODE", "PARALLEL", ""},
        {"NCCL_IB_GID_INDEX", "-1", ""},
        {"NCCL_IB_GID_INDEX", "0", "variable-obsolete"},
        {"NCCL_IB_GID_INDEX", "3", "variable-obsolete"},
        {"NCCL_IB_GID_INDEX", "3", "", "2.20.5"},
        {"NCCL_DEBUG", "trace", "variable-for-debugging"},
        {"NCCL_DEBUG", "INFO", ""},
        {"NCCL_DEBUG_SUBSYS", "INIT,COLL", "variable-for-debugging"},
        {"NCCL_DEBUG_SUBSYS", "INIT,ENV", ""},
        {"NCCL_DEBUG_SUBSYS", "^COLL", ""},
        {"NCCL_THREAD_THRESHOLDS", "64 64 64 64 64 64", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CAPTURE(row.value);
        Patient patient;
        patient.machine.software.nccl_version = row.version;
        set(patient, row.name, row.value);
        const auto diagnosis = examine(patient.machine, patient.user, doctor_job(2, 8));
        for (const std::string_view id :
             {"variable-dangerous", "variable-obsolete", "variable-for-debugging"}) {
            CAPTURE(id);
            CHECK(has(diagnosis, id) == (id == row.id));
        }
    }
}

TEST_CASE("every check of the list has a row here, unless decide finds it") {
    std::set<std::string> known;
    for (const Fault& row : all_rows()) known.insert(row.id);
    for (const env::CheckInfo& check : env::check_list()) {
        CAPTURE(check.id);
        if (check.family == "decision") continue;
        CHECK(known.contains(std::string(check.id)));
    }
}

TEST_CASE("no finding is graver than its check announces") {
    for (const Fault& row : all_rows())
        for (const env::CheckInfo& check : env::check_list())
            if (check.id == row.id) {
                CAPTURE(row.id);
                CHECK(check.worst <= row.severity);
            }
}

}  // namespace
}  // namespace toporun::tests
