#include "launcher/report/machine_graph.hpp"

#include <array>
#include <cstdio>

#include "base/text.hpp"
#include "files.hpp"
#include "known_machines.hpp"
#include "sample_machines.hpp"

namespace toporun::tests {
namespace {

std::vector<std::pair<std::string, detect::Machine>> drawn_machines() {
    std::vector<std::pair<std::string, detect::Machine>> machines = known_machines();
    for (auto& sample : sample_machines()) machines.push_back(std::move(sample));
    return machines;
}

/// A machine whose every text tries to get out of a DOT string and to act on a terminal.
detect::Machine hostile_machine() {
    const std::string hostile = "\"]; x -- y [label=\"\\\" \x1b[2J\n\xff<b>";
    detect::Machine machine = hgx_machine();
    machine.hostname = machine.gpus[0].name = machine.gpus[1].name = hostile;
    machine.nics[1].rdma_device = machine.nics[1].name = machine.nics[2].name = hostile;
    machine.software.nccl_version = "\\";
    return machine;
}

/// Exit status of `dot` for the graph; nothing when there is no `dot`.
std::optional<int> dot_status(const std::string& graph) {
    if (std::system("command -v dot >/dev/null 2>&1") != 0) return std::nullopt;
    const TemporaryDirectory directory;
    const std::string file = directory.write("machine.dot", graph).string();
    return std::system(("timeout 60 dot -Tcanon " + file + " >/dev/null 2>&1").c_str());
}

}  // namespace

TEST_CASE("the drawing of each machine is as reviewed") {
    for (const auto& drawn : drawn_machines())
        check_golden(launcher::machine_drawing(drawn.second, launcher::Strokes::box),
                     "report/drawing/" + drawn.first + ".txt");
    check_golden(launcher::machine_drawing(hgx_machine(), launcher::Strokes::ascii),
                 "report/drawing/hgx-ascii.txt");
}

TEST_CASE("the graph of a machine is as reviewed") {
    const auto machines = known_machines();
    for (const auto& drawn : machines)
        if (drawn.first == "four-a6000" || drawn.first == "gb200-tray")
            check_golden(launcher::machine_dot(drawn.second),
                         "report/drawing/" + drawn.first + ".dot");
}

TEST_CASE("Graphviz reads the graph of every machine") {
    auto machines = drawn_machines();
    machines.emplace_back("hostile", hostile_machine());
    for (const auto& drawn : machines) {
        const std::string& name = drawn.first;
        CAPTURE(name);
        const auto status = dot_status(launcher::machine_dot(drawn.second));
        if (!status) {
            MESSAGE("skipped: no dot (Graphviz) on this machine");
            return;
        }
        CHECK(*status == 0);
    }
}

TEST_CASE("a drawing in ASCII has no other bytes and none has control bytes") {
    for (const auto& machine : {hgx_machine(), hostile_machine(), workstation()}) {
        for (const char c : launcher::machine_drawing(machine, launcher::Strokes::ascii))
            CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
        for (const char c : launcher::machine_dot(machine))
            CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
    }
}

TEST_CASE("lines of a drawing are at most a hundred columns wide") {
    for (const auto& drawn : known_machines()) {
        const std::string& name = drawn.first;
        CAPTURE(name);
        const std::string text = launcher::machine_drawing(drawn.second, launcher::Strokes::ascii);
        const std::size_t first = text.find('+');  // the machine line may be longer
        for (const std::string& line : split(text.substr(std::min(first, text.size())), '\n'))
            CHECK(line.size() <= 100);
    }
}

TEST_CASE("adapters of unknown kind are drawn where their paths say") {
    detect::Machine machine = hgx_machine();
    for (detect::Nic& each : machine.nics) {
        each.kind = detect::NicKind::other;
        each.rdma_device.reset();
        each.speed_gbits.reset();
    }
    const std::string text = launcher::machine_drawing(machine, launcher::Strokes::ascii);
    CHECK(text.find("| ib3 ") != std::string::npos);
    CHECK(text.find("| eth0 ") == std::string::npos);  // no path, no kind
}

TEST_CASE("devices of unknown NUMA nodes share a frame unless paths tell them apart") {
    struct Row {
        const char* name;
        std::optional<PathType> within;   ///< path of GPUs 0-3 and of 4-7; nothing = no paths
        std::optional<PathType> between;  ///< of one half to the other
        std::size_t frames;
        bool sys;
    };
    const Row rows[] = {
        {"no paths", {}, {}, 1, false},
        {"NVLink tells nothing of CPUs", PathType::NVL, PathType::NVL, 1, false},
        {"hives", PathType::NVL, PathType::SYS, 1, false},
        {"every pair far", PathType::SYS, PathType::SYS, 1, false},
        {"two CPUs", PathType::PHB, PathType::SYS, 2, true},
        {"two CPUs, far pairs not told", PathType::PHB, PathType::DIS, 1, false},
        {"two CPUs, far pairs by NVLink", PathType::PHB, PathType::NVL, 1, false},
        {"two switches", PathType::PIX, PathType::SYS, 2, true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        detect::Machine machine;
        machine.gpus.resize(8);
        for (int i = 0; i < 8; ++i) machine.gpus[static_cast<std::size_t>(i)].index = i;
        if (row.within) machine.gpu_paths.assign(8, std::vector(8, *row.between));
        for (std::size_t a = 0; row.within && a < 8; ++a)
            for (std::size_t b = 0; b < 8; ++b)
                if (a == b)
                    machine.gpu_paths[a][b] = PathType::LOC;
                else if (a / 4 == b / 4)
                    machine.gpu_paths[a][b] = *row.within;
        const std::string text = launcher::machine_drawing(machine, launcher::Strokes::ascii);
        CHECK(split(text, '\n').size() > 8);
        std::size_t frames = 0;
        for (const std::string& line : split(text, '\n'))
            if (line.find("NUMA node unknown") != std::string::npos) ++frames;
        CHECK(frames == row.frames);
        CHECK((text.find("| SYS\n") != std::string::npos) == row.sys);
        CHECK(text.find("reach each other") == std::string::npos);
        CHECK((launcher::machine_dot(machine).find("label=\"SYS\"") != std::string::npos) ==
              row.sys);
    }
}

TEST_CASE("an adapter lies on the node of the GPUs that it reaches through their CPU") {
    detect::Machine machine = hgx_machine();
    for (detect::Nic& each : machine.nics) each.numa_node.reset();
    for (std::size_t gpu = 0; gpu < 8; ++gpu)
        for (std::size_t n = 0; n < machine.nics.size(); ++n)
            if (auto& path = machine.gpu_nic_paths[gpu][n]; path && *path < PathType::PHB)
                path = PathType::PHB;
    const std::string text = launcher::machine_drawing(machine, launcher::Strokes::ascii);
    CHECK(text.find("NUMA node unknown") == text.rfind("NUMA node unknown"));  // eth0 alone
    CHECK(text.find("mlx5_0") < text.find("NUMA node 1"));
    CHECK(text.find("mlx5_3") > text.find("NUMA node 1"));
}

TEST_CASE("matrices of another shape than the lists are not drawn") {
    detect::Machine machine = hgx_machine();
    machine.gpu_paths.pop_back();
    machine.gpu_links[0].clear();
    machine.gpu_nic_paths.clear();
    machine.gpu_path_gbytes_per_s = {{}};
    const std::string text = launcher::machine_drawing(machine, launcher::Strokes::ascii);
    CHECK(text.find("PCIe switch") == std::string::npos);
    CHECK(text.find("GPU 7") != std::string::npos);
    CHECK(launcher::machine_dot(machine).find("gpu7") != std::string::npos);
}

}  // namespace toporun::tests
