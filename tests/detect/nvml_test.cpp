#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "base/helper_process.hpp"
#include "detect/files.hpp"
#include "detect/gpu/gpu_links.hpp"
#include "detect/gpu/nvml_report.hpp"
#include "detect/machine_toml.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;
using detect::PathType;
using detect::PeerAccess;
using namespace std::chrono_literals;

/// A helper that sends one text.
HelperResult run_helper(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                        std::size_t most_bytes) {
    return toporun::run_helper([&](const HelperOutput& send) { send(work()); }, limit, most_bytes);
}

/// Eight GPUs, two to a switch, four switches to a package, NVSwitches beside them.
std::string eight_gpus(const Tree& tree) {
    std::string configuration;
    for (int i = 0; i < 8; ++i) {
        const std::string domain = i < 4 ? "0000" : "0001";
        const std::string bus = std::to_string(i / 2 % 2 * 4 + 1);
        const std::string upstream = "pci" + domain + ":00/" + domain + ":00:0" + bus + ".0/" +
                                     domain + ":0" + bus + ":00.0";
        if (i % 2 == 0) {
            tree.bridge(upstream.substr(0, upstream.rfind('/')));
            tree.bridge(upstream);
        }
        const std::string slot = std::to_string(i % 2);
        const std::string port = upstream + "/" + domain + ":1" + bus + ":0" + slot + ".0";
        tree.bridge(port);
        const std::string id = domain + ":" + (i % 2 == 0 ? "2" : "3") + bus + ":00.0";
        tree.gpu(port + "/" + id, i / 4);
        configuration += "gpu 0000" + id + " NVIDIA H100 80GB HBM3\n";
    }
    tree.pci("pci0000:00/0000:99:00.0", "0x068000", "0x10de");
    for (int i = 0; i < 8; ++i)
        configuration += "link " + std::to_string(i) + " 00000000:99:00.0 18\n";
    return configuration;
}

Machine detect_with(const Tree& tree, const StubNvml& stub,
                    std::chrono::milliseconds limit = 10'000ms) {
    detect::Sources sources;
    sources.root = tree.root();
    sources.nvml_library = stub.path();
    sources.nvml_limit = limit;
    return detect::detect_machine(sources);
}

}  // namespace

TEST_CASE("eight GPUs with NVSwitch are all NVL with their links") {
    const Tree tree;
    const StubNvml stub(eight_gpus(tree));
    const Machine machine = detect_with(tree, stub);
    REQUIRE(machine.gpus.size() == 8);
    CHECK(machine.nvswitch);
    CHECK(machine.software.driver == "570.1.2");
    for (std::size_t a = 0; a < 8; ++a)
        for (std::size_t b = 0; b < 8; ++b) {
            CHECK(machine.gpu_paths[a][b] == (a == b ? PathType::LOC : PathType::NVL));
            CHECK(machine.gpu_links[a][b] == (a == b ? 0 : 18));
            CHECK(machine.peer_access[a][b] == PeerAccess::ok);
        }
    const detect::Gpu& gpu = machine.gpus[4];
    CHECK(gpu.index == 4);
    CHECK(gpu.name == "NVIDIA H100 80GB HBM3");
    CHECK(gpu.pci->text() == "0001:21:00.0");
    CHECK(gpu.numa_node == 1);
    CHECK(gpu.memory_bytes == 80ull << 30);
    CHECK(gpu.compute_capability == 90);
    CHECK(gpu.pcie_generation == 5);
    CHECK(gpu.pcie_width == 16);
    CHECK(gpu.mig == false);
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("links to hidden switches count as NVSwitch and links that are down do not count") {
    const Tree tree;
    const StubNvml stub(
        "gpu 00000000:18:00.0 A\ngpu 00000000:19:00.0 A\n"
        "link 0 hidden 4\ndown 0 2\nlink 1 hidden 6\n");
    const Machine machine = detect_with(tree, stub);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.nvswitch);
    CHECK(machine.gpu_links[0][1] == 4);
    CHECK(machine.gpu_links[1][0] == 4);
    CHECK(has_note(machine, "GPU 0: 2 of 6 NVLinks are down"));
}

