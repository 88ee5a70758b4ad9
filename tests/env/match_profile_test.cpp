#include "env/match_profile.hpp"

#include <algorithm>
#include <functional>

#include <doctest/doctest.h>

#include "machines.hpp"

using namespace toporun::tests;
namespace env = toporun::env;
namespace profiles = toporun::profiles;

namespace {

using Profiles = std::vector<profiles::Profile>;

const Profiles& builtin() {
    static const Profiles known = profiles::builtin_profiles();
    return known;
}

/// What the adapters of a machine are: `count` of `kind`.
struct Adapters {
    int count = 0;
    NicKind kind = NicKind::infiniband;
    std::string driver = "mlx5_core";
    double speed_gbits = 400;
    std::string name = "mlx5_";  ///< a number follows
};

enum class Wiring { none, mesh, bridge, switches };

/// A machine of a platform, as it looks from inside.
struct Row {
    std::string profile;  ///< that must be used
    std::string vendor;
    std::string product;
    std::string asset_tag;
    std::string gpu;
    int gpus = 8;
    Wiring wiring = Wiring::switches;
    std::vector<Adapters> adapters = {};
    std::string architecture = "x86_64";
    std::string kernel = "6.8.0";
    bool virtual_machine = false;
    std::string container = "";
};

constexpr const char* kAzure = "7783-7084-3265-9085-8269-3286-77";
constexpr const char* kOracle = "OracleCloud.com";
constexpr const char* kGoogle = "Google Compute Engine";
constexpr const char* kAmazon = "Amazon EC2";

Machine made(const Row& row) {
    Machine machine = host(2, 48);
    machine.vendor = row.vendor;
    machine.product = row.product;
    machine.asset_tag = row.asset_tag;
    machine.cpu.architecture = row.architecture;
    machine.software.kernel = row.kernel;
    machine.virtual_machine = row.virtual_machine;
    machine.software.container_kind = row.container;
    machine.container = !row.container.empty();
    add_gpus(machine, row.gpus, row.gpu,
             row.wiring == Wiring::switches ? PathType::NVL : PathType::SYS,
             row.wiring == Wiring::switches ? 18 : 0);
    machine.nvswitch = row.wiring == Wiring::switches;
    if (row.wiring != Wiring::switches)
        for (int gpu = 0; gpu + 1 < row.gpus; gpu += 2)
            if (row.wiring != Wiring::none) connect(machine, gpu, gpu + 1, PathType::NVL, 4);
    if (row.gpu.find("AMD") != std::string::npos)
        for (auto& gpu : machine.gpus) gpu.vendor = "amd";
    machine.nics_known = true;
    for (const Adapters& adapters : row.adapters)
        for (int i = 0; i < adapters.count; ++i) {
            auto one = nic(adapters.name + std::to_string(i), adapters.kind, {});
            one.driver = adapters.driver;
            one.speed_gbits = adapters.speed_gbits;
            if (adapters.kind != NicKind::ethernet) one.rdma_device = one.name;
            machine.nics.push_back(one);
        }
    return machine;
}

Adapters efa(int count) {
    return {count, NicKind::efa, "efa", 100, "rdmap"};
}
Adapters infiniband(int count) {
    return {count};
}
Adapters roce(int count, double speed_gbits = 400) {
    return {count, NicKind::roce, "mlx5_core", speed_gbits, "mlx5_"};
}
Adapters gve(int count) {
    return {count, NicKind::ethernet, "gve", 200, "enp"};
}
Adapters ibp(int count) {
    return {count, NicKind::infiniband, "mlx5_core", 400, "ibp"};
}

const char* const kH100 = "NVIDIA H100 80GB HBM3";

std::vector<Row> aws_rows() {
    return {
        {"aws-p3", kAmazon, "p3.16xlarge", "", "Tesla V100-SXM2-16GB", 8, Wiring::mesh},
        {"aws-p3dn",
         kAmazon,
         "p3dn.24xlarge",
         "",
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {efa(1)}},
        {"aws-p4d",
         kAmazon,
         "p4d.24xlarge",
         "",
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {efa(4)}},
        {"aws-p4d",
         kAmazon,
         "p4de.24xlarge",
         "",
         "NVIDIA A100-SXM4-80GB",
         8,
         Wiring::switches,
         {efa(4)}},
        {"aws-p5", kAmazon, "p5.48xlarge", "", kH100, 8, Wiring::switches, {efa(32)}},
        {"aws-p5", kAmazon, "p5e.48xlarge", "", "NVIDIA H200", 8, Wiring::switches, {efa(32)}},
        {"aws-p5-4xlarge", kAmazon, "p5.4xlarge", "", kH100, 1, Wiring::none, {efa(1)}},
        {"aws-p5en", kAmazon, "p5en.48xlarge", "", "NVIDIA H200", 8, Wiring::switches, {efa(16)}},
        {"aws-p6-b200",
         kAmazon,
         "p6-b200.48xlarge",
         "",
         "NVIDIA B200",
         8,
         Wiring::switches,
         {efa(8)}},
        {"aws-p6-b300",
         kAmazon,
         "p6-b300.48xlarge",
         "",
         "NVIDIA B300",
         8,
         Wiring::switches,
         {efa(16)}},
        {"aws-p6e-gb200",
         kAmazon,
         "p6e-gb200.36xlarge",
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {efa(4)},
         "aarch64"},
        {"aws-g5", kAmazon, "g5.48xlarge", "", "NVIDIA A10G", 8, Wiring::none},
        {"aws-g6", kAmazon, "g6.48xlarge", "", "NVIDIA L4", 8, Wiring::none},
        {"aws-g6", kAmazon, "g6e.48xlarge", "", "NVIDIA L40S", 8, Wiring::none},
        {"aws-g7e", kAmazon, "g7e.48xlarge", "", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 8,
         Wiring::none},
    };
}

std::vector<Row> azure_rows() {
    const std::string maker = "Microsoft Corporation", name = "Virtual Machine";
    return {
        {"azure-nd-v2",
         maker,
         name,
         kAzure,
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {infiniband(1)}},
        {"azure-nd-a100-v4",
         maker,
         name,
         kAzure,
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {infiniband(8)}},
        {"azure-nd-h100-v5", maker, name, kAzure, kH100, 8, Wiring::switches, {infiniband(8)}},
        {"azure-nd-h100-v5",
         maker,
         name,
         kAzure,
         "NVIDIA H200",
         8,
         Wiring::switches,
         {infiniband(8)}},
        {"azure-nd-h100-v5-ethernet",
         maker,
         name,
         kAzure,
         kH100,
         8,
         Wiring::switches,
         {roce(1, 100)}},
        {"azure-nd-mi300x-v5",
         maker,
         name,
         kAzure,
         "AMD Instinct MI300X VF",
         8,
         Wiring::none,
         {infiniband(8)}},
        {"azure-nc-a100-v4", maker, name, kAzure, "NVIDIA A100 80GB PCIe", 4, Wiring::bridge},
        {"azure-nc-h100-v5", maker, name, kAzure, "NVIDIA H100 NVL", 2, Wiring::bridge},
        {"azure-nc-rtxpro6000", maker, name, kAzure, "NVIDIA RTX PRO 6000 Blackwell Server Edition",
         2, Wiring::none},
        {"azure-nd-gb200-v6",
         maker,
         name,
         kAzure,
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {infiniband(4)},
         "aarch64"},
    };
}

std::vector<Row> google_rows() {
    return {
        {"gcp-a2", "Google", kGoogle, "", "NVIDIA A100-SXM4-40GB", 16, Wiring::switches, {gve(1)}},
        {"gcp-a3-high", "Google", kGoogle, "", kH100, 8, Wiring::switches, {gve(5)}},
        {"gcp-a3-mega", "Google", kGoogle, "", kH100, 8, Wiring::switches, {gve(9)}},
        {"gcp-a3-ultra",
         "Google",
         kGoogle,
         "",
         "NVIDIA H200",
         8,
         Wiring::switches,
         {gve(2), roce(8)}},
        {"gcp-a4", "Google", kGoogle, "", "NVIDIA B200", 8, Wiring::switches, {gve(2), roce(8)}},
        {"gcp-a4x",
         "Google",
         kGoogle,
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {gve(2), roce(4)},
         "aarch64"},
        {"gcp-a4x-max",
         "Google",
         kGoogle,
         "",
         "NVIDIA GB300",
         4,
         Wiring::switches,
         {roce(8)},
         "aarch64"},
        {"gcp-g2", "Google", kGoogle, "", "NVIDIA L4", 8, Wiring::none, {gve(1)}},
    };
}

std::vector<Row> other_cloud_rows() {
    return {
        {"oci-a100",
         "Oracle",
         "BM",
         kOracle,
         "NVIDIA A100-SXM4-40GB",
         8,
         Wiring::switches,
         {roce(18, 100)}},
        {"oci-h100", "Oracle", "BM", kOracle, kH100, 8, Wiring::switches, {roce(18, 200)}},
        {"oci-h200", "Oracle", "BM", kOracle, "NVIDIA H200", 8, Wiring::switches, {roce(12)}},
        {"oci-h200", "Oracle", "BM", kOracle, "NVIDIA B200", 8, Wiring::switches, {roce(10)}},
        {"oci-b300", "Oracle", "BM", kOracle, "NVIDIA B300", 8, Wiring::switches, {roce(16)}},
        {"oci-gb200",
         "Oracle",
         "BM",
         kOracle,
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {roce(4)},
         "aarch64"},
        {"oci-mi300x", "Oracle", "BM", kOracle, "AMD Instinct MI300X", 8, Wiring::none, {roce(8)}},
        {"coreweave",
         "Supermicro",
         "SYS",
         "",
         kH100,
         8,
         Wiring::switches,
         {ibp(8)},
         "x86_64",
         "6.5",
         false,
         "kubernetes"},
        {"coreweave-nvl72",
         "Supermicro",
         "SYS",
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {ibp(4)},
         "aarch64",
         "6.5",
         false,
         "kubernetes"},
        {"ibm-h100", "IBM", "x", "ibmcloud", kH100, 8, Wiring::switches, {roce(8)}},
    };
}

std::vector<Row> own_rows() {
    const std::string maker = "Supermicro", name = "SYS-821GE-TNHR";
    return {
        {"dgx-a100",
         "NVIDIA",
         "DGXA100 920-23687-2530-000",
         "",
         "NVIDIA A100-SXM4-80GB",
         8,
         Wiring::switches,
         {infiniband(10)}},
        {"dgx-h100", "NVIDIA", "DGXH100", "", kH100, 8, Wiring::switches, {infiniband(10)}},
        {"dgx-b200", "NVIDIA", "DGXB200", "", "NVIDIA B200", 8, Wiring::switches, {infiniband(10)}},
        {"hgx-a100", maker, name, "", "NVIDIA A100-SXM4-80GB"},
        {"hgx-h100", maker, name, "", kH100},
        {"hgx-h100", maker, name, "", "NVIDIA H800"},
        {"hgx-b200", maker, name, "", "NVIDIA B200"},
        {"dgx-2", "NVIDIA", "NVIDIA DGX-2", "", "Tesla V100-SXM3-32GB", 16},
        {"v100-cube-mesh",
         "NVIDIA",
         "NVIDIA DGX-1 with V100-32",
         "",
         "Tesla V100-SXM2-32GB",
         8,
         Wiring::mesh,
         {infiniband(4)}},
        {"gb200-nvl72",
         maker,
         name,
         "",
         "NVIDIA GB200",
         4,
         Wiring::switches,
         {infiniband(4)},
         "aarch64"},
        {"gh200", maker, name, "", "NVIDIA GH200 480GB", 1, Wiring::none, {}, "aarch64"},
        {"bridged-servers", "Dell Inc.", "PowerEdge R750xa", "", "NVIDIA H100 PCIe", 4,
         Wiring::bridge},
        {"bridged-workstation", "ASUS", "Pro WS", "", "NVIDIA GeForce RTX 3090", 2, Wiring::bridge},
        {"bridged-workstation", "ASUS", "Pro WS", "", "NVIDIA RTX A6000", 4, Wiring::bridge},
        {"geforce-no-nvlink", "ASUS", "Pro WS", "", "NVIDIA GeForce RTX 4090", 2, Wiring::none},
        {"pcie-servers", "Dell Inc.", "PowerEdge R760xa", "", "NVIDIA L40S", 4, Wiring::none},
        {"mi250x", "HPE", "EX235a", "", "AMD Instinct MI250X", 8, Wiring::none},
        {"mi300x", maker, name, "", "AMD Instinct MI300X", 8, Wiring::none},
        {"mi350x", maker, name, "", "AMD Instinct MI355X", 8, Wiring::none},
        {"slingshot",
         "HPE",
         "EX235a",
         "",
         "AMD Instinct MI250X",
         8,
         Wiring::none,
         {{4, NicKind::ethernet, "cxi_ss1", 200, "hsn"}}},
        {"wsl2",
         "",
         "",
         "",
         "NVIDIA GeForce RTX 2080",
         1,
         Wiring::none,
         {},
         "x86_64",
         "5.15.153.1-microsoft-standard-WSL2",
         true},
    };
}

std::vector<Row> all_rows() {
    std::vector<Row> rows = aws_rows();
    for (const auto& more : {azure_rows(), google_rows(), other_cloud_rows(), own_rows()})
        rows.insert(rows.end(), more.begin(), more.end());
    return rows;
}

std::string used(const Machine& machine) {
    const auto found = env::matching_profiles(machine, builtin());
    return found.empty() ? "" : found.front()->name;
}

TEST_CASE("each platform is known by its own profile, and no other is as close") {
    std::vector<std::string> covered = {"pcie-no-p2p"};
    for (const Row& row : all_rows()) {
        CAPTURE(row.profile);
        CAPTURE(row.product);
        CAPTURE(row.gpu);
        const Machine machine = made(row);
        covered.push_back(row.profile);
        CHECK(used(machine) == row.profile);
        std::vector<int> closeness;
        for (const auto& profile : builtin())
            if (env::matches(machine, profile.match))
                closeness.push_back(profiles::specificity(profile.match));
        std::sort(closeness.rbegin(), closeness.rend());
        CHECK((closeness.size() < 2 || closeness[0] > closeness[1]));
    }
    for (const auto& profile : builtin()) {
        CAPTURE(profile.name);
        CHECK(std::find(covered.begin(), covered.end(), profile.name) != covered.end());
    }
}

struct Miss {
    std::string name;
    std::function<void(Row&)> change;
};

TEST_CASE("a machine that differs in one feature is not taken for the platform") {
    const std::vector<Miss> misses = {
        {"another cloud",
         [](Row& row) { row.vendor = "QEMU", row.product = "Standard PC", row.asset_tag = ""; }},
        {"other GPUs", [](Row& row) { row.gpu = "NVIDIA Tesla P4"; }},
        {"no GPUs", [](Row& row) { row.gpus = 0; }},
    };
    for (const Row& row : all_rows()) {
        const auto profile = std::find_if(builtin().begin(), builtin().end(),
                                          [&](const auto& one) { return one.name == row.profile; });
        REQUIRE(profile != builtin().end());
        const auto& match = profile->match;
        const bool identity =
            !match.vendor.empty() || !match.products.empty() || !match.asset_tag.empty();
        for (const Miss& miss : misses) {
            if (miss.name == "another cloud" && !identity) continue;
            const bool by_gpu = !match.gpu_names.empty();
            if (miss.name == "other GPUs" && !by_gpu) continue;
            if (miss.name == "no GPUs" && !by_gpu && !match.gpu_count_min) continue;
            CAPTURE(row.profile);
            CAPTURE(miss.name);
            Row changed = row;
            miss.change(changed);
            CHECK_FALSE(env::matches(made(changed), match));
        }
        Row changed = row;
        CAPTURE(row.profile);
        if (match.gpu_count) {
            changed.gpus = row.gpus - 1;
            CHECK_FALSE(env::matches(made(changed), match));
            changed.gpus = row.gpus + 1;
            CHECK_FALSE(env::matches(made(changed), match));
            changed = row;
        }
        if (!match.links.empty()) {
            changed.wiring = row.wiring == Wiring::none ? Wiring::bridge : Wiring::none;
            CHECK_FALSE(env::matches(made(changed), match));
            changed = row;
        }
        const bool wants_adapters = !match.nics.empty() && match.nics[0].count != 0;
        if (wants_adapters) {
            changed.adapters.clear();
            CHECK_FALSE(env::matches(made(changed), match));
        }
    }
}

TEST_CASE("near misses between platforms of one maker") {
    Row row = {"", "Google", kGoogle, "", kH100, 8, Wiring::switches, {roce(8)}};
    CHECK(used(made(row)) == "hgx-h100");  // Google has no H100 with RoCE
    row = {"", "Microsoft Corporation", "Virtual Machine", kAzure, kH100,
           4,  Wiring::switches,        {infiniband(4)}};
    CHECK(used(made(row)).empty());  // half a machine
    row = {"", "Oracle", "BM", kOracle, kH100, 8, Wiring::switches, {infiniband(16)}};
    CHECK(used(made(row)) == "hgx-h100");  // no RoCE: its values do not belong here
    row = {"", kAmazon, "p5.48xlarge", "", "NVIDIA A100-SXM4-80GB", 8, Wiring::switches};
    CHECK(used(made(row)) == "hgx-a100");  // the name alone is not believed
    row = {"", "Supermicro", "", "", "NVIDIA GH200 480GB", 8, Wiring::switches};
    CHECK(used(made(row)).empty());  // not an H200
    row = {"", "Supermicro", "", "", "NVIDIA RTX A4000", 2, Wiring::bridge};
    CHECK(used(made(row)).empty());  // not an A40
    row = {"", "Supermicro", "", "", kH100, 8, Wiring::switches, {ibp(8)}};
    CHECK(used(made(row)) == "hgx-h100");  // names of adapters are not enough outside a pod
}

TEST_CASE("the cloud's own name of the size excludes where it is known") {
    Machine machine = made({"",
                            "Microsoft Corporation",
                            "Virtual Machine",
                            kAzure,
                            kH100,
                            8,
                            Wiring::switches,
                            {infiniband(8)}});
    CHECK(used(machine) == "azure-nd-h100-v5");
    machine.instance_type = "Standard_ND96isr_H100_v5";
    CHECK(used(machine) == "azure-nd-h100-v5");
    machine.instance_type = "Standard_ND48s_H100_v9";
    CHECK(used(machine) == "hgx-h100");
}

TEST_CASE("without a driver GPUs are known by their ids on the bus") {
    profiles::Profile profile;
    profile.match.gpu_names = {"H100"};
    profile.match.gpu_ids = {"10de:2330"};
    Machine machine = host(1, 8);
    add_gpus(machine, 2, "", PathType::SYS);
    CHECK_FALSE(env::matches(machine, profile.match));
    for (auto& gpu : machine.gpus) gpu.pci_id = "10de:2330";
    CHECK(env::matches(machine, profile.match));
    machine.gpus[1].pci_id = "10de:2331";
    CHECK_FALSE(env::matches(machine, profile.match));
    machine.gpus[1].name = "NVIDIA H100 PCIe";  // the name counts first
    CHECK(env::matches(machine, profile.match));
}

TEST_CASE("what is not known does not fit and is called unknown") {
    profiles::Profile profile;
    profile.match.vendor = "V";
    profile.match.gpu_count = 0;
    profile.match.links = "none";
    profile.match.kernel = "x";
    profile.match.nics = {{{}, {"gve"}, {}, {}, {}, {}, 1, {}, {}, ""}};
    Machine machine;
    machine.gpus_known = machine.nics_known = false;
    const auto features = env::match_features(machine, profile.match);
    REQUIRE(features.size() == 5);
    for (const auto& feature : features) {
        CAPTURE(feature.name);
        CHECK(feature.fit == env::Fit::unknown);
        CHECK(feature.found.empty());
    }
    CHECK_FALSE(env::matches(machine, {}));  // an empty match fits nothing
}

TEST_CASE("adapters are counted by what is sure") {
    Machine machine = made({"", "", "", "", kH100, 1, Wiring::none, {gve(3)}});
    machine.nics[2].driver.clear();
    struct Want {
        std::optional<int> count, least, most;
        env::Fit fit;
    };
    const std::vector<Want> rows = {
        {2, {}, {}, env::Fit::unknown}, {3, {}, {}, env::Fit::unknown},
        {4, {}, {}, env::Fit::differs}, {1, {}, {}, env::Fit::differs},
        {{}, 2, {}, env::Fit::fits},    {{}, 3, {}, env::Fit::unknown},
        {{}, 4, {}, env::Fit::differs}, {{}, {}, 1, env::Fit::differs},
        {{}, {}, 2, env::Fit::unknown}, {{}, 1, 5, env::Fit::unknown},
    };
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i);
        profiles::Match match;
        match.nics = {
            {{}, {"gve"}, {}, {}, {}, {}, rows[i].count, rows[i].least, rows[i].most, ""}};
        CHECK(env::match_features(machine, match).at(0).fit == rows[i].fit);
    }
    CHECK(env::count_nics(machine, {{}, {"gve"}, {}, {}, {}, {}, 1, {}, {}, ""}) == 2);
    CHECK(env::count_nics(machine, {{}, {}, {}, {"enp1"}, {}, {}, 1, {}, {}, ""}) == 1);
    CHECK(env::count_nics(machine, {{}, {}, {}, {"enp*"}, false, 200.0, 1, {}, {}, ""}) == 3);
    CHECK(env::count_nics(machine, {{}, {}, {}, {}, true, {}, 1, {}, {}, ""}) == 0);
}

