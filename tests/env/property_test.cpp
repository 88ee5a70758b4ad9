#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "files.hpp"
#include "machines.hpp"
#include "nccl_grammar.hpp"
#include "random_inputs.hpp"
#include "saved_machines.hpp"

/// What holds for every machine, job and environment. The draws come from a fixed seed, so a fault
/// shows again; what it says names the machine and all that was drawn.
namespace toporun::tests {
namespace {

constexpr int kDrawsOfEach = 150;

struct Fault {
    std::string kind;  ///< one example of each is shown
    std::string text;
};

class Faults {
  public:
    void push_back(const std::string& kind) { list_.push_back({kind, kind}); }
    void add(const std::string& kind, const std::string& text) { list_.push_back({kind, text}); }
    const std::vector<Fault>& list() const { return list_; }

  private:
    std::vector<Fault> list_;
};

const profiles::Knowledge& knowledge() {
    static const profiles::Knowledge made = profiles::builtin_knowledge();
    return made;
}

bool is_debug(const std::string& name) {
    return name == "NCCL_DEBUG" || name == "NCCL_DEBUG_SUBSYS" || name == "NCCL_DEBUG_FILE";
}

/// The user's value as the program will see it: conf files hold NCCL's variables only.
std::optional<std::string> users(const Draw& draw, const std::string& name) {
    if (const auto found = draw.user.variables.find(name); found != draw.user.variables.end())
        return found->second;
    if (!name.starts_with("NCCL_")) return std::nullopt;
    for (const detect::ConfValue& line : draw.user.conf)
        if (line.name == name) return line.value;
    return std::nullopt;
}

/// Whether docs/ says when the variable is set.
bool documented(const std::string& name) {
    static const std::string pages = [] {
        const auto docs = std::filesystem::path(TOPORUN_TEST_DATA) / "../../docs";
        return read_file(docs / "variables.md") + read_file(docs / "profiles.md");
    }();
    return pages.find("`" + name + "`") != std::string::npos;
}

/// Values that the shim fills in, as of its first rank.
std::string filled_in(std::string value) {
    for (const std::string word : {"{rank}", "{local_rank}", "{restart}", "{world_size}"})
        for (auto at = value.find(word); at != std::string::npos; at = value.find(word))
            value.replace(at, word.size(), "0");
    return value;
}

/// But for a value of the user's that is quoted in it.
bool several_lines(const std::string& text) {
    return text.find('\n') != std::string::npos && text.find("a\nb") == std::string::npos;
}

void check_setting(const Draw& draw, const env::Setting& setting, Faults& faults) {
    const auto fault = [&](const std::string& what) {
        faults.add(
            setting.name + what.substr(0, what.find(':')),
            fmt::format("{}={} ({}): {}", setting.name, printable(setting.value.value_or("(none)")),
                        env::origin_text(setting), what));
    };
    if (setting.reason.empty()) fault("no reason");
    if (setting.nccl_default.empty()) fault("no default");
    for (const std::string* text : {&setting.reason, &setting.evidence, &setting.nccl_default})
        if (several_lines(*text)) fault("a text of several lines");
    const auto own = users(draw, setting.name);
    if (own && setting.exported &&
        !(setting.replaces && draw.options.take_log && is_debug(setting.name)))
        fault("the user's value would be replaced");
    if (own && !setting.exported && setting.value != own) fault("not the user's value");
    const bool by_user = setting.origin == env::Origin::user || setting.origin == env::Origin::conf;
    if (by_user != (own && !setting.exported)) fault("wrong origin");
    if (!setting.exported) return;
    if (!setting.value) return fault("exported without a value");
    if (setting.evidence.empty()) fault("no evidence");
    if (never_set(setting.name)) fault("never to be set");
    if (!documented(setting.name)) fault("in none of docs/variables.md and docs/profiles.md");
    if (!draw.job.same_host && !is_debug(setting.name)) fault("exported to other hosts");
    if (setting.per_rank && !draw.job.shim) fault("per rank without the shim");
    const auto& leave = draw.options.leave;
    if (std::find(leave.begin(), leave.end(), setting.name) != leave.end()) fault("to be left");
    const Reader reader{draw.machine,
                        detect::nccl_version_code(draw.machine.software.nccl_version)};
    const std::string wrong = grammar_fault(setting.name, filled_in(*setting.value), reader);
    if (!wrong.empty()) fault(wrong);
}

void check_settings(const Draw& draw, const env::Plan& plan, Faults& faults) {
    std::set<std::string> names;
    for (const env::Setting& setting : plan.settings) {
        check_setting(draw, setting, faults);
        if (!names.insert(setting.name).second) faults.push_back("twice: " + setting.name);
    }
    for (const char* always : {"NCCL_P2P_LEVEL", "NCCL_SOCKET_IFNAME"})
        if (!names.contains(always)) faults.push_back(std::string("not decided: ") + always);
    const auto list = exported(plan, "CUDA_VISIBLE_DEVICES");
    if (list && list->find_first_not_of("0123456789,") == std::string::npos &&
        exported(plan, "CUDA_DEVICE_ORDER") != "PCI_BUS_ID" &&
        users(draw, "CUDA_DEVICE_ORDER") != "PCI_BUS_ID")
        faults.push_back("numbers of GPUs in an order that CUDA does not use");
    long long product = 1;
    for (const char* factor : {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"})
        if (const auto value = exported(plan, factor)) product *= std::stoll(*value);
    if (product > 64) faults.push_back("more than 64 sockets");
}

void check_ranks(const Draw& draw, const env::Plan& plan, Faults& faults) {
    if (plan.bind_reason.empty()) faults.push_back("binding without a word");
    CpuSet seen;
    std::set<int> gpus;
    const auto count = static_cast<int>(draw.machine.gpus.size());
    for (const env::RankPlacement& rank : plan.ranks) {
        const std::string name = fmt::format("rank {}: ", rank.local_rank);
        if (rank.gpu && (*rank.gpu < 0 || *rank.gpu >= count))
            faults.add("no GPU", name + "no GPU");
        if (rank.gpu && !gpus.insert(*rank.gpu).second) faults.add("GPU twice", name + "GPU twice");
        if (!plan.binds) continue;
        const CpuSet& allowed = draw.machine.cpu.allowed;  // empty: not known
        if (!allowed.empty() && !allowed.contains(rank.cpus))
            faults.add("mask", name + "CPUs outside of the mask");
        if (plan.bind != env::Bind::numa && !(seen & rank.cpus).empty())
            faults.add("overlap", name + "CPUs of another rank");
        seen = seen | rank.cpus;
    }
}

/// Faster first. NONE stops the job.
int slowness(const std::string& transport) {
    static const std::vector<std::string> order = {"P2P", "P2P-indirect", "SHM", "NET", "NONE"};
    return static_cast<int>(std::find(order.begin(), order.end(), transport) - order.begin());
}

/// A reason to give up P2P that is in the machine itself.
bool has_p2p_fault(const Machine& machine, const env::Plan& plan) {
    if (machine.software.iommu_translating == true) return true;
    for (const auto& row : machine.gpu_acs_redirect)
        if (std::find(row.begin(), row.end(), AcsRedirect::on) != row.end()) return true;
    return std::any_of(plan.settings.begin(), plan.settings.end(), [](const env::Setting& setting) {
        if (setting.origin == env::Origin::measured) return true;
        return setting.name.starts_with("NCCL_P2P") && setting.exported &&
               setting.evidence.find("known") != std::string::npos;
    });
}

void check_pairs(const Draw& draw, const env::Plan& plan, Faults& faults) {
    const auto count = static_cast<int>(draw.machine.gpus.size());
    std::set<std::pair<int, int>> seen;
    bool slower = false;
    for (const env::Pair& pair : plan.pairs) {
        const std::string name = fmt::format("pair {}-{}: ", pair.a, pair.b);
        if (pair.a < 0 || pair.a >= pair.b || pair.b >= count)
            faults.add("no pair", name + "no pair");
        if (!seen.insert({pair.a, pair.b}).second) faults.add("pair twice", name + "twice");
        for (const std::string* transport : {&pair.transport, &pair.transport_default})
            if (slowness(*transport) > 4) faults.add("transport", name + "transport " + *transport);
        slower = slower || slowness(pair.transport) > slowness(pair.transport_default);
    }
    bool own = false;
    for (const char* name : {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"})
        own = own || users(draw, name);
    if (slower && !own && !has_p2p_fault(draw.machine, plan))
        faults.push_back("slower than by default without a fault");
    const bool set = exported(plan, "NCCL_P2P_LEVEL") || exported(plan, "NCCL_P2P_DISABLE");
    if (slower && !own && !set) faults.push_back("slower although nothing is set");
}

void check_findings(const env::Plan& plan, Faults& faults) {
    for (const env::Finding& finding : plan.findings) {
        if (finding.id.empty() || finding.what.empty()) faults.push_back("an empty finding");
        if (several_lines(finding.what)) faults.push_back("several lines");
    }
}

std::string dumped(const env::Plan& plan) {
    std::string text;
    for (const env::Setting& one : plan.settings)
        text += fmt::format("{}={} {} {} {} {} {} {}\n", one.name, one.value.value_or("-"),
                            env::origin_text(one), one.reason, one.evidence, one.nccl_default,
                            one.exported, one.per_rank);
    for (const env::Pair& pair : plan.pairs)
        text +=
            fmt::format("{}-{} {} {}\n", pair.a, pair.b, pair.transport, pair.transport_default);
    for (const env::RankPlacement& rank : plan.ranks)
        text += fmt::format("{} {} {}\n", rank.local_rank, rank.gpu.value_or(-1), rank.cpus.text());
    for (const env::Finding& finding : plan.findings)
        text += finding.id + finding.what + finding.evidence + finding.fix + "\n";
    return text + plan.bind_reason + plan.log_reason + plan.measure_reason + plan.profile;
}

Faults faults_of(const Draw& draw, bool twice) {
    Faults faults;
    profiles::Knowledge known = knowledge();
    known.measured = draw.measured;
    try {
        const env::Plan plan = env::decide(draw.job, draw.machine, known, draw.user, draw.options);
        check_settings(draw, plan, faults);
        check_ranks(draw, plan, faults);
        check_pairs(draw, plan, faults);
        check_findings(plan, faults);
        if (twice && dumped(plan) != dumped(env::decide(draw.job, draw.machine, known, draw.user,
                                                        draw.options)))
            faults.push_back("two plans of one input");
    } catch (const std::exception& fault) {
        faults.push_back(std::string("thrown: ") + fault.what());
    }
    return faults;
}

void check_machines(const std::vector<SavedMachine>& machines, std::uint32_t seed) {
    Dice dice(seed);
    std::map<std::string, int> kinds;
    for (const SavedMachine& saved : machines)
        for (int i = 0; i < kDrawsOfEach; ++i) {
            const Draw drawn = draw(dice, saved.machine);
            const Faults faults = faults_of(drawn, i % 8 == 0);
            for (const Fault& fault : faults.list())
                if (++kinds[fault.kind] == 1)
                    FAIL_CHECK(saved.name << ": " << fault.text << "\n  " << described(drawn));
        }
    for (const auto& [kind, count] : kinds) MESSAGE(kind << ": " << count << " times");
}

TEST_CASE("what holds for every plan holds on our own machines") {
    const auto machines = own_machines();
    REQUIRE(machines.size() > 60);
    check_machines(machines, 1);
}

TEST_CASE("what holds for every plan holds on the collected machines") {
    const auto machines = shared_machines();
    if (machines.empty()) {
        MESSAGE("skipped: no collection in " TOPORUN_SHARED);
        return;
    }
    REQUIRE(machines.size() > 120);
    check_machines(machines, 2);
}

}  // namespace
}  // namespace toporun::tests
