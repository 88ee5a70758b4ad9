#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"
#include "env/doctor/setting_table.hpp"
#include "env/nccl_defaults.hpp"

/// Variables that the user or a conf file sets.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;

constexpr std::string_view kFamily = "settings";

/// Every variable that is set, with the value that NCCL sees and its origin.
struct SetValue {
    std::string name;
    std::string value;
    std::string where;  ///< conf file and line, "" for the environment
};

std::vector<SetValue> set_values(const Patient& patient) {
    std::vector<SetValue> values;
    for (const auto& [name, value] : patient.inputs.user.variables)
        values.push_back({name, value, ""});
    for (const detect::ConfValue& line : patient.inputs.user.conf)
        if (!patient.inputs.user.variable(line.name) &&
            std::none_of(values.begin(), values.end(),
                         [&](const SetValue& known) { return known.name == line.name; }))
            values.push_back({line.name, line.value, line.where});
    return values;
}

std::string where_text(const SetValue& set) {
    return set.where.empty() ? assigned(set.name, set.value)
                             : fmt::format("{} in {}", assigned(set.name, set.value), set.where);
}

bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
        return std::tolower(x) == std::tolower(y);
    });
}

bool applies(const SettingRow& row, const Patient& patient, const std::string& value) {
    if (value.empty()) return false;  // has a finding of its own
    if (row.nccl_since > 0 && !nccl_since(patient, row.nccl_since)) return false;
    if (row.nccl_until > 0 && (!patient.inputs.nccl || *patient.inputs.nccl > row.nccl_until))
        return false;
    if (row.several_nodes && !maybe_several_nodes(patient)) return false;
    if (row.efa && !has_efa(patient.machine())) return false;
    if (row.rack && !in_rack(patient)) return false;
    if (row.nvidia && patient.inputs.rccl) return false;
    switch (row.match) {
        case Match::any:
            return true;
        case Match::equal:
            return value == row.value;
        case Match::caseless:
            return same_word(value, row.value);
        case Match::word: {
            const auto entries = split(value, ',');
            return std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
                return same_word(trim(entry), row.value);
            });
        }
        case Match::not_negative:
            return nccl_integer(value) >= 0;
        case Match::nonzero:
            return nccl_integer(value) != 0;
        case Match::zero:
            return nccl_integer(value) == 0;
    }
    return false;
}

void from_table(const Patient& patient, Verdict& verdict, std::span<const SettingRow> rows,
                Severity severity) {
    for (const SetValue& set : set_values(patient))
        for (const SettingRow& row : rows) {
            const bool name = row.name.ends_with('*')
                                  ? set.name.starts_with(row.name.substr(0, row.name.size() - 1))
                                  : set.name == row.name;
            if (!name || !applies(row, patient, set.value)) continue;
            verdict.find(severity, {.what = fmt::format("{}: {}", set.name, row.what),
                                    .evidence = where_text(set),
                                    .effect = std::string(row.effect),
                                    .fix = fmt::format("unset {}", set.name),
                                    .remark = std::string(row.remark),
                                    .where = set.where});
            break;
        }
}

void obsolete(const Patient& patient, Verdict& verdict) {
    from_table(patient, verdict, obsolete_settings(), Severity::note);
}

void dangerous(const Patient& patient, Verdict& verdict) {
    from_table(patient, verdict, dangerous_settings(), Severity::slow);
}

void debugging(const Patient& patient, Verdict& verdict) {
    from_table(patient, verdict, debugging_settings(), Severity::note);
}

/// strtol's reading: "true" is 0, "4M" is 4.
bool is_whole_number(const std::string& value) {
    const char* text = value.c_str();
    char* end = nullptr;
    std::strtoll(text, &end, 0);
    if (end == text) return false;
    return trim(std::string_view(end)).empty();
}

void not_a_number(const Patient& patient, Verdict& verdict) {
    for (const SetValue& set : set_values(patient)) {
        const auto names = number_settings();
        if (std::find(names.begin(), names.end(), set.name) == names.end()) continue;
        if (set.value.empty() || is_whole_number(set.value)) continue;
        verdict.slow({.what = fmt::format("{} is no number: NCCL takes it as {}",
                                          assigned(set.name, set.value), nccl_integer(set.value)),
                      .evidence = set.where.empty() ? std::string("set in the environment")
                                                    : fmt::format("set in {}", set.where),
                      .effect = "the variable does not do what it says",
                      .fix = fmt::format("write {} as a number", set.name),
                      .where = set.where});
    }
}

