#include "import_support.hpp"

using namespace toporun;
using namespace toporun::tests;

namespace {

detect::Machine import_data(const std::string& name) {
    return import_text(read_file(std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import" / name),
                       name);
}

/// "UUD": up and down; "-" where the state is unknown.
std::string states(const detect::Gpu& gpu) {
    std::string out;
    for (const detect::GpuLink& link : gpu.links)
        out += !link.active ? '-' : *link.active ? 'U' : 'D';
    return out;
}

/// What the captures of `nvidia-smi -q`, text and XML, tell of the same GPU.
void check_first_gpu(const detect::Machine& machine) {
    const detect::Gpu& gpu = machine.gpus.at(0);
    CHECK(machine.software.driver == "550.54.15");
    CHECK(gpu.pci->text() == "0000:18:00.0");
    CHECK(gpu.name == "NVIDIA H100 80GB HBM3");
    CHECK(gpu.architecture == "Hopper");
    CHECK(gpu.uuid == "GPU-00000000-0000-0000-0000-000000000018");
    CHECK(gpu.mig == false);
    CHECK(gpu.ecc == true);
    CHECK(gpu.pcie_generation == 5);
    CHECK(gpu.pcie_generation_now == 4);
    CHECK(gpu.pcie_width == 16);
    CHECK(gpu.pcie_width_now == 8);
    CHECK(gpu.memory_bytes == 81559ull << 20);
    CHECK(gpu.memory_used_bytes == 12ull << 20);
    CHECK(gpu.row_remap_pending == true);
    CHECK(gpu.row_remap_failed == false);
}

}  // namespace

TEST_CASE("the links of each GPU by nvidia-smi nvlink -s") {
    const detect::Machine machine = import_data("nvidia_list/two-links-down.txt");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].name == "Tesla V100-SXM2-16GB");
    CHECK(machine.gpus[1].uuid == "GPU-00000000-0000-0000-0000-000000000001");
    CHECK(states(machine.gpus[0]) == "UUUUUU");
    CHECK(states(machine.gpus[1]) == "UDUUDU");
    CHECK(machine.gpus[1].links[0].speed_gbytes_per_s == doctest::Approx(25.781));
    CHECK_FALSE(machine.gpus[1].links[1].speed_gbytes_per_s);
    CHECK(machine.gpu_links.empty());
    CHECK(machine.notes.empty());
    CHECK_FALSE(machine.nics_known);
}

TEST_CASE("links that are all inactive are no NVLink") {
    for (const std::string file : {"nvidia_list/no-bridge.txt", "dcgm_links/all-down.txt"}) {
        CAPTURE(file);
        const detect::Machine machine = import_data(file);
        REQUIRE(machine.gpus.size() == 2);
        CHECK(states(machine.gpus[1]) == std::string(12, 'D'));
        CHECK(link_row(machine, 0) == "0 0");
        CHECK_FALSE(machine.nvswitch);
    }
}

TEST_CASE("MIG devices stand below their GPU") {
    const detect::Machine machine = import_data("nvidia_list/mig.txt");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].mig == true);
    CHECK_FALSE(machine.gpus[1].mig);
    CHECK(machine.notes.empty());
}

TEST_CASE("the rows of dcgmi nvlink") {
    const detect::Machine machine = import_data("dcgm_links/switches.txt");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(states(machine.gpus[0]) == "UUUUUUUUUUUD");
    CHECK(states(machine.gpus[1]) == "UUUUUUUUUU");
    CHECK(machine.nvswitch);
    CHECK(machine.notes.empty());
}

