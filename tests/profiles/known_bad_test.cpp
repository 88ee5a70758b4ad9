#include "profiles/known_bad.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "profiles/loader_options.hpp"
#include "profiles/profile.hpp"

namespace toporun::profiles {
namespace {

constexpr const char* kRow = R"(
row = 7
symptom = "hang"
what = "w"
fix = "f"
source = "s"
confidence = "medium"
)";

std::string failure(const std::string& text) {
    try {
        read_known_bad(text, "bad.toml");
    } catch (const Error& error) {
        return error.where() + ": " + error.what();
    }
    return "";
}

TEST_CASE("the table of known failures reads, and each row says why and from where") {
    const KnownBad known = builtin_known_bad();
    CHECK(known.rows.size() > 15);
    for (const KnownBadRow& row : known.rows) {
        CAPTURE(row.row);
        CHECK_FALSE(row.source.empty());
        CHECK_FALSE(row.fix.empty());
        // Something narrower than "every machine".
        CHECK((!row.gpus.empty() || !row.nccl_until.empty() || !row.driver_until.empty()));
    }
}

TEST_CASE("a fix is one command or plain advice, what else there is to know is a remark") {
    for (const KnownBadRow& row : builtin_known_bad().rows) {
        CAPTURE(row.row);
        CAPTURE(row.fix);
        CHECK(row.fix.find(';') == std::string::npos);
        CHECK(row.fix.find('(') == std::string::npos);
        if (row.fix.find("NCCL_") == std::string::npos) continue;
        CHECK(row.fix.starts_with("export NCCL_"));
        CHECK(row.fix.find('=') != std::string::npos);
        CHECK(row.fix.find(' ') == row.fix.rfind(' '));
    }
}

TEST_CASE("a row that decides names models and the drivers that were reported") {
    int deciding = 0;
    for (const KnownBadRow& row : builtin_known_bad().rows) {
        if (!row.decides) continue;
        CAPTURE(row.row);
        ++deciding;
        for (const std::string& gpu : row.gpus) {
            CAPTURE(gpu);  // "GeForce RTX 4090", not "GeForce RTX 40"
            const std::size_t model = gpu.rfind(' ') + 1;
            CHECK(gpu.size() - model >= 4);
        }
    }
    CHECK(deciding == 1);
    // huggingface/transformers issue 26096 and NVIDIA/nccl-tests issue 117 are about this card.
    CHECK(builtin_known_bad().rows.front().gpus == std::vector<std::string>{"GeForce RTX 4090"});
    CHECK(version_in_range("525.89.02", "", builtin_known_bad().rows.front().driver_until));
    CHECK_FALSE(version_in_range("525.105.17", "", builtin_known_bad().rows.front().driver_until));
}

TEST_CASE("every source can be looked up") {
    const auto check = [](const std::string& source) {
        CAPTURE(source);
        CHECK(source.find("public") == std::string::npos);  // "a public report"
        CHECK(source.find("common") == std::string::npos);
    };
    for (const KnownBadRow& row : builtin_known_bad().rows) check(row.source);
    for (const StockRefusal& refusal : builtin_known_bad().stock_refusals) check(refusal.source);
    for (const ProfilerRule& rule : builtin_profiler_versions().rules) check(rule.source);
    const LoaderOptions loaders = builtin_loader_options();
    for (const LoaderOption& option : loaders.options) check(option.source);
    for (const LoaderFramework& framework : loaders.frameworks) check(framework.source);
    for (const Profile& profile : builtin_profiles())
        for (const Value& value : profile.values) {
            check(value.source);
            CHECK(value.source.find("AICR") == std::string::npos);
        }
}

TEST_CASE("the table of known failures is no profile") {
    for (const Profile& profile : builtin_profiles())
        CHECK(profile.file.find("known-bad") == std::string::npos);
}

TEST_CASE("a row is read with its conditions") {
    const KnownBad known = read_known_bad(std::string("[[rows]]") + kRow +
                                              "gpus = [\"L4\"]\ngpu_count_min = 2\nnodes_min = "
                                              "9\ndriver_until = \"575\"\nplatform = [\"vm\"]\n"
                                              "peer_access = \"refused\"\ndriver_open = false\n"
                                              "remark = \"r\"\n",
                                          "bad.toml");
    REQUIRE(known.rows.size() == 1);
    CHECK(known.rows[0].row == 7);
    CHECK(known.rows[0].gpus == std::vector<std::string>{"L4"});
    CHECK(known.rows[0].gpu_count_min == 2);
    CHECK(known.rows[0].driver_until == "575");
    CHECK(known.rows[0].driver_open == false);
    CHECK(known.rows[0].nodes_min == 9);
    CHECK(known.rows[0].remark == "r");
}

TEST_CASE("rows that decide are sure of cards and drivers") {
    int deciding = 0;
    for (const KnownBadRow& row : builtin_known_bad().rows) {
        if (!row.decides) continue;
        CAPTURE(row.row);
        ++deciding;
        CHECK(row.confidence == "high");
        CHECK_FALSE(row.driver_until.empty());
        CHECK_FALSE(row.gpus.empty());
    }
    CHECK(deciding == 1);
}

TEST_CASE("what stock drivers refuse is read with its conditions") {
    const KnownBad known = read_known_bad(
        "[[stock_refuses]]\ngpus = [\"L4\"]\nnot_gpus = [\"L40\"]\ndriver_since = \"525.1\"\n"
        "platform = \"vm\"\nwhat = \"L4\"\nsource = \"s\"\n",
        "bad.toml");
    REQUIRE(known.stock_refusals.size() == 1);
    CHECK(known.stock_refusals[0].gpus == std::vector<std::string>{"L4"});
    CHECK(known.stock_refusals[0].not_gpus == std::vector<std::string>{"L40"});
    CHECK(known.stock_refusals[0].driver_since == "525.1");
    CHECK(known.stock_refusals[0].guest);
    CHECK(builtin_known_bad().stock_refusals.size() > 4);
}

TEST_CASE("faults of the table are refused with their place") {
    struct Row {
        std::string name;
        std::string text;
        std::string told;
    };
    const std::string row = std::string("[[rows]]") + kRow;
    const std::vector<Row> rows = {
        {"unknown key", row + "gpu = [\"L4\"]\n", "gpu"},
        {"wrong type", row + "gpus = \"L4\"\n", "gpus"},
        {"empty name", row + "gpus = [\"\"]\n", "a name must not be empty"},
        {"no number", "[[rows]]\nsymptom = \"hang\"\n", "'row' must be a number above 0"},
        {"twice", row + row, "two rows have the number 7"},
        {"unknown platform", row + "platform = [\"cloud\"]\n", "'cloud' is no value of 'platform'"},
        {"no version", row + "driver_since = \"new\"\n", "'new' is not a version"},
        {"range", row + "nccl_since = \"2.20\"\nnccl_until = \"2.19\"\n", "2.19 is below 2.20"},
        {"symptom", "[[rows]]\nrow = 1\nsymptom = \"bad\"\n", "'bad' is no value of 'symptom'"},
        {"syntax", "[[rows]\n", "bad.toml:1"},
        {"decides on a medium row", row + "decides = true\n", "this row cannot decide"},
        {"refuses nobody", "[[stock_refuses]]\nwhat = \"w\"\nsource = \"s\"\n",
         "'gpus' must name a GPU"},
        {"refuses without source", "[[stock_refuses]]\ngpus = [\"L4\"]\nwhat = \"w\"\n", "source"},
    };
    for (const Row& one : rows) {
        CAPTURE(one.name);
        const std::string told = failure(one.text);
        CAPTURE(told);
        CHECK(told.find(one.told) != std::string::npos);
        CHECK(told.find("bad.toml:") != std::string::npos);
    }
}

}  // namespace
}  // namespace toporun::profiles