void gdr_level(const Patient& patient, Verdict& verdict) {
    for (const char* name : {"NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL"}) {
        const auto value = user_value(patient.inputs, name);
        if (!value || value->empty() || patient.inputs.rccl) continue;
        if (level_of_value(*value, patient.inputs.nccl)) continue;
        verdict.slow({.what = fmt::format("{} is no level of {}", assigned(name, *value),
                                          library_text(patient.inputs)),
                      .evidence = fmt::format("levels of this version: {}",
                                              join(level_names(patient.inputs.nccl), " ")),
                      .effect = "NCCL ignores the value without a word and takes its default",
                      .fix = fmt::format("unset {}", name),
                      .remark = "or write one of the levels in upper case"});
    }
}

/// `[function:][^]list[;function:[^]list ...]`; before 2.24 one list without function
/// (src/graph/tuning.cc). A list with SIMPLE too, as vendors set, leaves the choice to NCCL.
bool forces_ll128(const std::string& value) {
    std::string upper = value;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (const std::string& entry : split(upper, ';')) {
        const std::string list = entry.substr(entry.find(':') + 1);  // npos + 1: from the start
        if (list.starts_with('^')) continue;
        const std::vector<std::string> words = split(list, ',');
        const auto has = [&](std::string_view word) {
            return std::find(words.begin(), words.end(), word) != words.end();
        };
        if (has("LL128") && !has("SIMPLE")) return true;
    }
    return false;
}

/// LL128 over a way that does not keep 128-byte stores together loses data (NVIDIA/nccl issues
/// 740, 831, 1261).
void forced_protocol(const Patient& patient, Verdict& verdict) {
    const auto value = user_value(patient.inputs, "NCCL_PROTO");
    if (!value || value->empty()) return;
    if (!forces_ll128(*value)) return;
    verdict.slow({.what = "NCCL_PROTO forces LL128",
                  .evidence = assigned("NCCL_PROTO", *value),
                  .effect = "wrong data where a path does not keep 128-byte stores together "
                            "(NVIDIA/nccl issues 740, 831, 1261)",
                  .fix = "unset NCCL_PROTO",
                  .remark = "NCCL uses LL128 where it is safe"});
}

void nvls_off(const Patient& patient, Verdict& verdict) {
    if (user_number(patient, "NCCL_NVLS_ENABLE") != 0 || nccl_before(patient, 21805)) return;
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) {
        return is_sxm(gpu) && compute_capability(gpu).value_or(0) >= 90;  // Hopper
    });
    if (gpus.size() < 4) return;
    verdict.note({.what = "NCCL_NVLS_ENABLE=0 leaves the reduction in the NVSwitches unused",
                  .evidence = set_text(patient, "NCCL_NVLS_ENABLE"),
                  .effect = "all-reduce inside the node takes 1.23 to 1.31 times as long on H200 "
                            "and B200 (measured, ml-engineering)",
                  .fix = "unset NCCL_NVLS_ENABLE",
                  .remark = "unless the fabric fails without it"});
}

void socket_threads(const Patient& patient, Verdict& verdict) {
    const auto threads = user_number(patient, "NCCL_SOCKET_NTHREADS");
    const auto sockets = user_number(patient, "NCCL_NSOCKS_PERTHREAD");
    if (!threads && !sockets) return;
    const long long product = threads.value_or(1) * sockets.value_or(1);
    if (threads.value_or(1) <= 16 && product <= 64 && threads.value_or(1) >= -2) return;
    verdict.note({.what = "more socket threads or sockets than NCCL takes",
                  .evidence = fmt::format("NCCL_SOCKET_NTHREADS={} NCCL_NSOCKS_PERTHREAD={}",
                                          threads.value_or(1), sockets.value_or(1)),
                  .effect = "at most 16 threads and 64 sockets in all: NCCL lowers them",
                  .fix = "keep NCCL_SOCKET_NTHREADS below 17 and the product below 65"});
}

