#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/machine_view.hpp"
#include "launcher/report/mask.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_lines.hpp"

namespace toporun::launcher {
namespace {

std::string number(const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string("unknown");
}

/// How toporun's choices reached the ranks.
std::string start_text(const RunFacts& facts) {
    if (facts.rewrite == "env")
        return "each rank was prepared by toporun-python, which then became the Python interpreter";
    if (facts.rewrite == "inserted")
        return "each rank was prepared by toporun-shim, which then became the program";
    std::string text = "the command was started as typed, with environment variables only";
    if (!facts.rewrite_note.empty()) text += ": " + facts.rewrite_note;
    return text;
}

/// RankRecord::bind in words.
std::string bind_text(const std::string& code) {
    static const std::map<std::string, std::string> kTexts = {
        {"bound", "bound to them by toporun"},
        {"kept", "had them already"},
        {"not-planned", "not bound, none were planned for it"},
        {"local-size", "not bound, another number of ranks started than was planned for"},
        {"no-overlap", "not bound, none of the planned CPUs was allowed"},
        {"narrowed", "not bound, the launcher left it a part of the planned CPUs"},
        {"unknown-rank", "not bound, its local rank could not be told"},
        {"unknown-mask", "not bound, the kernel did not tell its CPUs"},
        {"refused", "not bound, the kernel refused"}};
    const auto found = kTexts.find(code);
    return found == kTexts.end() ? "binding unknown" : found->second;
}

std::string memory_text(const std::string& code) {
    if (code == "preferred") return ", memory near them preferred";
    if (code == "user") return ", memory policy as it was set";
    return code == "refused" ? ", memory policy refused by the kernel" : "";
}

/// What became of the exported variables on their way to the rank.
std::string arrived_text(const RankRecord& record) {
    std::string text;
    if (!record.missing.empty())
        text += "; set on arrival: " + printable(join(record.missing, ", "));
    if (!record.differs.empty())
        text += "; arrived with another value: " + printable(join(record.differs, ", "));
    return text;
}

void add_run(const RunFacts& facts, ReportLines& text) {
    text.heading("Run");
    text.line("command: " + shell_line(masked_command(facts.command)));
    text.line(fmt::format(
        "launcher: {}, nodes: {}, ranks per node: {}", facts.job.launcher, number(facts.job.nodes),
        number(facts.job.ranks_per_node ? facts.job.ranks_per_node : facts.plan.ranks_per_node)));
    text.line(start_text(facts));
    if (!facts.start_utc.empty()) text.line("started: " + facts.start_utc);
    text.line(end_text(facts));
    if (!facts.run_directory.empty()) text.line("run directory: " + facts.run_directory);
}

void add_machine(const RunFacts& facts, ReportLines& text) {
    text.heading("Machine");
    text.line(machine_line(facts.machine));
    for (const std::string& note : facts.machine.notes) text.line("note: " + note);
}

std::string_view left_text(const env::Setting& setting) {
    return setting.name.starts_with("NCCL_") ? "left to NCCL" : "left alone";
}

void add_choices(const RunFacts& facts, ReportLines& text) {
    text.heading("Choices");
    if (!facts.plan.profile.empty()) text.line("profile: " + facts.plan.profile);
    for (const env::Setting& setting : facts.plan.settings) {
        text.line(setting.value ? fmt::format("{}={} ({})", setting.name, *setting.value,
                                              env::origin_text(setting))
                                : fmt::format("{}: {}", setting.name, left_text(setting)));
        text.detail("reason", setting.reason);
        text.detail("evidence", setting.evidence);
        text.detail("without it", setting.nccl_default);
    }
    const auto stage = [&](std::string_view name, bool on, const std::string& reason) {
        text.line(
            fmt::format("{}: {}{}{}", name, on ? "yes" : "no", reason.empty() ? "" : ", ", reason));
    };
    stage("ranks bound to CPUs", facts.plan.binds, facts.plan.bind_reason);
    stage("NCCL's log taken", facts.plan.takes_log, facts.plan.log_reason);
    stage("collectives measured", facts.plan.measures, facts.plan.measure_reason);
}

std::string transport_key(const LogTransport& row) {
    std::string key(transport_name(row.transport));
    if (!row.network.empty()) key += "/" + row.network;
    if (row.gpu_direct) key += " with GPUDirect RDMA";
    return key;
}

void add_transport_counts(const LogSummary& log, ReportLines& text) {
    std::map<std::string, int> counts;
    for (const LogTransport& row : log.transports) ++counts[transport_key(row)];
    for (const auto& [name, count] : counts) {
        text.line(fmt::format("connected by {}: {} ordered pairs of ranks", name, count));
    }
    if (log.other_connections > 0) {
        text.line(fmt::format("{} pairs in communicators whose ranks are not known",
                              log.other_connections));
    }
}

void add_warnings_of_nccl(const RunFacts& facts, ReportLines& text) {
    for (const LogWarning& warning : facts.log.warnings) {
        const std::string who = warning.rank
                                    ? rank_text(facts, *warning.rank)
                                    : fmt::format("process {} on {}", warning.pid, warning.host);
        text.line(fmt::format("warning of {} ({} times): {} [{}]", who, warning.count, warning.text,
                              warning.source));
    }
}

void add_log_quality(const LogSummary& log, ReportLines& text) {
    if (log.torn > 0) {
        text.line(
            fmt::format("{} lines could not be read: two processes wrote into one file", log.torn));
    }
    if (log.cut > 0) text.line(fmt::format("{} lines were longer than 64 KiB and cut", log.cut));
    for (const std::string& note : log.notes) text.line("note: " + note);
}

}  // namespace

/// NCCL's own count, else that of the hosts that wrote: where not all ranks did there may be more.
std::string nodes_text(const LogSummary& log) {
    const int hosts = static_cast<int>(log.nodes.size());
    if (log.node_count && hosts > *log.node_count)
        return fmt::format("{} (NCCL counts {}: NVLink joins them, MNNVL)", hosts, *log.node_count);
    if (log.node_count) return number(log.node_count);
    if (hosts == 0) return "unknown";
    const bool all = log.rank_count && static_cast<int>(log.ranks.size()) >= *log.rank_count;
    return all ? std::to_string(hosts) : fmt::format("at least {}", hosts);
}

void add_nccl_lines(const RunFacts& facts, ReportLines& text) {
    text.heading("What NCCL did");
    const LogSummary& log = facts.log;
    const NcclUse use = nccl_use(facts);
    if (use == NcclUse::no_sign) {
        text.line("no sign of NCCL: nothing was written to its log");
    } else if (!log.started()) {
        text.line("unknown, " + (facts.plan.log_reason.empty() ? "there is no log of it"
                                                               : facts.plan.log_reason));
    } else {
        text.list(log.rccl ? "RCCL version" : "NCCL version", log.versions);
        const std::string ranks = log.rank_least > 0 ? fmt::format("at least {}", log.rank_least)
                                                     : number(log.rank_count);
        text.line(fmt::format("ranks: {}, nodes: {}", ranks, nodes_text(log)));
        text.list("network", log.networks);
        text.list("bootstrap interface", log.bootstrap_interfaces);
        text.list("data interface", log.data_interfaces);
        text.list("RDMA devices", log.rdma_devices);
        add_transport_counts(log, text);
        for (const LogVariable& variable : log.variables) {
            text.line(fmt::format("saw {}={}", variable.name, join(variable.values, " and ")));
        }
        add_warnings_of_nccl(facts, text);
    }
    add_log_quality(log, text);
}

namespace {

constexpr std::size_t kRows = 16;  // of a table; report.json has all

void say_left_out(std::size_t rows, ReportLines& text) {
    if (rows > kRows) text.line(fmt::format("{} more in report.json", rows - kRows));
}

void add_rank_shares(const RunFacts& facts, ReportLines& text) {
    const auto& ranks = facts.measured.ranks;
    for (std::size_t i = 0; i < std::min(kRows, ranks.size()); ++i) {
        text.line(fmt::format("{}: {:.1f} % in flight over {}", rank_text(facts, ranks[i].key.rank),
                              ranks[i].in_flight * 100, duration_text(ranks[i].window_seconds)));
    }
    say_left_out(ranks.size(), text);
}

void add_rows(const profiler::Measured& measured, ReportLines& text) {
    for (std::size_t i = 0; i < std::min(kRows, measured.rows.size()); ++i) {
        const profiler::OperationRow& row = measured.rows[i];
        const std::string size = row.size_class == 0 ? std::string("of unknown size")
                                                     : "up to " + format_bytes(row.size_class);
        std::string line = fmt::format("{} {}: {} times", row.function, size, row.count);
        if (row.busbw_gbytes_per_s)
            line += fmt::format(", {:.3g} GB/s busbw", *row.busbw_gbytes_per_s);
        text.line(line);
    }
    say_left_out(measured.rows.size(), text);
}

void add_communication(const RunFacts& facts, ReportLines& text) {
    text.heading("Communication");
    const profiler::Measured& measured = facts.measured;
    if (nccl_use(facts) == NcclUse::no_sign) {
        text.line("unknown: no sign of NCCL");
        return;
    }
    text.line(share_text(facts));
    add_rank_shares(facts, text);
    if (const auto last = last_rank_text(facts)) text.line(*last);
    if (measured.warm_up_left_out) text.line("the first collectives are left out of the shares");
    if (measured.lost > 0) text.line(fmt::format("{} records were lost", measured.lost));
    if (measured.implausible > 0) {
        text.line(fmt::format("{} records were left out: impossible times", measured.implausible));
    }
    add_rows(measured, text);
    for (const std::string& note : measured.notes) text.line("note: " + note);
}

void add_findings(const RunFacts& facts, ReportLines& text) {
    std::vector<env::Finding> findings = facts.plan.findings;
    for (env::Finding& finding : differences(facts)) findings.push_back(std::move(finding));
    add_finding_lines(findings, text);
}

void add_ranks(const RunFacts& facts, ReportLines& text) {
    if (facts.ranks.empty()) return;
    text.heading("Ranks");
    for (std::size_t i = 0; i < std::min(kRows, facts.ranks.size()); ++i) {
        const RankRecord& record = facts.ranks[i];
        text.line(
            fmt::format("rank {}, local rank {}, {} process {}, restart {}, CPUs {}: {}",
                        number(record.rank), number(record.local_rank), record.host, record.pid,
                        record.restart, record.cpus.empty() ? "unknown" : record.cpus.text(),
                        bind_text(record.bind) + memory_text(record.memory) + arrived_text(record) +
                            (rank_end_text(record).empty() ? "" : "; " + rank_end_text(record))));
    }
    say_left_out(facts.ranks.size(), text);
}

}  // namespace

void add_finding_lines(const std::vector<env::Finding>& findings, ReportLines& text) {
    if (findings.empty()) return;
    text.heading("Findings");
    for (const env::Finding& finding : findings) {
        text.line(fmt::format("{} [{}]: {}", env::severity_text(finding.severity), finding.id,
                              finding.what));
        text.detail("evidence", finding.evidence);
        text.detail("effect", finding.effect);
        text.detail("fix", env::fix_text(finding));
    }
}

void add_list_lines(std::string_view title, const std::vector<std::string>& lines,
                    ReportLines& text) {
    if (lines.empty()) return;
    text.heading(title);
    for (const std::string& line : lines) text.line(line);
}

std::string report_text(const RunFacts& facts) {
    ReportLines text;
    add_failure_lines(facts, text);
    add_run(facts, text);
    add_machine(facts, text);
    add_choices(facts, text);
    add_nccl_lines(facts, text);
    add_communication(facts, text);
    add_findings(facts, text);
    add_list_lines("Left over", left_lines(facts), text);
    add_list_lines("Warnings", facts.warnings, text);
    add_list_lines("Notes", facts.notes, text);
    add_list_lines("Next steps", next_steps(facts), text);
    add_ranks(facts, text);
    text.heading("toporun " + printable(facts.tool_version));
    return text.take();
}

}  // namespace toporun::launcher
