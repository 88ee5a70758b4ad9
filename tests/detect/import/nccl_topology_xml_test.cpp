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
    CHECK(machine.gpu_links.empty());
    CHECK(has_note(machine, "whether NVLinks join them"));
}

TEST_CASE("links are known between the GPUs that are described") {
    const std::string text = one_cpu(
        "<pci busid=\"0000:10:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\n"
        "<pci busid=\"0000:20:00.0\" class=\"0x030200\"><gpu dev=\"1\"/></pci>\n"
        "<pci busid=\"0000:30:00.0\" class=\"0x030200\"/>");
    const detect::Machine machine = import_text(text);
    CHECK(link_row(machine, 0) == "0 0 -1");
    CHECK(link_row(machine, 2) == "-1 -1 0");
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

TEST_CASE("XML in a report and behind prefixes") {
    const std::string text = one_cpu("<pci busid=\"0000:10:00.0\" class=\"0x030200\"/>");
    CHECK(import_text("Here is my <system> topology, don't ask:\n\n" + text + "and the rest\n")
              .gpus.size() == 1);
    std::string quoted;
    for (const std::string& line : split(text, '\n')) quoted += "> " + line + "\n";
    CHECK(import_text(quoted).gpus.size() == 1);
}

TEST_CASE("of several topologies in one text the first with devices is read") {
    const std::string first = data("switch-pair");
    const auto same = [](const std::string& text, const std::string& alone) {
        const detect::Machine machine = import_text(text);
        const detect::Machine expected = import_text(alone);
        CHECK(machine.gpus == expected.gpus);
        CHECK(machine.nics == expected.nics);
        CHECK(machine.gpu_nic_paths == expected.gpu_nic_paths);
        return machine;
    };
    CHECK(has_note(same(first + first, first), "another topology begins, 1 more in all"));
    same(first + data("vendor-flat"), first);
    same(one_cpu("") + first, first);
    const std::string damaged = one_cpu("<pci busid=\"10-00\" class=\"0x030200\"/>");
    CHECK(has_note(same(damaged + first, first), "busid of <pci> must be a PCI address"));
    CHECK(error_of(damaged + damaged).find("busid of <pci>") == 0);
}

TEST_CASE("lines that a terminal broke are put together again") {
    for (const std::string name : {"vendor-flat", "switch-pair", "xgmi"}) {
        const std::string whole = data(name);
        const detect::Machine expected = import_text(whole);
        for (std::size_t width = 60; width <= 132; ++width) {
            CAPTURE(name);
            CAPTURE(width);
            std::string wrapped;
            bool broken = false;
            for (const std::string& line : split(whole, '\n'))
                for (std::size_t at = 0; at == 0 || at < line.size(); at += width) {
                    wrapped += line.substr(at, width) + "\n";
                    broken = broken || at > 0;
                }
            const detect::Machine machine = import_text(wrapped);
            CHECK(machine.gpus == expected.gpus);
            CHECK(machine.nics == expected.nics);
            CHECK(machine.cpu == expected.cpu);
            CHECK(machine.gpu_paths == expected.gpu_paths);
            CHECK(machine.gpu_path_gbytes_per_s == expected.gpu_path_gbytes_per_s);
            if (!broken) CHECK_FALSE(has_note(machine, "put together again"));
        }
    }
}

TEST_CASE("attributes on lines of their own stay apart") {
    const detect::Machine machine = import_text(one_cpu(
        "<pci\nbusid=\"0000:10:00.0\"\nclass=\"0x030200\"\n  link_speed=\"16.0\nGT/s PCIe\"\n"
        "link_width=\"1\n6\"/>"));
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].pcie_generation == 4);
    CHECK(machine.gpus[0].pcie_width == 16);
    CHECK(has_note(machine, "2 lines of the XML were broken"));
}

TEST_CASE("a file that says nothing is refused") {
    for (const std::string text :
         {"<system version=\"1\">\n<cpu numaid=\"0\"",
          "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\"/>\n</system>\n",
          "<system version=\"1\">\n<cpu numaid=\"0\">\n<nic>\n</nic>\n</cpu>\n</system>\n"}) {
        CAPTURE(text);
        CHECK_FALSE(error_of(text).empty());
    }
    CHECK(error_of(one_cpu("")).empty());  // it has a CPU set
}

TEST_CASE("faults of a file are told once") {
    const auto gpu = [](const std::string& busid, const std::string& dev) {
        return "<pci busid=\"" + busid + "\" class=\"0x030200\"><gpu dev=\"" + dev +
               "\" sm=\"80\"><nvlink target=\"" + busid +
               "\" count=\"12\" tclass=\"0x030200\"/></gpu></pci>\n";
    };
    const std::string net =
        "<nic><net name=\"cxi0\" dev=\"0\" speed=\"200000000\" port=\"1\"/><net "
        "name=\"cxi1\" dev=\"1\" speed=\"200000000\" port=\"1\"/></nic>";
    const detect::Machine machine =
        import_text(one_cpu(gpu("0000:10:00.0", "0") + gpu("0000:20:00.0", "1") + net));
    CHECK(
        has_note(machine, "links of 2 GPUs lead to that GPU itself (0000:10:00.0, 0000:20:00.0)"));
    CHECK(has_note(machine, "200000 Gb/s for net 'cxi0', which no adapter has"));
    CHECK(machine.notes.size() == 3);
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

TEST_CASE("thousands of elements that were begun cost no more than the reading of the text") {
    std::string text = one_cpu("");
    for (int i = 0; i < 200000; ++i) text += "<system ";
    const detect::Machine machine = import_text(text);
    CHECK(machine.gpus.empty());
    CHECK(machine.cpu.packages == std::nullopt);
}