profiles::Profile layered(const std::string& name, profiles::Layer layer, int gpu_count = 8) {
    profiles::Profile profile;
    profile.name = name;
    profile.layer = layer;
    profile.match.gpu_count = gpu_count;
    return profile;
}

TEST_CASE("the stronger place goes first and a name replaces that of a weaker place") {
    using profiles::Layer;
    const Machine machine = hgx_h100();
    Profiles known = {layered("a", Layer::built_in), layered("b", Layer::site),
                      layered("c", Layer::user), layered("d", Layer::command_line)};
    const auto names = [&] {
        std::string text;
        for (const auto* profile : env::matching_profiles(machine, known)) text += profile->name;
        return text;
    };
    CHECK(names() == "dcba");
    known.push_back(layered("b", Layer::user));
    CHECK(names() == "dca");  // the user's b stands for the site's, and c came first
    known[2].match.gpu_count = 4;
    CHECK(names() == "dba");
    known.push_back(layered("a", Layer::site, 4));
    CHECK(names() == "db");  // the site's a does not fit, and the built-in one is replaced
}

TEST_CASE("values come from the strongest profile that names the variable") {
    using profiles::Layer;
    const Machine machine = hgx_h100();
    profiles::Profile own = layered("own", Layer::user), given = layered("given", Layer::built_in);
    own.values = {{"NCCL_IB_TC", "106", "r", "s", "", "", ""},
                  {"NCCL_IB_SL", "3", "r", "s", "2.40", "", ""}};
    given.values = {{"NCCL_IB_TC", "41", "r", "s", "", "", ""},
                    {"NCCL_IB_SL", "1", "r", "s", "", "", ""}};
    const auto made_plan = env::decide(job(8), machine, {{given, own}, {}, {}, {}}, {}, options());
    CHECK(setting(made_plan, "NCCL_IB_TC").value == "106");
    CHECK(env::origin_text(setting(made_plan, "NCCL_IB_TC")) == "profile:own");
    CHECK(setting(made_plan, "NCCL_IB_SL").value == "1");  // the stronger one's range is another
    CHECK(env::origin_text(setting(made_plan, "NCCL_IB_SL")) == "profile:given");
    CHECK(made_plan.profile == "own");
    REQUIRE(made_plan.profiles.size() == 2);
    CHECK(made_plan.profiles[1].name == "given");
}

TEST_CASE("a profile that was named and does not fit is told of") {
    const Machine machine = hgx_h100();
    const auto wrong = layered("mine", profiles::Layer::command_line, 4);
    const auto made_plan = env::decide(job(8), machine, {{wrong}, {}, {}, {}}, {}, options());
    const auto ids = finding_ids(made_plan);
    CHECK(std::count(ids.begin(), ids.end(), "profile-no-match") == 1);
    const auto right = layered("mine", profiles::Layer::command_line);
    const auto good =
        finding_ids(env::decide(job(8), machine, {{right}, {}, {}, {}}, {}, options()));
    CHECK(std::count(good.begin(), good.end(), "profile-no-match") == 0);
}

}  // namespace
