#include "env/launcher_binding.hpp"

#include <string>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

constexpr const char* kFour = "OMPI_MCA_hwloc_base_binding_policy";
constexpr const char* kFive = "PRTE_MCA_hwloc_default_binding_policy";

env::Job mpi(int ranks, int major = 4) {
    env::Job made = job(ranks);
    made.launcher = "openmpi";
    made.open_mpi = major;
    return made;
}

std::string warning(const env::Plan& plan) {
    for (const env::Finding& finding : plan.findings)
        if (finding.id == "openmpi-default-binding")
            return std::string(env::severity_text(finding.severity)) + ": " + finding.what + ": " +
                   finding.fix + ", " + finding.remark;
    return "";
}

TEST_CASE("Open MPI's own binding is switched off where its ranks start here") {
    for (const int ranks : {1, 2, 8}) {
        CAPTURE(ranks);
        const auto made = plan(hgx_h100(), mpi(ranks));
        CHECK(exported(made, kFour) == "none");
        CHECK(warning(made).empty());
        CHECK(exported(plan(hgx_h100(), mpi(ranks, 5)), kFive) == "none");
    }
    CHECK_FALSE(has_setting(plan(hgx_h100(), job(8)), kFour));
    CHECK_FALSE(has_setting(plan(hgx_h100(), mpi(8)), kFive));
}

TEST_CASE("a binding that somebody chose stays") {
    env::Job chosen = mpi(8);
    chosen.binding_given = true;
    CHECK_FALSE(exported(plan(hgx_h100(), chosen), kFour));
    CHECK(warning(plan(hgx_h100(), chosen)).empty());
    const auto set = plan(hgx_h100(), mpi(8), user({{kFour, "core"}}));
    CHECK_FALSE(exported(set, kFour));
    CHECK(setting(set, kFour).origin == env::Origin::user);
    CHECK(warning(set).empty());
}

TEST_CASE("what toporun cannot switch off is said with the words to add") {
    const auto away = [](int ranks, int major) {
        env::Job made = mpi(ranks, major);
        made.same_host = made.shim = false;
        if (ranks == 0) made.ranks_per_node.reset();
        return warning(plan(hgx_h100(), made));
    };
    CHECK(away(8, 4) ==
          "note: Open MPI binds each rank to one NUMA node by default: mpirun --bind-to none, or "
          "--map-by ppr:4:numa --bind-to numa");
    CHECK(away(2, 4) ==
          "slow: Open MPI binds each rank to one core by default: mpirun --bind-to none, or "
          "--map-by ppr:1:numa --bind-to numa");
    env::Job spread = mpi(1);  // four ranks on four hosts
    spread.nodes = 4;
    spread.same_host = spread.shim = false;
    CHECK(warning(plan(hgx_h100(), spread))
              .starts_with("note: Open MPI binds each rank to one NUMA"));
    CHECK(away(8, 5).starts_with("slow: Open MPI binds each rank to one core"));
    CHECK(away(0, 4) ==
          "slow: Open MPI binds two ranks or fewer to one core each, more to one NUMA node each: "
          "mpirun --bind-to none, or --bind-to numa");
    env::Options how = options();
    how.bind = env::Bind::none;
    const auto off = plan(hgx_h100(), mpi(8), {}, how);
    CHECK_FALSE(exported(off, kFour));
    CHECK_FALSE(warning(off).empty());
    how = options();
    how.leave = {kFour};
    CHECK_FALSE(warning(plan(hgx_h100(), mpi(8), {}, how)).empty());
}

}  // namespace
