#include <string>

#include "detect/machine_toml.hpp"
#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

std::string data(const std::string& name) {
    return read_file(std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import/nccl-topo-xml" /
                     (name + ".xml"));
}

/// A file of one CPU with `content`.
std::string one_cpu(const std::string& content) {
    return "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\">\n" +
           content + "\n</cpu>\n</system>\n";
}

std::string error_of(const std::string& text) {
    try {
        import_text(text, "f.xml");
    } catch (const Error& error) {
        return std::string(error.what()) + " @" + error.where();
    }
    return "";
}

}  // namespace

TEST_CASE("a vendor's file without gpu elements") {
    const detect::Machine machine = import_text(data("vendor-flat"));
    REQUIRE(machine.gpus.size() == 2);  // in the order of the bus; the management display is none
    CHECK(machine.gpus[0].pci->text() == "0001:00:00.0");
    CHECK(machine.gpus[1].pci->text() == "0003:00:00.0");
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.gpus[1].vendor == "nvidia");
    CHECK(machine.gpus[1].cpus.text() == "8-15");
    CHECK(machine.gpus[1].pcie_generation == 4);
    CHECK(numa_nodes(machine) == "0 1");
    CHECK(path_row(machine, 0) == "LOC SYS");
    CHECK(nic_row(machine, 0) == "SYS");
    CHECK(nic_row(machine, 1) == "PIX");
    CHECK(machine.nics[0].kind == detect::NicKind::infiniband);
    CHECK(machine.nics[0].name == "0103:00:00.0");
    CHECK(machine.cpu.family == 23);
    CHECK(machine.cpu.numa_nodes.at(0).os_index == 0);
    CHECK(has_note(machine, "whether NVLinks join them"));
}

TEST_CASE("switches, faults, hidden peers and a second host") {
    const detect::Machine machine = import_text(data("switch-pair"));
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].pci->text() == "0000:20:00.0");  // dev 0
    CHECK(machine.gpus[0].compute_capability == 90);
    CHECK(machine.nvswitch);
    CHECK(link_row(machine, 0) == "0 18");
    CHECK(path_row(machine, 0) == "LOC NVL");
    CHECK(machine.gpus[0].links.size() == 18);
    CHECK(machine.gpus[0].links[0].peer_kind == "switch");
    REQUIRE(machine.gpu_path_gbytes_per_s.size() == 2);
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(370.8));
    CHECK_FALSE(machine.gpu_path_gbytes_per_s[0][0]);
    CHECK(nic_names(machine) == "eth0 mlx5_0 mlx5_1");
    CHECK(machine.nics[0].kind == detect::NicKind::ethernet);
    CHECK_FALSE(machine.nics[0].speed_gbits);
    CHECK_FALSE(machine.nics[0].pci);
    CHECK(machine.nics[2].kind == detect::NicKind::roce);
    CHECK(machine.nics[2].port == 2);
    CHECK(machine.nics[2].speed_gbits == doctest::Approx(400));
    CHECK(nic_row(machine, 0) == "PHB PHB PHB");
    CHECK(has_note(machine, "x.txt:12:25: a link of GPU 0000:20:00.0 leads to that GPU itself"));
    CHECK(has_note(machine, "several hosts"));
}

TEST_CASE("RCCL's file") {
    const detect::Machine machine = import_text(data("xgmi"));
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].vendor == "amd");
    CHECK(machine.gpus[0].architecture == "gfx90a");
    CHECK(machine.gpus[1].architecture == "gfx90a");
    CHECK_FALSE(machine.gpus[0].compute_capability);
    CHECK(link_row(machine, 0) == "0 2");
    CHECK(path_row(machine, 0) == "LOC NVL");
    CHECK(machine.gpu_path_gbytes_per_s[0][1] == doctest::Approx(72));
    CHECK_FALSE(machine.nics_known);
    CHECK_FALSE(machine.nvswitch);
}

TEST_CASE("what is read is a machine file that reads back equal") {
    for (const std::string name : {"vendor-flat", "switch-pair", "xgmi"}) {
        CAPTURE(name);
        const detect::Machine machine = import_text(data(name));
        CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
    }
}