TEST_CASE("a pair without links goes through a third GPU") {
    const Tree tree;
    const StubNvml stub(
        "gpu 00000000:18:00.0 V100\ngpu 00000000:19:00.0 V100\ngpu 00000000:1a:00.0 V100\n"
        "gpu 00000000:1b:00.0 V100\n"
        "link 0 00000000:19:00.0 2\nlink 1 00000000:18:00.0 2\n"
        "link 1 00000000:1A:00.0 1\nlink 2 00000000:19:00.0 1\n");
    const Machine machine = detect_with(tree, stub);
    REQUIRE(machine.gpu_paths.size() == 4);
    CHECK_FALSE(machine.nvswitch);
    CHECK(machine.gpu_paths[0][1] == PathType::NVL);
    CHECK(machine.gpu_links[1][2] == 1);
    CHECK(machine.gpu_paths[0][2] == PathType::NVB);
    CHECK(machine.gpu_links[0][2] == 0);
    CHECK(machine.gpu_paths[0][3] == PathType::SYS);  // NVML's common ancestor: no PCI tree here
}

TEST_CASE("linked pairs have their path also where nothing tells the PCI tree") {
    const Tree tree;
    const std::string two = "gpu 00000000:18:00.0 A\ngpu 00000000:19:00.0 A\nmode no-ancestor\n";
    const StubNvml linked(two + "link 0 hidden 12\nlink 1 hidden 12\n");
    CHECK(detect_with(tree, linked).gpu_paths.at(0).at(1) == PathType::NVL);
    const StubNvml apart(two);
    CHECK(detect_with(tree, apart).gpu_paths.empty());
    CHECK(has_note(detect_with(tree, apart), "paths between GPUs are unknown"));
}

TEST_CASE("a hidden far end counts as NCCL counts it, its kind by the driver's word") {
    struct Row {
        std::string name, kind;
        bool nvswitch;
    };
    for (const Row& row : std::vector<Row>{{"no word", "", true},
                                           {"a switch", "2", true},
                                           {"a GPU of the host", "0", false},
                                           {"a CPU", "1", false}}) {
        CAPTURE(row.name);
        const Tree tree;
        std::string text =
            "gpu 00000000:18:00.0 A\ngpu 00000000:19:00.0 A\nlink 0 hidden 6\nlink 1 hidden 6\n";
        for (const std::string gpu : {"0", "1"})
            if (!row.kind.empty()) text += "set " + gpu + " link-kind " + row.kind + "\n";
        const Machine machine = detect_with(tree, StubNvml(text));
        CHECK(machine.nvswitch == row.nvswitch);
        CHECK(machine.gpu_links.at(0).at(1) == 6);
    }
}

TEST_CASE("GPUs of the bus that NVML does not show are counted") {
    const Tree tree;
    for (const std::string bus : {"18", "19", "1a"})
        tree.pci("pci0000:00/0000:" + bus + ":00.0", "0x030200", "0x10de");
    const StubNvml stub("gpu 00000000:18:00.0 A\ngpu 00000000:19:00.0 A\n");
    const Machine machine = detect_with(tree, stub);
    CHECK(machine.software.gpus_withheld == 1);
    CHECK(has_note(machine, "GPU 0000:1a:00.0 is on the PCI bus but not given to this job"));
}

TEST_CASE("what stands at the far end of a link decides") {
    struct Row {
        std::string name;
        std::string pci_class;  // "" = not in sysfs
        bool nvswitch;
    };
    const Row rows[] = {{"switch", "0x068000", true},
                        {"not visible", "", true},
                        {"POWER9 CPU", "0x068001", false},
                        {"GPU of another job", "0x030200", false}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        if (!row.pci_class.empty()) tree.pci("pci0000:00/0000:99:00.0", row.pci_class, "0x10de");
        const StubNvml stub(
            "gpu 00000000:18:00.0 A\ngpu 00000000:19:00.0 A\n"
            "link 0 00000000:99:00.0 6\nlink 1 00000000:99:00.0 6\n");
        const Machine machine = detect_with(tree, stub);
        CHECK(machine.nvswitch == row.nvswitch);
        CHECK(machine.gpu_links.at(0).at(1) == (row.nvswitch ? 6 : 0));
    }
}

TEST_CASE("peer access refused by the driver is told for each pair") {
    const Tree tree;
    const StubNvml stub("gpu 00000000:18:00.0 RTX\ngpu 00000000:19:00.0 RTX\np2p refused\n");
    CHECK(detect_with(tree, stub).peer_access[0][1] == PeerAccess::refused);
    const StubNvml silent("gpu 00000000:18:00.0 RTX\ngpu 00000000:19:00.0 RTX\np2p unsupported\n");
    CHECK(detect_with(tree, silent).peer_access.empty());
}

