#include <regex>
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

TEST_CASE("guests of Google without GPU adapters need no plugin of Google's") {
    for (const auto& [name, wanted] :
         std::vector<std::pair<std::string, bool>>{{"NVIDIA H200", true},
                                                   {"NVIDIA B200", true},
                                                   {"NVIDIA A100-SXM4-80GB", false},
                                                   {"NVIDIA RTX PRO 6000 Blackwell", false}}) {
        CAPTURE(name);
        Machine machine = healthy_node();
        machine.virtual_machine = true;
        machine.product = "Google Compute Engine";
        for (detect::Gpu& gpu : machine.gpus) {
            gpu.name = name;
            gpu.compute_capability.reset();
        }
        CHECK(has(examine(machine, {}, doctor_job(2)), "google-plugin-missing") == wanted);
    }
}

TEST_CASE("what a hypervisor shows of an adapter's link is a note at most") {
    Machine machine = healthy_node();
    machine.nics.back().pcie_width_now = 4;
    CHECK(finding(examine(machine), "nic-pcie-slow").severity == slow);
    machine.virtual_machine = true;
    CHECK(finding(examine(machine), "nic-pcie-slow").severity == note);
}

TEST_CASE("the fabric manager is asked for on boards that have switches") {
    struct Row {
        std::string name;
        int count;
        bool switches;
    };
    for (const Row& row : std::vector<Row>{{"NVIDIA H100 80GB HBM3", 8, true},
                                           {"NVIDIA A100-SXM4-80GB", 4, false},
                                           {"Tesla V100-SXM2-32GB", 8, false},
                                           {"Tesla V100-SXM3-32GB", 16, true}}) {
        CAPTURE(row.name);
        Machine machine = host(2, 56);
        add_gpus(machine, row.count, row.name, PathType::SYS);
        add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
        const std::string fix = finding(examine(machine), "nvlink-missing").fix;
        CHECK((fix == "systemctl start nvidia-fabricmanager") == row.switches);
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

TEST_CASE("a fix that begins with a command is a command to its end") {
    const std::regex command(
        "(dmesg|docker|ethtool|export|ibstat|ip|ls|modprobe|mount|mpirun|nvidia-smi|perfquery|pip|"
        "rmmod|setpci|show_gids|source|srun|sysctl|systemctl|ulimit|unset) .*");
    const std::regex words("[,:] | (if|or|and|then|of|for|where|with|on|the) |[()]");
    int commands = 0;
    for (const Fault& row : all_rows()) {
        Patient patient;
        patient.machine = row.healthy();
        row.harm(patient);
        const env::Finding found =
            finding(examine(patient.machine, patient.user, patient.job), row.id);
        CAPTURE(row.id);
        CAPTURE(found.fix);
        if (row.id == "known-bad" || !std::regex_match(found.fix, command)) continue;
        ++commands;
        CHECK_FALSE(std::regex_search(found.fix, words));
    }
    CHECK(commands > 40);
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