void ib_timeout(const Patient& patient, Verdict& verdict) {
    const auto timeout = user_number(patient, "NCCL_IB_TIMEOUT");
    const auto retries = user_number(patient, "NCCL_IB_RETRY_CNT");
    if (timeout && (*timeout < 1 || *timeout > 31))
        verdict.slow({.what = fmt::format("NCCL_IB_TIMEOUT={} is out of range", *timeout),
                      .evidence = "1 to 31; the time is 4.096 us * 2^value",
                      .effect = *timeout == 0 ? "0 waits for ever: a broken link hangs the job"
                                              : "the adapter refuses it as it connects",
                      .fix = "unset NCCL_IB_TIMEOUT",
                      .remark = "or 22 (17 s) for links that flap"});
    if (retries && (*retries < 0 || *retries > 7))
        verdict.slow({.what = fmt::format("NCCL_IB_RETRY_CNT={} is out of range", *retries),
                      .evidence = "the field has 3 bits: 0 to 7",
                      .effect = "the adapter refuses it or takes the low bits",
                      .fix = "unset NCCL_IB_RETRY_CNT",
                      .remark = "7 is the default"});
}

void net_absent(const Patient& patient, Verdict& verdict) {
    const auto value = user_value(patient.inputs, "NCCL_NET");
    if (!value || (*value != "IB" && *value != "ib")) return;
    const auto& nics = patient.machine().nics;
    if (nics.empty()) return verdict.unknown("the network adapters");
    if (std::any_of(nics.begin(), nics.end(), rdma_usable)) return;
    verdict.broken({.what = "NCCL_NET=IB, but no RDMA port is up",
                    .evidence = "no active port in /sys/class/infiniband",
                    .effect = "NCCL finds no network of that name and stops",
                    .fix = "unset NCCL_NET",
                    .remark = "or give the job its adapters"});
}

/// What images set to describe their machine is no news.
constexpr std::array<std::string_view, 6> kDescriptions = {
    "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_DEBUG",     "NCCL_CONF_FILE"};

void conf_values(const Patient& patient, Verdict& verdict) {
    std::vector<std::string> set;
    std::string file;
    for (const detect::ConfValue& line : patient.inputs.user.conf) {
        if (std::find(kDescriptions.begin(), kDescriptions.end(), trim(line.name)) !=
            kDescriptions.end())
            continue;
        set.push_back(assigned(std::string(trim(line.name)), line.value));
        if (file.empty()) file = line.where.substr(0, line.where.rfind(':'));
    }
    if (set.empty()) return;
    const std::size_t more = set.size() > 6 ? set.size() - 6 : 0;
    set.resize(set.size() - more);
    verdict.note({.what = fmt::format("NCCL's conf files set {} variable{}", set.size() + more,
                                      set.size() + more == 1 ? "" : "s"),
                  .evidence = join(set, ", ") + (more > 0 ? fmt::format(" and {} more", more) : ""),
                  .effect = "they hold for every job of this host, also where nobody remembers "
                            "them",
                  .fix = "cat " + shell_word(file),
                  .remark = "look whether they are still wanted; NCCL_CONF_FILE=/dev/null leaves "
                            "~/.nccl.conf out, but not /etc/nccl.conf",
                  .where = file});
}

constexpr Check kChecks[] = {
    {{"variable-dangerous", kFamily, Severity::slow,
      "variables that risk wrong data, hangs or a large loss: profiles nobody meant to keep"},
     dangerous},
    {{"variable-obsolete", kFamily, Severity::note,
      "variables that this version no longer reads, or that have no effect any more"},
     obsolete},
    {{"variable-for-debugging", kFamily, Severity::note,
      "variables for the search of faults that slow every run"},
     debugging},
    {{"nccl-not-a-number", kFamily, Severity::slow,
      "texts in variables that NCCL reads as numbers: they become 0"},
     not_a_number},
    {{"gdr-level-not-a-level", kFamily, Severity::slow,
      "NCCL_NET_GDR_LEVEL against the words of this version"},
     gdr_level},
    {{"proto-ll128-forced", kFamily, Severity::slow, "NCCL_PROTO=LL128 loses data on some paths"},
     forced_protocol},
    {{"nvls-disabled", kFamily, Severity::note,
      "NCCL_NVLS_ENABLE=0 on boards whose switches can reduce"},
     nvls_off},
    {{"socket-threads-range", kFamily, Severity::note,
      "NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD against NCCL's limits"},
     socket_threads},
    {{"ib-timeout-range", kFamily, Severity::slow,
      "NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT against what adapters take"},
     ib_timeout},
    {{"nccl-net-absent", kFamily, Severity::broken, "NCCL_NET=IB where no RDMA port is up"},
     net_absent},
    {{"conf-file-values", kFamily, Severity::note, "what nccl.conf files set"}, conf_values},
};

}  // namespace

std::span<const Check> setting_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