TEST_CASE("the narrow and the wide table of nvidia-smi") {
    const detect::Machine narrow = import_data("nvidia_smi/narrow.txt");
    REQUIRE(narrow.gpus.size() == 2);
    CHECK(narrow.software.driver == "525.60.13");
    const detect::Gpu& a100 = narrow.gpus[0];
    CHECK(a100.name == "NVIDIA A100-SXM...");
    CHECK(a100.pci->text() == "0000:07:00.0");
    CHECK(a100.persistence == true);
    CHECK(a100.ecc == true);
    CHECK(a100.mig == true);
    CHECK(a100.memory_bytes == 40960ull << 20);
    CHECK(a100.memory_used_bytes == 4ull << 20);
    CHECK(narrow.gpus[1].persistence == false);
    CHECK_FALSE(narrow.gpus[1].ecc);
    CHECK_FALSE(narrow.gpus[1].mig);
    CHECK(narrow.gpus[1].memory_used_bytes == 1024ull << 20);
    CHECK(narrow.notes.empty());
    const detect::Machine wide = import_data("nvidia_smi/wide.txt");
    REQUIRE(wide.gpus.size() == 1);
    CHECK(wide.gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(wide.gpus[0].ecc == false);
    CHECK(wide.gpus[0].mig == false);
    CHECK(wide.notes.empty());
}

TEST_CASE("GPUs that do not answer, that are prohibited and that had errors") {
    const detect::Machine machine = import_data("nvidia_smi/lost-and-prohibited.txt");
    REQUIRE(machine.gpus.size() == 4);
    CHECK(machine.gpus[0].uncorrected_errors == 3);
    CHECK(machine.gpus[0].compute_mode == "default");
    CHECK_FALSE(machine.gpus[0].responding);
    CHECK(machine.gpus[1].responding == false);
    CHECK(machine.gpus[1].uncorrected_errors == 0);
    CHECK_FALSE(machine.gpus[2].responding);  // its fan alone is out of order
    CHECK_FALSE(machine.gpus[2].uncorrected_errors);
    CHECK(machine.gpus[2].compute_mode == "prohibited");
    CHECK(machine.gpus[3].responding == false);
    CHECK(machine.gpus[3].compute_mode == "exclusive-process");
    const detect::Machine listed = import_text(
        "index, compute_mode, ecc.errors.uncorrected.volatile.total, persistence_mode\n"
        "0, Exclusive_Process, 2, Enabled\n"
        "1, [GPU is lost], [GPU is lost], [GPU is lost]\n");
    REQUIRE(listed.gpus.size() == 2);
    CHECK(listed.gpus[0].compute_mode == "exclusive-process");
    CHECK(listed.gpus[0].uncorrected_errors == 2);
    CHECK(listed.gpus[1].responding == false);
    const detect::Machine asked = import_text(
        "==============NVSMI LOG==============\n"
        "Attached GPUs                             : 1\n"
        "GPU 00000000:18:00.0\n"
        "    Product Name                          : NVIDIA H100 80GB HBM3\n"
        "    Compute Mode                          : Prohibited\n"
        "    ECC Errors\n"
        "        Volatile\n"
        "            SRAM Correctable              : 9\n"
        "            SRAM Uncorrectable Parity     : 1\n"
        "            DRAM Uncorrectable            : 4\n"
        "        Aggregate\n"
        "            DRAM Uncorrectable            : 40\n");
    REQUIRE(asked.gpus.size() == 1);
    CHECK(asked.gpus[0].compute_mode == "prohibited");
    CHECK(asked.gpus[0].uncorrected_errors == 5);
}

TEST_CASE("GPUs that give neither address nor number nor memory") {
    const detect::Machine machine = import_data("nvidia_smi/no-answer.txt");
    REQUIRE(machine.gpus.size() == 4);
    CHECK_FALSE(machine.gpus[0].responding);
    CHECK(machine.gpus[0].pci->text() == "0000:21:00.0");
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.gpus[1].name == "NVIDIA A30");
    CHECK(machine.gpus[1].responding == false);
    CHECK_FALSE(machine.gpus[1].pci);
    CHECK(machine.gpus[2].index == 2);  // said by its place alone
    CHECK(machine.gpus[2].responding == false);
    CHECK(machine.gpus[2].pci->text() == "0000:81:00.0");
    CHECK(machine.gpus[3].responding == false);
    CHECK_FALSE(machine.gpus[3].memory_bytes);
    // The second line of a GPU is no GPU, not even where the first one is lost.
    const detect::Machine cut = import_text(
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |\n"
        "|ERR!  ERR! ERR!    ERR! / 165W |     ERR! / ERR!     |    ERR!      Default |\n"
        "|   1  NVIDIA A30           On  |             ERR! Off |                 ERR! |\n"
        "|ERR!  ERR! ERR!    ERR! / 165W |     ERR! / ERR!     |    ERR!         ERR! |\n");
    REQUIRE(cut.gpus.size() == 1);
    CHECK(cut.gpus[0].index == 1);
    CHECK(cut.gpus[0].responding == false);
}

TEST_CASE("what nvidia-smi says without a GPU or a driver") {
    const detect::Machine none = import_text("No devices were found\n");
    CHECK(none.gpus_known);
    CHECK(none.gpus.empty());
    const detect::Machine failed =
        import_text("$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n");
    CHECK_FALSE(failed.gpus_known);
    CHECK(has_note(failed, "Driver/library version mismatch"));
}