TEST_CASE("a GPU that does not answer keeps its index and is noted") {
    const Tree tree;
    const StubNvml stub("gpu lost A\ngpu 00000000:19:00.0 A\n");
    const Machine machine = detect_with(tree, stub);
    REQUIRE(machine.gpus.size() == 2);
    CHECK_FALSE(machine.gpus[0].pci);
    CHECK(machine.gpus[1].pci->text() == "0000:19:00.0");
    CHECK(has_note(machine, "GPU 0 does not answer"));
}

TEST_CASE("each NVML failure is one note and leaves the GPUs of the bus") {
    struct Row {
        std::string name;
        const char* configuration;
        const char* library;
        const char* note;
    };
    const Row rows[] = {
        {"absent", "", "/nonexistent/libnvidia-ml.so.1", "library not loaded"},
        {"no library", "", "/dev/null", "library not loaded"},
        {"symbol", "", TOPORUN_STUB_WITHOUT_INIT, "lacks the symbol nvmlInit_v2"},
        {"mismatch", "init 18", TOPORUN_STUB,
         "nvmlInit failed: Driver/library version mismatch (18)"},
        {"count", "count 999", TOPORUN_STUB, "counting GPUs failed: Driver Not Loaded (999)"},
        {"hang", "mode hang", TOPORUN_STUB, "no answer within 50 ms"},
        {"crash", "mode crash", TOPORUN_STUB, "ended by signal 11"},
        {"silent end", "mode exit", TOPORUN_STUB, "the answer cannot be understood"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.gpu("pci0000:00/0000:00:05.0", 0);
        const StubNvml stub(row.configuration, row.library);
        const bool hangs = row.name == "hang";
        const Machine machine = detect_with(tree, stub, hangs ? 50ms : 10'000ms);
        REQUIRE(machine.gpus.size() == 1);
        CHECK(machine.gpus[0].pci->text() == "0000:00:05.0");
        CHECK(has_note(machine, row.note));
    }
}

TEST_CASE("garbage from NVML is cut to what can be true") {
    const Tree tree;
    const StubNvml stub("gpu 00000000:18:00.0 A\nlink 0 hidden 18\nmode garbage\n");
    const Machine machine = detect_with(tree, stub);
    CHECK(machine.gpus.size() == detect::kMostNvmlGpus);
    CHECK_FALSE(machine.gpus[0].pci);
    CHECK_FALSE(machine.gpus[0].compute_capability);
    CHECK(machine.gpus[0].name.find_first_not_of('?') == std::string::npos);
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("a report of wrong size, mark or count is refused") {
    detect::NvmlReport report{};
    report.magic = detect::kNvmlReportMagic;
    const auto decode = [&] {
        return detect::decode_nvml_report({reinterpret_cast<const char*>(&report), sizeof report});
    };
    CHECK(decode() != nullptr);
    CHECK(detect::decode_nvml_report("") == nullptr);
    CHECK(detect::decode_nvml_report(std::string(sizeof report, '\xff')) == nullptr);
    CHECK(detect::decode_nvml_report(std::string(sizeof report - 1, '\0')) == nullptr);
    report.gpu_count = detect::kMostNvmlGpus + 1;
    CHECK(decode() == nullptr);
    report.gpu_count = 1;
    report.outcome = static_cast<detect::NvmlOutcome>(77);
    CHECK(decode() == nullptr);
    report.outcome = detect::NvmlOutcome::ok;
    report.gpus[0].name.fill('\x1b');
    report.gpus[0].mig = 99;
    report.gpus[0].link_active.fill(-77);
    const auto checked = decode();
    REQUIRE(checked);
    CHECK(std::strlen(checked->gpus[0].name.data()) == 95);
    CHECK(checked->gpus[0].name[0] == '?');
    CHECK(checked->gpus[0].mig == detect::kUnknownNumber);
    CHECK(checked->gpus[0].link_active[3] == detect::kUnknownNumber);
}

TEST_CASE("without a sign of an NVIDIA device NVML is not asked") {
    const Tree tree;
    detect::Sources sources;
    sources.root = tree.root();
    const Machine machine = detect::detect_machine(sources);
    CHECK(machine.gpus.empty());
    CHECK_FALSE(has_note(machine, "NVML"));
}

TEST_CASE("the helper keeps no descriptor of its parent but the pipe") {
    int held[2];
    REQUIRE(pipe(held) == 0);  // inheritable on purpose
    const auto listing = [] {
        std::string names;
        for (const std::string& name : detect::Files("").list("/proc/self/fd")) names += name + " ";
        for (int fd = 0; fd < 3; ++fd)
            names +=
                std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string() + " ";
        return names;
    };
    const HelperResult result = run_helper(listing, 5000ms, 4096);
    REQUIRE(result.finished);
    CHECK(result.bytes == "0 1 2 3 4 /dev/null /dev/null /dev/null ");  // 4 lists the directory
    close(held[0]);
    close(held[1]);
}

TEST_CASE("a hanging helper does not hold a pipe of its parent open") {
    int held[2];
    REQUIRE(pipe(held) == 0);
    const pid_t middle = fork();
    REQUIRE(middle >= 0);
    if (middle == 0) {  // holds the pipe, starts a helper that never ends, and closes its own end
        close(held[0]);
        const HelperResult result = run_helper(
            []() -> std::string {
                for (;;) pause();
            },
            100ms, 64);
        _exit(result.failure == "no answer within 100 ms" ? 0 : 1);
    }
    close(held[1]);
    char byte = 0;
    CHECK(read(held[0], &byte, 1) == 0);  // the end, not a byte and not for ever
    close(held[0]);
    int status = -1;
    CHECK(waitpid(middle, &status, 0) == middle);
    CHECK(status == 0);
}

TEST_CASE("the helper has default signals, its own session and leaves the parent's alone") {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    struct sigaction before {};
    sigaction(SIGUSR1, &ignore, &before);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    const HelperResult result = run_helper(
        [] {
            struct sigaction now {};
            sigaction(SIGUSR1, nullptr, &now);
            sigset_t blocked_now;
            sigprocmask(SIG_SETMASK, nullptr, &blocked_now);
            const bool clean = now.sa_handler == SIG_DFL && sigismember(&blocked_now, SIGUSR2) == 0;
            return std::string(clean && getsid(0) == getpid() ? "clean" : "not clean");
        },
        5000ms, 64);
    CHECK(result.bytes == "clean");
    struct sigaction after {};
    sigaction(SIGUSR1, &before, &after);
    CHECK((after.sa_handler == SIG_IGN));
    sigprocmask(SIG_SETMASK, &mask, nullptr);
}

TEST_CASE("the helper's answer is bounded and its failures are told") {
    const auto long_answer = run_helper([] { return std::string(100'000, 'x'); }, 5000ms, 64);
    CHECK_FALSE(long_answer.finished);
    CHECK(long_answer.failure == "answer too long");
    const auto thrown =
        run_helper([]() -> std::string { throw std::runtime_error("x"); }, 5000ms, 64);
    CHECK(thrown.failure == "ended with status 1");
    const auto killed = run_helper(
        []() -> std::string {
            kill(getpid(), SIGKILL);
            return {};
        },
        5000ms, 64);
    CHECK(killed.failure == "ended by signal 9");
}

TEST_CASE("a program's answer is what it prints, with its status") {
    const HelperResult told = run_program({"/bin/sh", "-c", "echo told; exit 3"});
    CHECK(told.bytes == "told\n");
    CHECK(told.status == 3);
    CHECK_FALSE(told.finished);
    CHECK(run_program({"/bin/sh", "-c", "test ! -e /proc/self/fd/3"}).finished);
    CHECK(run_program({"/no/such/program"}).status == 127);
    CHECK_FALSE(run_program({}).status);
    const HelperResult endless = run_program({"/bin/sh", "-c", "while :; do echo y; done"}, 5000ms);
    CHECK(endless.bytes.size() == 4096);
    CHECK_FALSE(endless.status);
    const HelperResult killed = run_program({"/bin/sh", "-c", "echo a; kill -9 $$"});
    CHECK(killed.bytes == "a\n");
    CHECK_FALSE(killed.status);
}

TEST_CASE("what the helper sent before it was stopped is kept") {
    const auto hangs = [](const HelperOutput& send) {
        send("first");
        for (;;) pause();
    };
    const HelperResult hanging = toporun::run_helper(hangs, 1000ms, 64);
    CHECK_FALSE(hanging.finished);
    CHECK(hanging.bytes == "first");
    const auto dies = [](const HelperOutput& send) {
        send("first");
        send(", second");
        kill(getpid(), SIGKILL);
    };
    const HelperResult dead = toporun::run_helper(dies, 5000ms, 64);
    CHECK(dead.failure == "ended by signal 9");
    CHECK(dead.bytes == "first, second");
}

TEST_CASE("the helper works with every standard descriptor closed") {
    const pid_t closed = fork();
    REQUIRE(closed >= 0);
    if (closed == 0) {
        for (int fd = 0; fd < 8; ++fd) close(fd);
        const auto result = run_helper([] { return std::string("fine"); }, 5000ms, 64);
        _exit(result.bytes == "fine" ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(closed, &status, 0) == closed);
    CHECK(status == 0);
}

}  // namespace toporun::tests
