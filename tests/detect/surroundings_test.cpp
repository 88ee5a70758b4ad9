#include "detect/software/surroundings.hpp"

#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;
using Names = std::vector<std::string>;

struct Seen {
    std::vector<std::pair<std::string, std::string>> files;
    Names variables;
};

Machine machine_of(const Seen& seen) {
    const Tree tree;
    for (const auto& [path, text] : seen.files) tree.write(path, text);
    detect::Sources sources;
    sources.root = tree.root();
    sources.variables = seen.variables;
    return detect::detect_machine(sources);
}

std::string mount(const std::string& root, const std::string& point, const std::string& type,
                  const std::string& options) {
    return "1 0 0:9 " + root + " " + point + " rw - " + type + " none " + options + "\n";
}

}  // namespace

TEST_CASE("the engine of a container is named by what it leaves behind") {
    struct Row {
        std::string name;
        Seen seen;
        const char* kind;
        bool container;
    };
    const Row rows[] = {
        {"host", {{{"/proc/self/cgroup", "0::/user.slice/x\n"}}, {}}, "", false},
        {"docker", {{{"/.dockerenv", ""}}, {}}, "docker", true},
        {"podman", {{{"/run/.containerenv", ""}}, {}}, "podman", true},
        {"apptainer", {{{"/.singularity.d/runscript", ""}}, {}}, "apptainer", true},
        {"docker as the engine of Kubernetes",
         {{{"/.dockerenv", ""}, {"/proc/self/cgroup", "0::/kubepods/pod1\n"}}, {}},
         "kubernetes",
         true},
        {"Kubernetes behind a namespace",
         {{{"/.dockerenv", ""}, {"/var/run/secrets/kubernetes.io/x", ""}}, {}},
         "kubernetes",
         true},
        {"Kubernetes by its variable",
         {{{"/.dockerenv", ""}}, {"KUBERNETES_SERVICE_HOST"}},
         "kubernetes",
         true},
        {"Apptainer in Kubernetes",
         {{}, {"KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER"}},
         "apptainer",
         true},
        {"containerd",
         {{{"/proc/self/cgroup", "0::/system.slice/containerd-1\n"}}, {}},
         "containerd",
         true},
        {"systemd's interface",
         {{{"/run/systemd/container", "systemd-nspawn\n"}}, {}},
         "systemd-nspawn",
         true},
        {"systemd's interface, empty", {{{"/run/systemd/container", ""}}, {}}, "", true},
        {"layers of the root",
         {{{"/proc/self/mountinfo", mount("/", "/", "overlay", "lowerdir=/var/lib/docker/l/A")}},
          {}},
         "docker",
         true},
        {"files handed in",
         {{{"/proc/self/mountinfo",
            mount("/var/lib/kubelet/pods/1/etc-hosts", "/etc/hosts", "ext4", "rw")}},
          {}},
         "kubernetes",
         true},
        {"root below the engine's directory",
         {{{"/proc/self/mountinfo", mount("/home/u/enroot/image", "/", "ext4", "rw")}}, {}},
         "enroot",
         true},
        {"a data mount of the host's engine",
         {{{"/proc/self/mountinfo", mount("/var/lib/docker", "/data", "ext4", "rw")}}, {}},
         "",
         false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Machine machine = machine_of(row.seen);
        CHECK(machine.software.container_kind == row.kind);
        CHECK(machine.container == row.container);
    }
}

TEST_CASE("the scheduler is known by its variables, else by its control group") {
    struct Row {
        std::string name;
        Seen seen;
        const char* scheduler;
    };
    const Row rows[] = {
        {"none", {}, ""},
        {"Slurm", {{}, {"PATH", "SLURM_JOB_ID"}}, "slurm"},
        {"PBS", {{}, {"PBS_JOBID"}}, "pbs"},
        {"OAR", {{}, {"OAR_JOB_ID"}}, "oar"},
        {"LSF", {{}, {"LSB_JOBID"}}, "lsf"},
        {"Slurm in Kubernetes", {{}, {"KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID"}}, "slurm"},
        {"Kubernetes", {{}, {"KUBERNETES_SERVICE_HOST"}}, "kubernetes"},
        {"Slurm's group, version 1",
         {{{"/proc/self/cgroup", "4:memory:/slurm/uid_1000/job_77/step_0\n"}}, {}},
         "slurm"},
        {"Slurm's group, version 2",
         {{{"/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_77/step_0\n"}}, {}},
         "slurm"},
        {"group of Slurm in a pod",
         {{{"/proc/self/cgroup", "4:memory:/kubepods/slurm/job_1\n"}}, {"KUBERNETES_SERVICE_HOST"}},
         "slurm"},
        {"pod", {{{"/proc/self/cgroup", "0::/kubepods.slice/x\n"}}, {}}, "kubernetes"},
        {"a name that only resembles", {{}, {"SLURM_JOB_ID_OLD", "MY_PBS_JOBID"}}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(machine_of(row.seen).software.scheduler == row.scheduler);
    }
}

TEST_CASE("the hypervisor has a name only inside a virtual machine") {
    const std::pair<std::string, std::string> guest = {"/proc/cpuinfo", "flags\t\t: hypervisor\n"};
    const std::string vendor = "/sys/class/dmi/id/sys_vendor";
    struct Row {
        std::string name;
        Seen seen;
        bool is_virtual;
        const char* hypervisor;
    };
    const Row rows[] = {
        {"bare metal of a cloud", {{{vendor, "Amazon EC2\n"}}, {}}, false, ""},
        {"guest of a cloud", {{guest, {vendor, "Amazon EC2\n"}}, {}}, true, "kvm"},
        {"QEMU", {{{vendor, "QEMU\n"}}, {}}, true, "kvm"},
        {"Azure",
         {{guest,
           {vendor, "Microsoft Corporation\n"},
           {"/sys/class/dmi/id/product_name", "Virtual Machine\n"}},
          {}},
         true,
         "microsoft"},
        {"Google",
         {{guest, {"/sys/class/dmi/id/product_name", "Google Compute Engine\n"}}, {}},
         true,
         "kvm"},
        {"VMware", {{guest, {vendor, "VMware, Inc.\n"}}, {}}, true, "vmware"},
        {"Xen", {{{"/sys/hypervisor/type", "xen\n"}}, {}}, true, "xen"},
        {"unnamed", {{guest}, {}}, true, ""},
        {"Arm on EC2",
         {{{vendor, "Amazon EC2\n"}, {"/sys/class/dmi/id/product_name", "g5g.16xlarge\n"}}, {}},
         true,
         "kvm"},
        {"bare machine of EC2",
         {{{vendor, "Amazon EC2\n"}, {"/sys/class/dmi/id/product_name", "g5g.metal\n"}}, {}},
         false,
         ""},
        {"bare machine of EC2 with a size",
         {{{vendor, "Amazon EC2\n"}, {"/sys/class/dmi/id/product_name", "m7g.metal-48xl\n"}}, {}},
         false,
         ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Machine machine = machine_of(row.seen);
        CHECK(machine.virtual_machine == row.is_virtual);
        CHECK(machine.software.hypervisor == row.hypervisor);
    }
}

}  // namespace toporun::tests