TEST_CASE("selected keys of nvidia-smi -q") {
    const detect::Machine machine = import_data("nvidia_query/one-of-two.txt");
    REQUIRE(machine.gpus.size() == 1);
    const detect::Gpu& gpu = machine.gpus[0];
    check_first_gpu(machine);
    CHECK(gpu.persistence == false);
    CHECK(gpu.fabric_state == "in progress");
    CHECK(gpu.fabric_status.empty());
    CHECK(gpu.throttle_reasons ==
          std::vector<std::string>{"hw-slowdown", "hw-thermal", "sw-thermal"});
    CHECK(machine.notes ==
          std::vector<std::string>{"1 of 2 GPUs are listed, their numbers are a guess"});
}

TEST_CASE("nvidia-smi -q as XML") {
    const std::string text = read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                       "detect/import/nvidia_xml/two-gpus.txt");
    for (const std::string& paste : {text, text + text}) {
        const detect::Machine machine = import_text(paste);
        REQUIRE(machine.gpus.size() == 2);
        const detect::Gpu& gpu = machine.gpus[0];
        check_first_gpu(machine);
        CHECK(gpu.persistence == true);
        CHECK(gpu.throttle_reasons == std::vector<std::string>{"hw-slowdown", "hw-thermal"});
        CHECK(gpu.compute_mode == "default");
        CHECK(gpu.uncorrected_errors == 3);
        CHECK(gpu.fabric_state == "completed");
        CHECK(gpu.fabric_status == "success");
        CHECK(machine.gpus[1].responding == false);
        CHECK(machine.gpus[1].name.empty());
        CHECK(machine.notes.empty());
    }
    const detect::Machine cut = import_text(text.substr(0, text.find("<fb_memory_usage>") + 4));
    REQUIRE(cut.gpus.size() == 1);
    CHECK(cut.gpus[0].pcie_width_now == 8);
    CHECK(has_note(cut, "the XML ends early or is damaged"));
    CHECK(has_note(cut, "1 of 2 GPUs are listed"));
    CHECK_THROWS_AS(import_text("<nvidia_smi_log>\n</nvidia_smi_log>\n"), Error);
}

TEST_CASE("a list of nvidia-smi with columns of the user's choice") {
    const detect::Machine machine = import_text(
        "index, name, pci.bus_id, driver_version, memory.total [MiB], mig.mode.current, "
        "temperature.gpu, pcie.link.width.current\n"
        "0, NVIDIA L4, 00000000:18:00.0, 550.54.15, 23034 MiB, [N/A], 34, 16\n"
        "2, NVIDIA L4, 00000000:3B:00.0, 550.54.15, 23034 MiB, Disabled, 35, 8\n");
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.software.driver == "550.54.15");
    CHECK(machine.gpus[1].index == 2);
    CHECK(machine.gpus[1].name == "NVIDIA L4");
    CHECK(machine.gpus[1].pci->text() == "0000:3b:00.0");
    CHECK(machine.gpus[1].memory_bytes == 23034ull << 20);
    CHECK(machine.gpus[1].mig == false);
    CHECK_FALSE(machine.gpus[0].mig);
    CHECK(machine.gpus[1].pcie_width_now == 8);
    CHECK(machine.notes.empty());
}

TEST_CASE("outputs of several tools are one machine") {
    const auto capture = [](const std::string& name) {
        return detect::Capture{
            name, read_file(std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import" / name)};
    };
    const detect::Machine machine = detect::import_captures(std::vector<detect::Capture>{
        capture("nvidia_query/one-of-two.txt"), capture("nvidia_smi/wide.txt"),
        capture("dcgm_links/all-down.txt")});
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(machine.gpus[0].links.size() == 12);
    CHECK(has_note(machine, "ecc is true in nvidia_query/one-of-two.txt and false in"));
}

TEST_CASE("no importer of lists is misled by cut and odd lines") {
    for (const std::string text :
         {"GPU 99999999999: x (UUID: y)\n", "GPU 0: (UUID:\n", "gpuId 0:\n        U Q\n",
          "| NVIDIA-SMI\n||\n| | | |\n|  0 a | 0:0:0.0 | |\n", "GPU 00000000:18:00.0\n",
          "gpuId 1:", "===NVSMI LOG\n   :\n : : :\nGPU 0:1:0.0\n\t\t\t : \n"}) {
        CAPTURE(text);
        try {
            const detect::Machine machine = import_text(text);
            CHECK(machine.gpus.size() <= 1);
        } catch (const Error& error) {
            CHECK(error.where().starts_with("x.txt:"));
        }
    }
}
