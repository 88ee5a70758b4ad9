#include "env/match_profile.hpp"

#include <algorithm>
#include <functional>

#include <doctest/doctest.h>

#include "fabrics.hpp"
#include "platforms.hpp"
#include "profiles/variables.hpp"

using namespace toporun::tests;
namespace env = toporun::env;
namespace profiles = toporun::profiles;

namespace {

using Profiles = std::vector<profiles::Profile>;

const Profiles& builtin() {
    static const Profiles known = profiles::builtin_profiles();
    return known;
}

std::string used(const Machine& machine) {
    const auto found = env::matching_profiles(machine, builtin());
    return found.empty() ? "" : found.front()->name;
}

TEST_CASE("each platform is known by its own profile, and no other is as close") {
    std::vector<std::string> covered = {"pcie-no-p2p"};
    for (const Platform& row : all_rows()) {
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

profiles::Profile layered(const std::string& name, profiles::Layer layer, int gpu_count = 8) {
    profiles::Profile profile;
    profile.name = name;
    profile.layer = layer;
    profile.match.gpu_count = gpu_count;
    return profile;
}

/// A profile that is passed over for a closer one on machines that are built.
struct Shadow {
    std::string winner;
    std::string loser;
    std::vector<std::string> told_anyway = {};  ///< by the machine, or of no use on the winner
};

TEST_CASE("what is known of a machine is not lost where a closer profile is used") {
    const std::vector<Shadow> shadows = {
        {"gh200-slingshot", "gh200"},
        {"gh200-slingshot", "slingshot"},
        {"mi250x-slingshot", "mi250x"},
        {"mi250x-slingshot", "slingshot"},
        {"wsl2", "geforce-no-nvlink"},
        {"wsl2", "pcie-no-p2p", {"NCCL_MIN_NCHANNELS", "NCCL_P2P_LEVEL"}}};
    const auto profile = [](const std::string& name) {
        const auto found = std::find_if(builtin().begin(), builtin().end(),
                                        [&](const auto& one) { return one.name == name; });
        REQUIRE(found != builtin().end());
        return *found;
    };
    for (const Shadow& shadow : shadows) {
        const auto winner = profile(shadow.winner), loser = profile(shadow.loser);
        CHECK(specificity(winner.match) > specificity(loser.match));
        for (const auto& value : loser.values) {
            CAPTURE(shadow.winner);
            CAPTURE(shadow.loser);
            CAPTURE(value.name);
            const auto& left = shadow.told_anyway;
            if (std::find(left.begin(), left.end(), value.name) != left.end()) continue;
            CHECK(std::any_of(winner.values.begin(), winner.values.end(),
                              [&](const auto& own) { return own.name == value.name; }));
        }
    }
}

TEST_CASE("two cards under WSL2 are known as such, whatever the driver says of P2P") {
    for (const char* gpu : {"NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4060"})
        for (const PeerAccess access : {PeerAccess::ok, PeerAccess::refused}) {
            CAPTURE(gpu);
            Platform row = {"", "", "", "", gpu, 2, Wiring::none, {}, "x86_64", kWsl2, true};
            Machine machine = made(row);
            machine.peer_access[0][1] = machine.peer_access[1][0] = access;
            CHECK(used(machine) == "wsl2");
        }
}

TEST_CASE("the GH200 on Slingshot is told of LL128 over C2C") {
    Platform row = {"", "HPE", "EX254n", "", "NVIDIA GH200 120GB", 4, Wiring::switches, {hsn(4)}};
    row.architecture = "aarch64";
    const auto made_plan =
        env::decide(job(4), made(row), profiles::builtin_knowledge(), {}, options());
    const auto ll128 = setting(made_plan, "NCCL_LL128_C2C");
    CHECK_FALSE(ll128.value);
    CHECK(ll128.reason.find("wrong results") != std::string::npos);
}

/// Machines and jobs between which every decision has something to say.
std::vector<env::Plan> plans_with(const profiles::Profile& profile) {
    Machine bare = host(2, 16);
    add_gpus(bare, 2, "NVIDIA RTX A6000", PathType::PHB);
    bare.nics_known = true;
    bare.nics = {nic("eth0", NicKind::ethernet, {"192.0.2.1/24"}),
                 nic("eth1", NicKind::ethernet, {"198.51.100.1/24"})};
    for (auto& one : bare.nics) one.speed_gbits = 100;
    Machine wired = bare;
    for (int i = 0; i < 2; ++i) {
        auto port = nic("mlx5_" + std::to_string(i), NicKind::roce, {});
        port.rdma_device = port.name;
        wired.nics.push_back(port);
    }
    std::vector<env::Plan> plans;
    for (const Machine& machine : {bare, wired})
        for (const int nodes : {1, 2}) {
            env::Job one = job(2);
            one.nodes = nodes;
            plans.push_back(env::decide(one, machine, {{profile}, {}, {}, {}}, {}, options()));
        }
    return plans;
}

TEST_CASE("a value that a profile may have is used by some plan") {
    const std::vector<std::pair<std::string, std::string>> values = {
        {"NCCL_P2P_LEVEL", "SYS"},
        {"NCCL_SOCKET_IFNAME", "eth1"},
        {"NCCL_IB_HCA", "=mlx5_0"},
        {"NCCL_IB_GID_INDEX", "3"},
        {"NCCL_CROSS_NIC", "0"},
        {"NCCL_IB_TC", "106"},
        {"NCCL_IB_SL", "3"},
        {"NCCL_IB_QPS_PER_CONNECTION", "4"},
        {"NCCL_NET_GDR_LEVEL", "PIX"},
        {"NCCL_SOCKET_NTHREADS", "4"},
        {"NCCL_NSOCKS_PERTHREAD", "4"},
        {"GLOO_SOCKET_IFNAME", "eth1"},
        {"OMP_NUM_THREADS", "3"},
        {"NCCL_P2P_DISABLE", "1"},
        {"TORCH_NCCL_ENABLE_TIMING", "1"},
        {"NCCL_MIN_NCHANNELS", "8"},
        {"NCCL_PROFILER_PLUGIN", "/x.so"},
        {"NCCL_DEBUG", "WARN"},
        {"NCCL_DEBUG_FILE", "/tmp/nccl.log"}};
    // Every variable that a decision of its own is about is in the list.
    for (const env::Plan& plan : plans_with(layered("none", profiles::Layer::user, 2)))
        for (const env::Setting& one : plan.settings) {
            CAPTURE(one.name);
            const bool listed = std::any_of(values.begin(), values.end(), [&](const auto& value) {
                return value.first == one.name;
            });
            const bool may = !profiles::refused_variable(one.name);
            CHECK((listed || !may));
        }
    for (const auto& [name, value] : values) {
        CAPTURE(name);
        auto profile = layered("own", profiles::Layer::user, 2);
        profile.values = {{name, value, "r", "s", "", "", ""}};
        bool used = false;
        for (const env::Plan& plan : plans_with(profile))
            for (const env::Setting& one : plan.settings)
                used = used || (one.name == name && one.value == value && one.profile == "own");
        CHECK(used == !profiles::refused_variable(name).has_value());
    }
}

TEST_CASE("what joins the GPUs is told in the words of [match]") {
    for (const Platform& row : all_rows()) {
        CAPTURE(row.product);
        CAPTURE(row.gpu);
        const Machine machine = made(row);
        const std::string word = env::links_word(machine);
        CHECK(word.empty() == (row.gpus < 2));
        if (word.empty()) continue;
        profiles::Match match;
        match.links = word;
        CHECK(env::matches(machine, match));
        Machine cut = machine;  // the same GPUs, every pair over the CPUs
        for (auto& line : cut.gpu_paths)
            for (auto& path : line)
                if (path != PathType::LOC) path = PathType::SYS;
        for (auto& line : cut.gpu_links) line.assign(line.size(), 0);
        CHECK(env::matches(cut, match) == (word == "none"));
    }
    Machine unknown = host(1, 4);
    CHECK(env::links_word(unknown).empty());
}

struct Miss {
    std::string name;
    std::function<void(Platform&)> change;
};

TEST_CASE("a machine that differs in one feature is not taken for the platform") {
    const std::vector<Miss> misses = {
        {"another cloud",
         [](Platform& row) {
             row.vendor = "QEMU", row.product = "Standard PC", row.asset_tag = "";
         }},
        {"other GPUs", [](Platform& row) { row.gpu = "NVIDIA Tesla P4"; }},
        {"no GPUs", [](Platform& row) { row.gpus = 0; }},
    };
    for (const Platform& row : all_rows()) {
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
            Platform changed = row;
            miss.change(changed);
            CHECK_FALSE(env::matches(made(changed), match));
        }
        Platform changed = row;
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
    Platform row = {"", "Google", kGoogle, "", kH100, 8, Wiring::switches, {roce(8)}};
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
    given.values.push_back({"NCCL_NVLS_ENABLE", "0", "r", "s", "", "", ""});
    for (const bool verbs : {false, true}) {  // decided with the ports, or by the profile alone
        CAPTURE(verbs);
        Machine wired = machine;
        if (verbs) wired.nics.push_back(rdma_port("mlx5_0", NicKind::ethernet, 400));
        env::Job both = job(8);
        both.nodes = 2;
        const auto spread = env::decide(both, wired, {{given, own}, {}, {}, {}}, {}, options());
        CHECK(has_setting(spread, "NCCL_IB_TC") == verbs);  // sockets read none of them
        if (!verbs) continue;
        CHECK(setting(spread, "NCCL_IB_TC").value == "106");
        CHECK(env::origin_text(setting(spread, "NCCL_IB_TC")) == "profile:own");
        CHECK(setting(spread, "NCCL_IB_SL").value == "1");  // the stronger one's range is another
        CHECK(env::origin_text(setting(spread, "NCCL_IB_SL")) == "profile:given");
    }
    const auto made_plan = env::decide(job(8), machine, {{given, own}, {}, {}, {}}, {}, options());
    CHECK_FALSE(has_setting(made_plan, "NCCL_IB_TC"));  // one node
    CHECK(setting(made_plan, "NCCL_NVLS_ENABLE").value == "0");
    CHECK(made_plan.profile == "own");
    REQUIRE(made_plan.profiles.size() == 2);
    CHECK(made_plan.profiles[1].name == "given");
}

TEST_CASE("what a profile is known by is never nothing") {
    const Machine machine = hgx_h100();
    profiles::Match match;
    match.gpu_count = 8;
    CHECK(env::match_text(env::match_features(machine, match)) == "8 GPUs");
    match.gpu_count.reset();
    match.gpu_count_min = 2;
    CHECK(env::match_text(env::match_features(machine, match)) == "8 GPUs");
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
