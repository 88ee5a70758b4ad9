#include "launcher/report/machine_view.hpp"

#include "files.hpp"
#include "sample_machines.hpp"

namespace toporun::tests {

TEST_CASE("the view of each machine is as reviewed") {
    for (const auto& sample : sample_machines())
        check_golden(launcher::machine_view(sample.second),
                     "report/machine/" + sample.first + ".txt");
}

TEST_CASE("the machine line says what decides") {
    CHECK(launcher::machine_line(hgx_machine()) ==
          "8 x H100 80GB (NVSwitch, 18 links per GPU), 2 x 4 cores, 4 x 400 Gb/s InfiniBand, "
          "NCCL 2.28.9");
    CHECK(launcher::machine_line(plain_machine()) ==
          "no GPU; 1 x 2 cores, e\\x1b[31m 2.5 Gb/s, NCCL version unknown");
    CHECK(launcher::machine_line({}) ==
          "no GPU; CPUs unknown, network unknown, NCCL version unknown");
    CHECK(launcher::machine_line(workstation()) ==
          "1 x GeForce RTX 4090 + 1 x NVIDIA GPU (PCIe, farthest pair PHB), 1 x 4 cores (4 of 8 "
          "CPUs allowed, quota 3.5 CPUs), eth0, NCCL version unknown");
}

TEST_CASE("names cannot act on a terminal or break a line") {
    detect::Machine machine = workstation();
    machine.hostname = "h\x1b]0;x\x07";
    machine.gpus[0].name = "NVIDIA \x1b[2J\n";
    machine.nics[0].name = "\xff\r";
    machine.nics[0].addresses = {
        "\x9b"
        "31m"};
    machine.cpu.model = "\x1b";
    machine.software.nccl_version = "\x1b";
    machine.software.nccl_library = "\x1b";
    machine.software.nccl_plugins = {"\x1b"};
    machine.notes = {"\x1b\n"};
    machine.vendor = "\x1b";
    const std::string text = launcher::machine_view(machine);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        CHECK((c == '\n' || (byte >= 0x20 && byte < 0x7f)));
    }
    CHECK(launcher::machine_line(machine).find('\n') == std::string::npos);
}

}  // namespace toporun::tests
