#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

TEST_CASE("what the kernel tells of the IOMMU") {
    struct Row {
        std::string name, text, mode;
    };
    const std::string boot = "BOOT_IMAGE=/vmlinuz-6.8 root=/dev/sda1 ro quiet";
    const std::string translated = "iommu: Default domain type: Translated\n";
    const std::vector<Row> rows = {
        {"pass-through", boot + " intel_iommu=on iommu=pt\n", "pass-through"},
        {"off", boot + " intel_iommu=off\n", "off"},
        {"not asked for", boot + "\n", ""},
        {"only the words", "intel_iommu=on iommu=pt\n", "pass-through"},
        {"dmesg", "[    0.4] Command line: " + boot + " amd_iommu=off\n", "off"},
        {"default of the kernel", "[    0.531234] " + translated, "translating"},
        {"default of the kernel, set",
         "[    0.5] iommu: Default domain type: Passthrough (set via kernel command line)\n",
         "pass-through"},
        {"switched off", boot + " intel_iommu=off\n\n[    0.5] " + translated, "off"},
        {"a unit",
         "[    0.4] pci 0000:00:00.0: Adding to iommu group 0\n[    0.5] " + translated +
             "[    0.6] eth0: link up\n",
         "translating"},
        {"a log without a unit", "[    0.4] smpboot: 8 CPUs\n[    0.5] " + translated, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const detect::Software software = import_text(row.text).software;
        CHECK(software.iommu_mode == row.mode);
        CHECK(software.iommu_translating.has_value() == !row.mode.empty());
        CHECK(software.iommu_translating.value_or(false) == (row.mode == "translating"));
    }
    CHECK_THROWS_AS(import_text("we set iommu=pt and it still hangs\n"), Error);
}

TEST_CASE("NUMA balancing out of sysctl") {
    CHECK(import_text("kernel.numa_balancing = 1\n").software.numa_balancing == true);
    CHECK(import_text("kernel.numa_balancing=0\n").software.numa_balancing == false);
    CHECK_THROWS_AS(import_text("kernel.numa_balancing = yes\n"), Error);
}

TEST_CASE("modules count where the list is whole") {
    const auto list = [](int others, const std::string& users) {
        std::string text = "Module                  Size  Used by\n";
        for (int i = 0; i < others; ++i) text += "other" + std::to_string(i) + "  16384  0\n";
        return text + "nvidia  56823808  2 " + users + "\nmlx5_ib  475136  0\n";
    };
    const detect::Machine whole = import_text(list(30, "other1,other2"));
    REQUIRE(whole.software.modules);
    CHECK(join(*whole.software.modules, " ") == "mlx5_ib nvidia");
    CHECK(whole.notes.empty());
    for (const detect::Machine& part :
         {import_text(list(30, "nvidia_uvm")), import_text(list(2, "other1"))}) {
        CHECK_FALSE(part.software.modules);
        CHECK(has_note(part, "a part of the list of modules"));
    }
    CHECK_FALSE(
        import_text("nvidia 56823808 0 - Live 0x0000000000000000 (POE)\n").software.modules);
}

TEST_CASE("ACS out of lspci as far as it is certain") {
    const auto bridge = [](const std::string& id, const std::string& buses,
                           const std::string& acs) {
        return id + " PCI bridge: Broadcom / LSI PEX890xx\n\tBus: primary=00, " + buses +
               ", sec-latency=0\n\tCapabilities: [68] Express (v2) Root Port\n\t\tLnkCtl:\tASPM\n" +
               (acs.empty() ? ""
                            : "\tCapabilities: [d0 v1] Access Control Services\n\t\tACSCtl:\t"
                              "SrcValid+ TransBlk- ReqRedir" +
                                  acs + " CmpltRedir" + acs + "\n");
    };
    const std::string gpu =
        "3b:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n\tFlags: x\n";
    const std::string over = "secondary=3a, subordinate=3d",
                      beside = "secondary=40, subordinate=41";
    struct Row {
        std::string name, text;
        std::optional<bool> redirect;
        std::string note;
    };
    const std::vector<Row> rows = {
        {"on above a GPU", bridge("00:01.0", over, "+") + gpu, true, ""},
        {"off above a GPU", bridge("00:01.0", over, "-") + gpu, false, ""},
        {"a bridge without ACS", bridge("00:01.0", over, "") + gpu, false, ""},
        {"on beside the GPU", bridge("00:01.0", over, "-") + bridge("00:02.0", beside, "+") + gpu,
         false, ""},
        {"on somewhere", bridge("00:01.0", over, "+"), true, "whether it is above a GPU"},
        {"off somewhere", bridge("00:01.0", over, "-"), std::nullopt, "paste all of lspci"},
        {"grep", "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n", true, "whether it is"},
        {"without root",
         "00:01.0 PCI bridge: x\n\tBus: primary=00, " + over +
             "\n\tCapabilities: <access denied>\n" + gpu,
         std::nullopt, "needs root"},
        {"cut in the line",
         "00:01.0 PCI bridge: x\n\tBus: primary=00, " + over +
             "\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRe\n" + gpu,
         std::nullopt, "is unknown"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const detect::Machine machine = import_text(row.text);
        CHECK(machine.software.acs_redirect == row.redirect);
        CHECK(machine.notes.size() == (row.note.empty() ? 0 : 1));
        CHECK((row.note.empty() || has_note(machine, row.note)));
        CHECK_FALSE(machine.gpus_known);
    }
}
