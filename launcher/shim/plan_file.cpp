#include "launcher/shim/plan_file.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/filled_in.hpp"
#include "env/rank_count.hpp"

namespace toporun::launcher {
namespace {

constexpr std::array<std::string_view, 3> kLogVariables = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
                                                           "NCCL_DEBUG_FILE"};
constexpr std::string_view kRecordStart = "rank-record\t";

bool is_log_variable(const std::string& name) {
    return std::find(kLogVariables.begin(), kLogVariables.end(), name) != kLogVariables.end();
}

/// One decision: all that are not set, or none (the key `rank`).
bool is_rank_variable(const std::string& name) {
    return std::find(env::kRankVariables.begin(), env::kRankVariables.end(), name) !=
           env::kRankVariables.end();
}

bool is_variable_name(const std::string& name) {
    constexpr std::string_view kCharacters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return !name.empty() && name.find_first_not_of(kCharacters) == std::string::npos;
}

/// One line's worth: backslash and line end escaped, cut at a NUL, which no variable can hold.
std::string escaped(std::string_view value) {
    std::string out;
    for (const char c : value.substr(0, value.find('\0'))) {
        if (c == '\\')
            out += "\\\\";
        else if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

/// A path that fits a line as it is; "" for one that does not.
std::string plain_path(const std::string& path) {
    return path.find_first_of(std::string("\n\0", 2)) == std::string::npos ? path : "";
}

std::string binding_lines(const env::Plan& plan) {
    if (!plan.binds) return {};
    std::string text = fmt::format("local_size {}\n", plan.ranks.size());
    for (const env::RankPlacement& rank : plan.ranks)
        if (!rank.cpus.empty())
            text += fmt::format("cpus {} {}\n", rank.local_rank, rank.cpus.text());
    for (const env::RankPlacement& rank : plan.ranks)
        if (!rank.cpus.empty() && rank.memory_node)
            text += fmt::format("memory {} {}\n", rank.local_rank, *rank.memory_node);
    return text;
}

std::string log_directory_line(const std::string& log_file) {
    const std::size_t slash = log_file.rfind('/');
    if (slash == std::string::npos) return {};
    return fmt::format("log_directory {}\n",
                       escaped(log_file.substr(0, std::max(slash, std::size_t{1}))));
}

/// Variables of the launcher itself, not of its ranks.
bool is_for_launcher(const std::string& name) {
    return name.starts_with("PET_") || name.starts_with("OMPI_") || name.starts_with("PRTE_") ||
           name.starts_with("I_MPI_");
}

/// Whose variables tell the ranks of a launcher their place (rank.c).
std::string rank_source(const std::string& launcher) {
    for (const char* name : {"accelerate", "axolotl", "colossalai", "fabric", "llamafactory",
                             "swift", "trl", "xtuner"})
        if (launcher == name) return "torchrun";
    if (launcher == "deepspeed" || launcher == "composer") return "env";
    return launcher == "horovodrun" ? "horovod" : launcher;
}

std::string inherited_lines(const std::map<std::string, std::string>& environment) {
    // The first variable of each set in rank.c.
    constexpr std::array<const char*, 9> kMarkers = {
        "TORCHELASTIC_RUN_ID", "LOCAL_RANK",         "OMPI_COMM_WORLD_RANK",
        "MPI_LOCALRANKID",     "HOROVOD_RANK",       "SLURM_STEP_ID",
        "FLUX_TASK_RANK",      "JSM_NAMESPACE_RANK", "MV2_COMM_WORLD_RANK"};
    std::string text;
    for (const char* name : kMarkers)
        if (const auto found = environment.find(name);
            found != environment.end() && plain_path(found->second) == found->second)
            text += fmt::format("inherited {} {}\n", name, found->second);
    return text;
}

std::string variable_lines(const env::Job& job, const env::Plan& plan) {
    std::string text;
    std::string log;
    for (const env::Setting& setting : plan.settings) {
        if (setting.exported && !setting.per_rank && setting.value &&
            is_variable_name(setting.name) && !is_for_launcher(setting.name))
            text += fmt::format("{} {} {}\n", job.other_hosts ? "set" : "expect", setting.name,
                                escaped(*setting.value));
        // For torchrun itself, not for one that a worker starts.
        if (setting.exported && setting.value &&
            (setting.name == env::kRankCountVariable ||
             std::find(env::kRendezvousVariables.begin(), env::kRendezvousVariables.end(),
                       setting.name) != env::kRendezvousVariables.end()))
            text += fmt::format("unset {} {}\n", setting.name, escaped(*setting.value));
        if (!setting.exported || !setting.per_rank || !setting.value) continue;
        if (!is_variable_name(setting.name)) continue;
        const bool is_log = is_log_variable(setting.name);
        const std::string_view key = is_rank_variable(setting.name) ? "rank"
                                     : !is_log                      ? "set"
                                     : setting.replaces             ? "take-log"
                                                                    : "log";
        (is_log ? log : text) +=
            fmt::format("{} {} {}\n", key, setting.name, escaped(*setting.value));
        if (setting.name == "NCCL_DEBUG_FILE") log += log_directory_line(*setting.value);
    }
    return text + log;
}

using Fields = std::map<std::string, std::string, std::less<>>;

std::string field(const Fields& fields, std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
}

std::optional<int> count(const Fields& fields, std::string_view name) {
    const std::optional<long long> value = to_integer(field(fields, name));
    if (!value || *value < 0 || *value > 1'000'000'000) return std::nullopt;
    return static_cast<int>(*value);
}

detect::CpuSet cpus(const std::string& list) {
    try {
        return detect::CpuSet::parse(list);
    } catch (const Error&) {
        return {};  // a mask cut at the end of the shim's buffer, or damage: unknown
    }
}

}  // namespace

std::string shim_plan_text(const env::Job& job, const env::Plan& plan,
                           const detect::CpuSet& allowed, const std::string& records_file,
                           const std::map<std::string, std::string>& environment) {
    std::string text = "toporun-shim 1\n";
    text += fmt::format("launcher {}\n", rank_source(job.launcher));
    utsname host{};
    if (job.other_hosts && ::uname(&host) == 0)
        text += fmt::format("host {}\n", plain_path(static_cast<const char*>(host.nodename)));
    if (const std::string path = plain_path(records_file); !path.empty())
        text += fmt::format("records {}\n", path);
    if (!allowed.empty()) text += fmt::format("allowed {}\n", allowed.text());
    return text + inherited_lines(environment) + binding_lines(plan) + variable_lines(job, plan);
}

std::optional<RankRecord> parse_rank_record(std::string_view line) {
    if (!line.starts_with(kRecordStart)) return std::nullopt;
    Fields fields;
    for (const std::string& part : split(line.substr(kRecordStart.size()), '\t')) {
        const std::size_t equals = part.find('=');
        if (equals != std::string::npos) fields[part.substr(0, equals)] = part.substr(equals + 1);
    }
    if (field(fields, "end") != "1") return std::nullopt;
    RankRecord record;
    record.rank = count(fields, "rank");
    record.local_rank = count(fields, "local_rank");
    record.local_size = count(fields, "local_size");
    record.world_size = count(fields, "world_size");
    record.restart = count(fields, "restart").value_or(0);
    record.launcher = field(fields, "launcher");
    record.confident = field(fields, "confident") == "1";
    record.host = field(fields, "host");
    record.pid = count(fields, "pid").value_or(0);
    record.cpus = cpus(field(fields, "cpus"));
    record.narrowed = field(fields, "narrowed") == "1";
    record.bind = field(fields, "bind");
    record.memory = field(fields, "memory");
    record.log = field(fields, "log");
    const auto names = [&](std::string_view name) {
        const std::string list = field(fields, name);
        return list.empty() ? std::vector<std::string>{} : split(list, ',');
    };
    record.set = names("set");
    record.missing = names("missing");
    record.differs = names("differs");
    record.error_file = field(fields, "error_file");
    return record;
}

std::vector<RankRecord> parse_rank_records(std::string_view text) {
    std::vector<RankRecord> records;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) break;  // still being written
        if (auto record = parse_rank_record(text.substr(0, end)))
            records.push_back(std::move(*record));
        text.remove_prefix(end + 1);
    }
    return records;
}

}  // namespace toporun::launcher
