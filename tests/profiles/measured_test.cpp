#include "profiles/measured.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

namespace toporun::profiles {
namespace {

constexpr const char* kHead = R"([measured]
name = "node-a"
date = "2026-11-30"
tool = "copies"
)";
constexpr const char* kGpus = R"([[gpus]]
pci = "0000:18:00.0"
uuid = "GPU-11"
[[gpus]]
pci = "0000:AF:00.0"
)";
constexpr const char* kPair = R"([[pairs]]
a = "0000:18:00.0"
b = "0000:af:00.0"
p2p_gbytes_per_s = 22.5
shm_gbytes_per_s = 9
intact = true
)";

std::string good() {
    return std::string(kHead) + kGpus + kPair;
}

std::string failure(const std::string& text) {
    try {
        read_measured(text, "m.toml");
    } catch (const Error& error) {
        return error.where() + ": " + error.what();
    }
    return "";
}

TEST_CASE("a measured profile is read with machine and pairs") {
    const Measured measured =
        read_measured(std::string(kHead) +
                          "driver = \"580.95.05\"\nkernel = \"6.1.0\"\niommu = \"pass-through\"\n" +
                          kGpus + kPair,
                      "m.toml");
    CHECK(measured.name == "node-a");
    CHECK(measured.file == "m.toml");
    CHECK(measured.date == "2026-11-30");
    CHECK(measured.tool == "copies");
    CHECK(measured.driver == "580.95.05");
    CHECK(measured.kernel == "6.1.0");
    CHECK(measured.iommu == "pass-through");
    REQUIRE(measured.gpus.size() == 2);
    CHECK(measured.gpus[0].uuid == "GPU-11");
    CHECK(measured.gpus[1].pci == "0000:af:00.0");
    CHECK(measured.gpus[1].uuid.empty());
    REQUIRE(measured.pairs.size() == 1);
    CHECK(measured.pairs[0].p2p_gbytes_per_s == 22.5);
    CHECK(measured.pairs[0].shm_gbytes_per_s == 9);
    CHECK(measured.pairs[0].intact);
}

TEST_CASE("the table measured tells the kind of file") {
    CHECK(is_measured(good(), "m.toml"));
    CHECK_FALSE(is_measured("name = \"x\"\n", "m.toml"));
    CHECK_THROWS_AS(is_measured("[measured\n", "m.toml"), Error);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

TEST_CASE("faults of a measured profile are told with their place") {
    struct Row {
        std::string from, to, told;
    };
    const std::string other_way =
        "[[pairs]]\na = \"0000:af:00.0\"\nb = \"0000:18:00.0\"\nintact = true\n";
    const std::vector<Row> rows = {
        {"[measured]\n", "[measured]\nspeed = 1\n", "speed"},
        {"[measured]", "[measure]", "[measured] is missing"},
        {"name = \"node-a\"", "name = \" \"", "'name' must not be empty"},
        {"2026-11-30", "30.11.2026", "is no date"},
        {"tool = \"copies\"\n", "", "tool"},
        {"\"copies\"", "\"a\\u001bb\"", "one short line"},
        {"tool = \"copies\"", "tool = \"copies\"\niommu = \"on\"", "no value of 'iommu'"},
        {"0000:18:00.0", "18:00.0", "is no PCI id"},
        {"0000:AF:00.0", "0000:18:00.0", "two GPUs have the PCI id"},
        {"GPU-11", "11", "no GPU's UUID"},
        {"b = \"0000:af:00.0\"", "b = \"0000:b0:00.0\"", "not among the GPUs"},
        {"b = \"0000:af:00.0\"", "b = \"0000:18:00.0\"", "two different GPUs"},
        {"22.5", "0", "must be above 0"},
        {"22.5", "-3.0", "must be above 0"},
        {"22.5", "inf", "must be above 0"},
        {"22.5", "nan", "must be above 0"},
        {"22.5", "\"fast\"", "p2p_gbytes_per_s"},
        {"intact = true", "intakt = true", "'intact' is missing"},
        {"intact = true", "intact = true\nlatency = 3", "latency"},
        {"[[pairs]]", other_way + "[[pairs]]", "is there twice"},
        {kPair, "", "no pair was measured"},
        {kGpus, "", "lists 2 to 256 GPUs"},
    };
    REQUIRE(failure(good()).empty());
    for (const Row& row : rows) {
        CAPTURE(row.from);
        CAPTURE(row.to);
        const std::string told = failure(replaced(good(), row.from, row.to));
        CAPTURE(told);
        CHECK(told.find(row.told) != std::string::npos);
        CHECK(told.find("m.toml:") == 0);
    }
}

}  // namespace
}  // namespace toporun::profiles
