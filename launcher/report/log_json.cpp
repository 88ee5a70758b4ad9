#include "launcher/report/json.hpp"
#include "launcher/report/json_values.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/mask.hpp"
#include "launcher/report/views.hpp"

/// `nccl` of toporun.report/1. Keys are those of docs/report.md.
namespace toporun::launcher {
namespace {

Json transports_array(const LogSummary& log) {
    Json rows = Json::array();
    for (const LogTransport& row : log.transports) {
        Json entry = {{"from", row.from},
                      {"to", row.to},
                      {"transport", detect::nccl_log::transport_name(row.transport)}};
        if (!row.network.empty()) {
            entry["network"] = row.network;
            entry["gpu_direct_rdma"] = row.gpu_direct;
        }
        rows.push_back(std::move(entry));
    }
    return rows;
}

Json nccl_warnings_array(const LogSummary& log) {
    Json rows = Json::array();
    for (const LogWarning& warning : log.warnings) {
        rows.push_back({{"text", warning.text},
                        {"source", or_null(warning.source)},
                        {"host", or_null(warning.host)},
                        {"pid", warning.pid},
                        {"rank", or_null(warning.rank)},
                        {"count", warning.count}});
    }
    return rows;
}

Json variables_object(const LogSummary& log) {
    Json variables = Json::object();
    for (const LogVariable& variable : log.variables) {
        if (recordable_variable(variable.name)) variables[variable.name] = variable.values;
    }
    return variables;
}

/// true or null: that there is no line of a log proves nothing, whoever starts the program may have
/// dropped the variables.
Json started(const RunFacts& facts) {
    return nccl_use(facts) == NcclUse::started ? Json(true) : Json(nullptr);
}

Json communicators_array(const LogSummary& log) {
    Json rows = Json::array();
    for (const LogCommunicator& row : log.communicators) {
        rows.push_back({{"id", row.id},
                        {"parent", or_null(row.parent)},
                        {"ranks", or_null(row.ranks)},
                        {"members", row.members},
                        {"count", row.count},
                        {"bytes", row.bytes},
                        {"calls", or_null(row.calls)}});
    }
    return rows;
}

}  // namespace

Json nccl_object(const RunFacts& facts) {
    const LogSummary& log = facts.log;
    return {{"started", started(facts)},
            {"library", log.started() ? Json(log.rccl ? "rccl" : "nccl") : Json(nullptr)},
            {"versions", log.versions},
            {"network", log.networks.empty() ? Json(nullptr) : Json(log.networks.front())},
            {"networks", log.networks},
            {"interfaces", interface_names(log)},
            {"bootstrap_interfaces", log.bootstrap_interfaces},
            {"data_interfaces", log.data_interfaces},
            {"rdma_devices", log.rdma_devices},
            {"plugins", log.plugins},
            {"transports", transports_array(log)},
            {"other_connections", log.other_connections},
            {"communicators", communicators_array(log)},
            {"variables", variables_object(log)},
            {"warnings", nccl_warnings_array(log)},
            {"warning_count", log.warning_count},
            {"log",
             {{"lines", log.lines},
              {"unknown_lines", log.unknown},
              {"torn_lines", log.torn},
              {"cut_lines", log.cut},
              {"notes", log.notes}}}};
}

}  // namespace toporun::launcher
