#include "launcher/report/json.hpp"

#include <sys/wait.h>

#include "launcher/report/json_values.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/mask.hpp"
#include "launcher/report/tests_view.hpp"
#include "launcher/report/views.hpp"

/// Keys are those of docs/report.md.
namespace toporun::launcher {
namespace {

// --- plan
// -----------------------------------------------------------------------------------------

Json settings_array(const env::Plan& plan) {
    Json settings = Json::array();
    for (const env::Setting& setting : plan.settings) {
        settings.push_back({{"name", setting.name},
                            {"value", or_null(setting.value)},
                            {"origin", env::origin_text(setting)},
                            {"reason", setting.reason},
                            {"evidence", setting.evidence},
                            {"nccl_default", setting.nccl_default},
                            {"exported", setting.exported},
                            {"per_rank", setting.per_rank}});
    }
    return settings;
}

Json pairs_array(const env::Plan& plan) {
    Json pairs = Json::array();
    for (const env::Pair& pair : plan.pairs) {
        pairs.push_back({{"a", pair.a},
                         {"b", pair.b},
                         {"path", detect::path_name(pair.path)},
                         {"transport", or_null(pair.transport)},
                         {"transport_default", or_null(pair.transport_default)}});
    }
    return pairs;
}

Json placements_array(const env::Plan& plan) {
    Json ranks = Json::array();
    for (const env::RankPlacement& rank : plan.ranks) {
        ranks.push_back({{"local_rank", rank.local_rank},
                         {"gpu", or_null(rank.gpu)},
                         {"cpus", or_null(rank.cpus)},
                         {"numa_node", or_null(rank.numa_node)},
                         {"memory_node", or_null(rank.memory_node)},
                         {"nics", rank.nics}});
    }
    return ranks;
}

/// A choice that is no variable.
Json stage(bool done, const std::string& reason) {
    return {{"done", done}, {"reason", or_null(reason)}};
}

/// How the ranks are bound, and why so or why not.
Json binding_object(const env::Plan& plan) {
    const char* mode = plan.bind == env::Bind::core   ? "core"
                       : plan.bind == env::Bind::numa ? "numa"
                                                      : "none";
    return {{"done", plan.binds}, {"mode", mode}, {"reason", or_null(plan.bind_reason)}};
}

}  // namespace

Json findings_array(const std::vector<env::Finding>& findings) {
    Json result = Json::array();
    for (const env::Finding& finding : findings) {
        result.push_back({{"id", finding.id},
                          {"severity", env::severity_text(finding.severity)},
                          {"what", finding.what},
                          {"evidence", finding.evidence},
                          {"effect", finding.effect},
                          {"fix", finding.fix},
                          {"remark", or_null(finding.remark)},
                          {"where", or_null(finding.where)}});
    }
    return result;
}

namespace {

// --- run
// ------------------------------------------------------------------------------------------

Json share(const std::optional<double>& value, profiler::Label label) {
    return {{"value", or_null(value)},
            {"label",
             value ? profiler::label_text(label) : profiler::label_text(profiler::Label::unknown)}};
}

Json communication_object(const RunFacts& facts) {
    const profiler::Measured& measured = facts.measured;
    Json in_flight = share(measured.in_flight, measured.label);
    if (measured.in_flight && measured.label == profiler::Label::estimated) {
        in_flight["low"] = or_null(measured.in_flight_smallest);
        in_flight["high"] = or_null(measured.in_flight_largest);
    }
    return {{"in_flight_share", in_flight},
            {"transfer_share", share(measured.transfer, measured.parts_label)},
            {"waiting_share", share(measured.waiting, measured.parts_label)},
            {"exposed_share", share(std::nullopt, profiler::Label::unknown)},
            {"limit", facts.comm_limit},
            {"window_seconds", measured.in_flight ? Json(measured.window_seconds) : Json(nullptr)},
            {"operations", measured.operations},
            {"lost", measured.lost},
            {"notes", measured.notes}};
}

/// What the profiler measured, else what the subsystem COLL logged.
Json collectives_array(const profiler::Measured& measured, const LogSummary& log) {
    Json rows = Json::array();
    for (const LogCollective& row : log.collectives) {
        if (!measured.rows.empty()) break;
        const Json size = row.size_class == 0 ? Json(nullptr) : Json(row.size_class);
        rows.push_back({{"function", row.function},
                        {"size_class", size},
                        {"count", row.count},
                        {"bytes", row.bytes},
                        {"busbw_gbytes_per_s", nullptr}});
    }
    for (const profiler::OperationRow& row : measured.rows) {
        const Json size = row.size_class == 0 ? Json(nullptr) : Json(row.size_class);
        rows.push_back({{"function", row.function},
                        {"size_class", size},
                        {"count", row.count},
                        {"bytes", row.bytes},
                        {"busbw_gbytes_per_s", or_null(row.busbw_gbytes_per_s)}});
    }
    return rows;
}

/// Tables of nccl-tests.
Json tests_array(const LogSummary& log) {
    Json rows = Json::array();
    for (const LogTest& test : log.tests) {
        rows.push_back({{"function", or_null(test.function)},
                        {"type", test.type},
                        {"op", or_null(test.op)},
                        {"rows", test.rows},
                        {"least_bytes", test.least_bytes},
                        {"most_bytes", test.most_bytes},
                        {"peak_busbw_gbytes_per_s", test.peak_gbytes_per_s},
                        {"peak_bytes", test.peak_bytes},
                        {"model_busbw_gbytes_per_s", or_null(model_gbytes_per_s(log, test))},
                        {"wrong", test.wrong}});
    }
    return rows;
}

Json rank_object(int rank, const RankView& view) {
    Json object = {{"rank", rank}};
    object["local_rank"] = view.record ? or_null(view.record->local_rank) : Json(nullptr);
    object["host"] = view.log      ? or_null(view.log->host)
                     : view.record ? or_null(view.record->host)
                                   : Json(nullptr);
    object["pid"] = view.log        ? Json(view.log->pid)
                    : view.record   ? Json(view.record->pid)
                    : view.measured ? Json(view.measured->key.pid)
                                    : Json(nullptr);
    object["gpu_index"] = view.log ? or_null(view.log->gpu_index) : Json(nullptr);
    object["pci"] = view.log ? or_null(view.log->pci) : Json(nullptr);
    object["cpus"] = view.record ? or_null(view.record->cpus) : Json(nullptr);
    object["bind"] = view.record ? or_null(view.record->bind) : Json(nullptr);
    object["memory"] = view.record ? or_null(view.record->memory) : Json(nullptr);
    object["set_on_arrival"] = view.record ? Json(view.record->missing) : Json(nullptr);
    object["arrived_changed"] = view.record ? Json(view.record->differs) : Json(nullptr);
    const auto wait_status = view.record ? view.record->wait_status : std::nullopt;
    const bool exited = wait_status && WIFEXITED(*wait_status);
    const bool killed = wait_status && WIFSIGNALED(*wait_status);
    object["exit_status"] = exited ? Json(WEXITSTATUS(*wait_status)) : Json(nullptr);
    object["exit_signal"] = killed ? Json(WTERMSIG(*wait_status)) : Json(nullptr);
    object["ended_after_s"] = view.record ? or_null(view.record->ended_after_s) : Json(nullptr);
    object["restart"] = view.record     ? Json(view.record->restart)
                        : view.measured ? Json(view.measured->key.restart)
                                        : Json(nullptr);
    object["in_flight_share"] = view.measured ? Json(view.measured->in_flight) : Json(nullptr);
    object["transfer_share"] = view.measured ? or_null(view.measured->transfer) : Json(nullptr);
    object["waiting_share"] = view.measured ? or_null(view.measured->waiting) : Json(nullptr);
    return object;
}

Json ranks_array(const RunFacts& facts) {
    Json rows = Json::array();
    for (const auto& [rank, view] : rank_views(facts)) rows.push_back(rank_object(rank, view));
    return rows;
}

Json failure_object(const std::optional<failures::Verdict>& failure) {
    if (!failure) return nullptr;
    const Json rank = failure->all_ranks ? Json("all") : or_null(failure->rank);
    return {{"rank", rank},
            {"node", or_null(failure->node)},
            {"cause", failure->cause},
            {"evidence", or_null(failure->evidence)},
            {"where", or_null(failure->where)},
            {"gpu", or_null(failure->gpu)},
            {"pid", or_null(failure->pid)},
            {"suspects", failure->suspects},
            {"severity", failure->severity},
            {"confidence", failures::confidence_text(failure->confidence)},
            {"what", failure->what},
            {"frame", or_null(failure->frame)},
            {"advice", failure->advice},
            {"remarks", failure->remarks}};
}

Json left_array(const std::vector<LeftProcess>& left) {
    Json rows = Json::array();
    for (const LeftProcess& process : left)
        rows.push_back({{"pid", process.pid},
                        {"name", process.name},
                        {"gpus", or_null(process.gpus)},
                        {"ended_by", or_null(process.ended_by)}});
    return rows;
}

Json exit_object(const RunFacts& facts) {
    return {{"status", or_null(facts.exit.status)},
            {"signal", or_null(facts.exit.signal)},
            {"first_failure", failure_object(facts.failure)},
            {"left", left_array(facts.left)}};
}

Json last_rank_object(const profiler::Measured& measured) {
    if (!measured.last) return nullptr;
    return {{"rank", measured.last->key.rank},
            {"share", measured.last->share},
            {"behind_seconds", measured.last->behind_seconds}};
}

std::vector<std::string> warning_lines(const RunFacts& facts) {
    std::vector<std::string> warnings;
    constexpr std::string_view kPrefix = "warning: ";
    if (share_above_limit(facts)) warnings.push_back(share_text(facts).substr(kPrefix.size()));
    warnings.insert(warnings.end(), facts.warnings.begin(), facts.warnings.end());
    return warnings;
}

std::vector<std::string> program_words(const Command& command) {
    if (command.program_at.empty() || command.program_at.front() >= command.argv.size()) return {};
    const auto first =
        command.argv.begin() + static_cast<std::ptrdiff_t>(command.program_at.front());
    return masked_command(std::vector<std::string>(first, command.argv.end()));
}

Json filled_in_array(const Command& command, const Launch& launch, const env::Plan& plan) {
    Json filled = masked_command(filled_in_words(command.argv, launch.argv));
    for (std::string& word : filled_in_variables(plan)) filled.push_back(std::move(word));
    return filled;
}

}  // namespace

std::string settings_json(const env::Plan& plan) {
    return dumped({{"schema", "toporun.settings/1"},
                   {"settings", settings_array(plan)},
                   {"pairs", pairs_array(plan)},
                   {"interfaces", plan.interfaces},
                   {"ranks_per_node", or_null(plan.ranks_per_node)},
                   {"ranks", placements_array(plan)},
                   {"workers",
                    {{"omp_num_threads", or_null(plan.workers.omp_num_threads)},
                     {"loader_workers", or_null(plan.workers.loader_workers)}}},
                   {"binding", binding_object(plan)},
                   {"log", stage(plan.takes_log, plan.log_reason)},
                   {"measurement", stage(plan.measures, plan.measure_reason)},
                   {"host_order", plan.host_order},
                   {"profile", or_null(plan.profile)},
                   {"findings", findings_array(plan.findings)}});
}

std::string dry_run_json(const Command& command, const Launch& launch, const env::Plan& plan) {
    Json exported = Json::object();
    for (const auto& [name, value] : launch.added) exported[name] = value;
    return dumped({{"schema", "toporun.run/1"},
                   {"launcher", command.job.launcher},
                   {"family", or_null(command.family)},
                   {"prefixes", command.prefixes},
                   {"program", program_words(command)},
                   {"nodes", or_null(command.job.nodes)},
                   {"ranks_per_node", or_null(plan.ranks_per_node)},
                   {"command", masked_command(launch.argv)},
                   {"exported", exported},
                   {"filled_in", filled_in_array(command, launch, plan)},
                   {"rewrite", rewrite_text(launch.rewrite)},
                   {"export_only_reason", or_null(command.export_only_reason)},
                   {"notes", launch.notes},
                   {"binding", binding_object(plan)},
                   {"ranks", placements_array(plan)},
                   {"settings", settings_array(plan)},
                   {"findings", findings_array(plan.findings)}});
}

Json report_object(const RunFacts& facts) {
    std::vector<env::Finding> findings = facts.plan.findings;
    for (env::Finding& finding : differences(facts)) findings.push_back(std::move(finding));
    return {{"schema", "toporun.report/1"},
            {"toporun_version", or_null(facts.tool_version)},
            {"command", masked_command(facts.command)},
            {"launcher", facts.job.launcher},
            {"rewrite", facts.logs.empty() ? Json(facts.rewrite) : Json(nullptr)},
            {"run_directory", or_null(facts.run_directory)},
            {"start_utc", or_null(facts.start_utc)},
            {"duration_s", or_null(facts.duration_s)},
            {"exit", exit_object(facts)},
            {"communication", communication_object(facts)},
            {"last_rank", last_rank_object(facts.measured)},
            {"warnings", warning_lines(facts)},
            {"notes", facts.notes},
            {"findings", findings_array(findings)},
            {"next_steps", next_steps(facts)},
            {"nccl", nccl_object(facts)},
            {"collectives", collectives_array(facts.measured, facts.log)},
            {"ranks", ranks_array(facts)},
            {"nodes", node_names(facts)},
            {"steps", nullptr},
            {"settings", settings_array(facts.plan)},
            {"pairs", pairs_array(facts.plan)},
            {"placement", placements_array(facts.plan)},
            {"machine", facts.logs.empty() ? machine_object(facts.machine) : Json(nullptr)},
            {"logs", facts.logs},
            {"replay", replay_commands(facts.log)},
            {"tests", tests_array(facts.log)}};
}

std::string report_json(const RunFacts& facts) {
    return dumped(report_object(facts));
}

}  // namespace toporun::launcher
