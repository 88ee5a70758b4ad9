#include "import_support.hpp"

/// Texts that contradict themselves: the first word stays, and a note names both.
namespace toporun::tests {
namespace {

std::string listed(int count, const std::string& name = "NVIDIA H100 80GB HBM3") {
    std::string text;
    for (int i = 0; i < count; ++i)
        text += "GPU " + std::to_string(i) + ": " + name + " (UUID: GPU-0000000" +
                std::to_string(i) + "-1111)\n";
    return text;
}

/// A log of `nvidia-smi -q` with GPUs by bus number.
std::string query(const std::vector<std::string>& buses, const std::string& name,
                  const std::string& used) {
    std::string text = "==============NVSMI LOG==============\n\nAttached GPUs   : " +
                       std::to_string(buses.size()) + "\n";
    for (const std::string& bus : buses)
        text += "GPU 00000000:" + bus + ":00.0\n    Product Name      : " + name +
                "\n    FB Memory Usage\n        Used      : " + used + " MiB\n\n";
    return text;
}

TEST_CASE("lists of different lengths and names") {
    const auto lists = import_text(listed(2) + "\n" + listed(4));
    CHECK(lists.gpus.size() == 4);
    CHECK(has_note(lists, "the list from line 1 on has 2 GPUs, that from line 4 on 4"));
    const auto names = import_text(listed(2) + listed(2, "NVIDIA A100-SXM4-80GB"));
    CHECK(names.gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(has_note(names, "GPU 1: the name is NVIDIA H100 80GB HBM3, in line 4 NVIDIA A100"));
    CHECK(import_text(listed(2) + listed(2)).notes.empty());
    const std::string links = listed(1) + "\t Link 0: 26.562 GB/s\n";
    CHECK(import_text(listed(2) + links).notes.empty());
}

TEST_CASE("bus ids of two tables with the user's columns") {
    const std::string head = "index, name, pci.bus_id, memory.used [MiB]\n";
    const std::string command = "$ nvidia-smi --query-gpu=index,name,pci.bus_id,memory.used\n";
    const auto twice = import_text(head + "0, NVIDIA L4, 00000000:07:00.0, 5 MiB\n" + command +
                                   head + "0, NVIDIA L4, 00000000:17:00.0, 9 MiB\n");
    REQUIRE(twice.gpus.size() == 1);
    CHECK(twice.gpus[0].pci->text() == "0000:07:00.0");
    CHECK(twice.gpus[0].memory_used_bytes == 9ull << 20);
    CHECK(has_note(twice, "GPU 0: the bus id is 0000:07:00.0, in line 5 0000:17:00.0"));
}

TEST_CASE("processes are no GPUs") {
    CHECK_THROWS_AS(import_text("gpu_uuid, pid, name, used_gpu_memory [MiB]\n"
                                "GPU-1, 4711, python, 70000 MiB\n"),
                    Error);
}

TEST_CASE("nvidia-smi -q twice tells of the same GPUs") {
    const auto again = import_text(query({"07", "0F"}, "NVIDIA H100 80GB HBM3", "3") +
                                   query({"07", "0F"}, "NVIDIA H100 80GB HBM3", "30003"));
    REQUIRE(again.gpus.size() == 2);
    CHECK(again.notes.empty());
    CHECK(again.gpus[1].memory_used_bytes == 30003ull << 20);
    const auto other = import_text(query({"07"}, "NVIDIA H100 80GB HBM3", "3") +
                                   query({"07", "0F"}, "NVIDIA A100-SXM4-80GB", "3"));
    REQUIRE(other.gpus.size() == 2);
    CHECK(other.gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(has_note(other, "GPU 0: the name is NVIDIA H100 80GB HBM3, in line 12 NVIDIA A100"));
}

TEST_CASE("nvidia-smi -q -x with other GPUs in a second document") {
    const auto document = [](const std::string& bus) {
        return "<nvidia_smi_log>\n<attached_gpus>1</attached_gpus>\n<gpu id=\"00000000:" + bus +
               ":00.0\"><product_name>NVIDIA L4</product_name></gpu>\n</nvidia_smi_log>\n";
    };
    const auto other = import_text(document("07") + document("17"));
    REQUIRE(other.gpus.size() == 1);
    CHECK(has_note(other, "GPU 0: the bus id is 0000:07:00.0, in line 5 0000:17:00.0"));
    CHECK(import_text(document("07") + document("07")).notes.empty());
}

TEST_CASE("an interface and a port with two states") {
    const auto interface = [](const std::string& flags, const std::string& state,
                              const std::string& mtu) {
        return "2: eth0: <" + flags + "> mtu " + mtu + " qdisc mq state " + state +
               "\n    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n    inet 10.0.0.5/24 "
               "scope global eth0\n";
    };
    const auto both = import_text(interface("BROADCAST,UP,LOWER_UP", "UP", "1500") +
                                  interface("NO-CARRIER,BROADCAST,UP", "DOWN", "9000"));
    CHECK(has_note(both, "eth0 is listed as up and as down: the first is kept"));
    CHECK(has_note(both, "eth0 is listed with MTU 1500 and with 9000: the first is kept"));
    const auto port = [](const std::string& state) {
        return "CA 'mlx5_0'\n\tPort 1:\n\t\tState: " + state + "\n\t\tLink layer: InfiniBand\n";
    };
    CHECK(has_note(import_text(port("Active") + port("Down")),
                   "port 1 of mlx5_0 is listed as active and as down: the first is kept"));
}

TEST_CASE("a name that is longer than any is cut") {
    const auto machine =
        import_text("GPU 0: NVIDIA " + std::string(5000, 'H') + " (UUID: GPU-1)\n");
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].name.size() <= 253);
    CHECK(machine.gpus[0].name.ends_with("..."));
}

TEST_CASE("names and bus ids of AMD GPUs") {
    const auto machine = import_text(
        "=================================== Product Info ===================================\n"
        "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X\n"
        "GPU[0]\t\t: Card Vendor: \t\tAdvanced Micro Devices, Inc. [AMD/ATI]\n"
        "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X\n"
        "GPU[1]\t\t: PCI Bus: 0000:26:00.0\n"
        "GPU[1]\t\t: VRAM Total Memory (B): 206141652992\n");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].name == "AMD Instinct MI300X");
    CHECK(machine.gpus[1].vendor == "amd");
    CHECK(machine.gpus[1].pci->text() == "0000:26:00.0");
    CHECK(machine.gpus[1].memory_bytes == 206141652992ull);
    CHECK(machine.notes.empty());
}

TEST_CASE("uname tells kernel, host and architecture") {
    const auto machine = import_text(
        "Linux gpu01 6.8.0-51-generic #52-Ubuntu SMP PREEMPT_DYNAMIC Thu Dec 5 13:09:44 UTC 2024 "
        "x86_64 x86_64 x86_64 GNU/Linux\n");
    CHECK(machine.hostname == "gpu01");
    CHECK(machine.software.kernel == "6.8.0-51-generic");
    CHECK(machine.cpu.architecture == "x86_64");
    CHECK(import_text("aarch64\n").cpu.architecture == "aarch64");
    CHECK_THROWS_AS(import_text("Linux is what we run here, 5 nodes of it\n"), Error);
}

}  // namespace
}  // namespace toporun::tests
