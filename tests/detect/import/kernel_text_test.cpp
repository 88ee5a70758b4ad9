#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

TEST_CASE("what the kernel tells of the IOMMU") {
    struct Row {
        std::string name, text, mode;
    };
    const std::string boot = "BOOT_IMAGE=/vmlinuz-6.8 root=/dev/sda1 ro quiet";
    const std::string translated = "iommu: Default domain type: Translated\n";
    const std::string begun =
        "[    0.000000] Linux version 6.8.0-45-generic (x@y) (gcc) #45-Ubuntu SMP\n"
        "[    0.4] smpboot: 8 CPUs\n";
    const std::string ended = "[    1.9] Freeing unused kernel image (initmem) memory: 4724K\n";
    const std::vector<Row> rows = {
        {"pass-through", boot + " intel_iommu=on iommu=pt\n", "pass-through"},
        {"off", boot + " intel_iommu=off\n", "off"},
        {"not asked for", boot + "\n", "default"},
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
        {"a whole log without a unit", begun + "[    0.5] " + translated + ended, "off"},
        {"the same without the default", begun + ended, "off"},
        {"the same, pass-through is asked for",
         "[    0.0] Command line: " + boot + " iommu=pt\n" + begun + ended, "off"},
        {"a whole log with a unit",
         begun + "[    0.5] " + translated +
             "[    0.6] pci 0000:00:00.0: Adding to iommu group 0\n" + ended,
         "translating"},
        {"a whole log of an older kernel with a unit",
         begun + "[    0.5] " + translated +
             "[    0.6] iommu: Adding device 0000:00:00.0 to group 0\n" + ended,
         "translating"},
        {"a log that stops before the drivers", begun + "[    0.5] " + translated, ""},
        {"a log whose first lines are gone", "[    0.5] " + translated + ended, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const detect::Software software = import_text(row.text).software;
        CHECK(software.iommu_mode == row.mode);
        CHECK(software.iommu_translating.has_value() ==
              (!row.mode.empty() && row.mode != "default"));
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

namespace {

/// A bridge of lspci; `kind`: "Root Port", "Upstream Port", "Downstream Port". `acs`: "+", "-", ""
/// without the capability.
std::string listed_bridge(const std::string& id, const std::string& kind, const std::string& buses,
                          const std::string& acs) {
    return id + " PCI bridge: Broadcom / LSI PEX890xx\n\tBus: primary=00, " + buses +
           ", sec-latency=0\n\tCapabilities: [68] Express (v2) " + kind +
           " (Slot-)\n\t\tLnkCtl:\tASPM\n" +
           (acs.empty() ? ""
                        : "\tCapabilities: [d0 v1] Access Control Services\n\t\tACSCtl:\t"
                          "SrcValid+ TransBlk- ReqRedir" +
                              acs + " CmpltRedir" + acs + "\n");
}

std::string listed_gpu(const std::string& id) {
    return id + " 3D controller: NVIDIA Corporation GH100 (rev a1)\n\tFlags: x\n";
}

/// GPUs 0 and 1 below one switch, GPU 2 below a root port of its own.
std::string listed_switch(const std::string& root_ports, const std::string& ports) {
    return listed_bridge("00:01.0", "Root Port", "secondary=01, subordinate=06", root_ports) +
           listed_bridge("01:00.0", "Upstream Port", "secondary=02, subordinate=06", "") +
           listed_bridge("02:00.0", "Downstream Port", "secondary=03, subordinate=03", ports) +
           listed_bridge("02:01.0", "Downstream Port", "secondary=04, subordinate=04", ports) +
           listed_bridge("80:01.0", "Root Port", "secondary=81, subordinate=81", root_ports) +
           listed_gpu("03:00.0") + listed_gpu("04:00.0") + listed_gpu("81:00.0");
}

}  // namespace

TEST_CASE("ACS out of lspci as far as it is certain") {
    const auto root = [](const std::string& id, const std::string& buses, const std::string& acs) {
        return listed_bridge(id, "Root Port", buses, acs);
    };
    const auto port = [](const std::string& acs) {
        return listed_bridge("3a:01.0", "Downstream Port", "secondary=3b, subordinate=3b", acs);
    };
    const std::string gpu = listed_gpu("3b:00.0");
    const std::string over = "secondary=3a, subordinate=3d",
                      beside = "secondary=40, subordinate=41";
    struct Row {
        std::string name, text;
        std::optional<bool> redirect;
        std::string note;
    };
    const std::vector<Row> rows = {
        {"on above a GPU", root("00:01.0", over, "-") + port("+") + gpu, true, ""},
        {"off above a GPU", root("00:01.0", over, "-") + port("-") + gpu, false, ""},
        {"at a root port alone", root("00:01.0", over, "+") + gpu, std::nullopt, "for the IOMMU"},
        {"a bridge without ACS", root("00:01.0", over, "") + gpu, false, ""},
        {"on beside the GPU", root("00:01.0", over, "-") + root("00:02.0", beside, "+") + gpu,
         false, ""},
        {"on somewhere", port("+"), std::nullopt, "whether that concerns GPUs"},
        {"off somewhere", port("-"), std::nullopt, "paste all of lspci"},
        {"grep", "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n", std::nullopt,
         "whether that concerns GPUs"},
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
        CHECK(machine.gpus.empty());
    }
}

TEST_CASE("a root port's ACS settles nothing where a switch below it was not read") {
    struct Row {
        std::string name, switch_acs, command_line;
        std::optional<bool> redirect;
    };
    const std::string boot = "BOOT_IMAGE=/vmlinuz-6.8 root=/dev/sda1 ro quiet ";
    for (const Row& row :
         std::vector<Row>{{"switch off, pass-through", "-", "iommu=pt", false},
                          {"switch on, pass-through", "+", "iommu=pt", true},
                          {"switch not read, pass-through", "?", "iommu=pt", std::nullopt},
                          {"switch not read, IOMMU off", "?", "intel_iommu=off", std::nullopt},
                          {"switch off, IOMMU not told", "-", "", std::nullopt}}) {
        CAPTURE(row.name);
        std::string port = listed_bridge("02:00.0", "Downstream Port",
                                         "secondary=03, subordinate=03", row.switch_acs);
        if (row.switch_acs == "?")
            port =
                "02:00.0 PCI bridge: x\n\tBus: primary=02, secondary=03, subordinate=03\n"
                "\tCapabilities: <access denied>\n";
        const detect::Machine machine =
            import_text(listed_bridge("00:01.0", "Root Port", "secondary=01, subordinate=06", "+") +
                        port + listed_gpu("03:00.0") + "\n" + boot + row.command_line + "\n");
        CHECK(machine.software.acs_redirect == row.redirect);
        CHECK(has_note(machine, "ACS") == !row.redirect);
    }
}

TEST_CASE("ACS out of lspci goes to the GPU pairs that another text tells of") {
    using detect::AcsRedirect;
    constexpr auto on = AcsRedirect::on, off = AcsRedirect::off, unknown = AcsRedirect::unknown;
    using Matrix = std::vector<std::vector<AcsRedirect>>;
    const std::string list = "GPU 0: NVIDIA H100 PCIe (UUID: GPU-00000000-0000-0000-0000-00000000";
    const auto gpus = [&](int count) {
        std::string text;
        for (int i = 0; i < count; ++i)
            text += "GPU " + std::to_string(i) + list.substr(5) + "000" + std::to_string(i) + ")\n";
        return text;
    };
    struct Row {
        std::string name, lspci;
        int gpus;
        Matrix matrix;
    };
    const std::vector<Row> rows = {
        {"switch ports redirect",
         listed_switch("+", "+"),
         3,
         {{off, on, unknown}, {on, off, unknown}, {unknown, unknown, off}}},
        {"root ports alone",
         listed_switch("+", "-"),
         3,
         {{off, off, unknown}, {off, off, unknown}, {unknown, unknown, off}}},
        {"none", listed_switch("-", "-"), 3, {{off, off, off}, {off, off, off}, {off, off, off}}},
        {"a subset of the GPUs without bus ids", listed_switch("+", "+"), 2, {}},
        {"pasted twice",
         listed_switch("-", "-") + listed_switch("-", "-"),
         3,
         {{off, off, off}, {off, off, off}, {off, off, off}}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        for (const bool first : {true, false}) {
            const std::vector<detect::Capture> captures = {
                {"a", first ? row.lspci : gpus(row.gpus)},
                {"b", first ? gpus(row.gpus) : row.lspci}};
            const detect::Machine machine = detect::import_captures(captures);
            REQUIRE(machine.gpus.size() == static_cast<std::size_t>(row.gpus));
            CHECK(machine.gpus[0].name == "NVIDIA H100 PCIe");
            CHECK(machine.gpu_acs_redirect == row.matrix);
        }
    }
    const std::string csv =
        "index, pci.bus_id, name\n0, 00000000:04:00.0, NVIDIA H100 PCIe\n"
        "1, 00000000:03:00.0, NVIDIA H100 PCIe\n";
    const std::vector<detect::Capture> by_bus_id = {{"a", csv}, {"b", listed_switch("+", "+")}};
    const detect::Machine machine = detect::import_captures(by_bus_id);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpu_acs_redirect == Matrix{{off, on}, {on, off}});
}