TEST_CASE("XML in a report, behind prefixes and in pieces") {
    const std::string gpu =
        "<pci busid=\"0000:1N:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"\"/>";
    const auto piece = [&](char digit) {
        std::string text = gpu;
        text.replace(text.find('N'), 1, 1, digit);
        return one_cpu(text);
    };
    const std::string report =
        "Here is my topology:\n\n" + piece('1') + "and the rest\n" + piece('2');
    CHECK(import_text(report).gpus.size() == 2);
    CHECK(import_text(report).cpu.numa_nodes.size() == 1);
    std::string quoted;
    for (const std::string& line : split(piece('1'), '\n')) quoted += "> " + line + "\n";
    CHECK(import_text(quoted).gpus.size() == 1);
}

TEST_CASE("XML that ends early gives what stands before, and says so") {
    const std::string whole = data("switch-pair");
    const detect::Machine machine = import_text(whole.substr(0, whole.find("<nic>")));
    CHECK(machine.gpus.size() == 2);
    CHECK_FALSE(machine.nics_known);
    CHECK(has_note(machine, "ends early or is damaged"));
    for (std::size_t length = 1; length < whole.size(); length += 7) {
        CAPTURE(length);
        const std::string text = whole.substr(0, length);
        try {
            const detect::Machine cut = import_text(text);
            CHECK(cut.gpus.size() <= 2);
        } catch (const Error& error) {
            CHECK(error.where().starts_with("x.txt:"));
        }
    }
}

TEST_CASE("numbers that are none are errors with their place") {
    struct Row {
        std::string content;
        std::string what;
        std::string value;  ///< which the place points at
    };
    const std::string pci = "<pci busid=\"0000:10:00.0\" class=\"0x030200\" ";
    const Row rows[] = {
        {"<pci busid=\"10-00\" class=\"0x030200\"/>", "busid of <pci> must be a PCI address",
         "10-00"},
        {pci + "link_width=\"x16\"/>", "link_width of <pci> must be a number from 0 to 255", "x16"},
        {pci + "><gpu dev=\"zero\"/></pci>", "dev of <gpu> must be a number", "zero"},
        {pci + "><gpu dev=\"0\" sm=\"80\"><nvlink target=\"there\" count=\"2\" "
               "tclass=\"0x030200\"/></gpu></pci>",
         "target of <nvlink> must be a PCI address", "there"},
        {pci + "><gpu dev=\"0\"><nvlink target=\"0000:20:00.0\" count=\"99999999999\" "
               "tclass=\"0x030200\"/></gpu></pci>",
         "count of <nvlink> must be a number from 0 to 256", "99999999999"},
        {pci + "vendor=\"0x1_\"/>", "vendor of <pci> must be a number", "0x1_"},
        {"<pci busid=\"0000:10:00.0\" class=\"display\"/>", "class of <pci> must be a number",
         "display"},
        {pci + "><gpu dev=\"0\"><nvlink count=\"1\" tclass=\"0x01\"/></gpu></pci>",
         "tclass of <nvlink> must be the PCI class", "0x01\""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.content);
        const std::string error = error_of(one_cpu(row.content));
        CHECK(error.find(row.what) != std::string::npos);
        const std::size_t column = row.content.find(row.value) + 1;
        CHECK(error.ends_with("@f.xml:3:" + std::to_string(column)));
    }
    CHECK(error_of("<system version=\"1\">\n<cpu numaid=\"x\"/>\n</system>")
              .find("numaid of <cpu>") == 0);
    CHECK(error_of("<system version=\"1\">\n</system>").find("no <cpu> element") !=
          std::string::npos);
}

TEST_CASE("bytes that a terminal would act on stay out") {
    const detect::Machine machine =
        import_text(one_cpu("<nic><net name=\"eth0&#27;[31m&#10;\" dev=\"0\" port=\"0\"/><net "
                            "dev=\"1\" port=\"0\"/></nic>"));
    CHECK(nic_names(machine).find('\x1b') == std::string::npos);
    CHECK(machine.nics.at(1).name == "?");
}

TEST_CASE("deep and wide files have an end") {
    std::string deep, wide;
    for (int i = 0; i < 5000; ++i) deep += "<pci busid=\"0000:10:00.0\" class=\"0x060400\">";
    CHECK(error_of(one_cpu(deep)).find("more <pci> elements") != std::string::npos);
    for (int i = 0; i < 400; ++i)
        wide += "<pci busid=\"" + std::to_string(1000 + i) + ":10:00.0\" class=\"0x030200\"/>\n";
    CHECK(error_of(one_cpu(wide)).find("more <pci> elements") != std::string::npos);
}
