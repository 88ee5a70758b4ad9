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
        if (!row.via.empty()) entry["via"] = row.via;
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

Json channels_object(const LogSetup& setup) {
    if (!setup.channels) return nullptr;
    return {{"coll", setup.channels->coll},
            {"collnet", or_null(setup.channels->collnet)},
            {"nvls", or_null(setup.channels->nvls)},
            {"p2p", setup.channels->p2p},
            {"p2p_per_peer", setup.channels->p2p_per_peer}};
}

Json patterns_array(const LogSetup& setup) {
    Json rows = Json::array();
    for (const LogPattern& row : setup.patterns) {
        rows.push_back({{"pattern", row.pattern.pattern},
                        {"channels", row.pattern.channels},
                        {"intra_gbytes_per_s", row.pattern.intra_gbytes_per_s},
                        {"inter_gbytes_per_s", row.pattern.inter_gbytes_per_s},
                        {"intra_path", row.pattern.intra_type},
                        {"inter_path", row.pattern.inter_type},
                        {"lines", row.count}});
    }
    return rows;
}

Json tuning_array(const LogSetup& setup) {
    Json rows = Json::array();
    for (const LogTuning& row : setup.tuning) {
        rows.push_back({{"function", row.function},
                        {"algorithm", row.algorithm},
                        {"protocol", row.protocol},
                        {"latency_us", row.latency_us},
                        {"algbw_gbytes_per_s", row.gbytes_per_s}});
    }
    return rows;
}

Json choices_array(const LogSetup& setup) {
    Json rows = Json::array();
    for (const LogChoice& row : setup.choices) {
        rows.push_back({{"function", or_null(row.function)},
                        {"size_class", row.size_class == 0 ? Json(nullptr) : Json(row.size_class)},
                        {"algorithm", row.algorithm},
                        {"protocol", row.protocol},
                        {"count", row.count}});
    }
    return rows;
}

Json devices_arrays(const LogSetup& setup) {
    Json affinity = Json::array(), nics = Json::array(), direct = Json::array();
    for (const LogAffinity& row : setup.affinity)
        affinity.push_back({{"host", row.host},
                            {"device", row.device},
                            {"cpus", row.cpus},
                            {"gpu_cpus", or_null(row.gpu_cpus)},
                            {"process_cpus", or_null(row.process_cpus)}});
    for (const LogGpuNic& row : setup.gpu_nics) {
        nics.push_back({{"host", row.host},
                        {"gpu", row.gpu},
                        {"net", row.net},
                        {"path", row.path},
                        {"gbytes_per_s", row.gbytes_per_s}});
    }
    for (const LogGpuDirect& row : setup.gpu_direct) {
        direct.push_back(
            {{"network", row.network}, {"device", row.device}, {"enabled", row.enabled}});
    }
    return {{"affinity", affinity}, {"gpu_nics", nics}, {"gpu_direct_rdma", direct}};
}

Json init_object(const LogSetup& setup) {
    if (!setup.slowest_init) return nullptr;
    Json parts = Json::object();
    for (const auto& [name, seconds] : setup.slowest_init->parts) parts[name] = seconds;
    return {{"rank", setup.slowest_init->rank},
            {"seconds", setup.slowest_init->total},
            {"parts", parts}};
}

Json fabric_object(const LogFabric& fabric) {
    Json pairs = Json::array(), devices = Json::array();
    for (const LogQueuePairs& row : fabric.queue_pairs) {
        pairs.push_back({{"device", row.device},
                         {"port", row.port},
                         {"mtu_bytes", row.mtu_bytes},
                         {"gid_index", or_null(row.gid_index)},
                         {"lines", row.count}});
    }
    for (const detect::nccl_log::VirtualDevice& row : fabric.virtual_devices) {
        devices.push_back({{"device", row.number},
                           {"name", row.name},
                           {"mbit_per_s", row.mbit_per_s},
                           {"ports", row.ports}});
    }
    return {{"adapters", fabric.adapters},
            {"cuda_drivers", fabric.cuda_drivers},
            {"queue_pairs", pairs},
            {"virtual_devices", devices},
            {"patterns_without_graph", fabric.patterns_without_graph},
            {"collnet", or_null(fabric.collnet)},
            {"mnnvl_ranks", or_null(fabric.mnnvl_ranks)},
            {"libibverbs_missing", fabric.no_verbs}};
}

/// Kinds that the log has, with their lines.
Json kinds_object(const LineKinds& kinds) {
    Json object = Json::object();
    for (std::size_t i = 0; i < kLineKinds.size(); ++i)
        if (kinds.lines[i] > 0) object[std::string(kLineKinds[i])] = kinds.lines[i];
    if (kinds.topology > 0) object["topology"] = kinds.topology;
    return object;
}

Json setup_object(const LogSetup& setup) {
    Json rings = Json::array();
    for (const LogRing& row : setup.rings)
        rings.push_back({{"channel", row.channel}, {"ranks", row.ranks}, {"cut", row.cut}});
    Json object = {{"channels", channels_object(setup)},
                   {"rings", rings},
                   {"patterns", patterns_array(setup)},
                   {"tuning", tuning_array(setup)},
                   {"choices", choices_array(setup)}};
    object.update(devices_arrays(setup));
    object["nvls"] = {{"supported", or_null(setup.nvls_supported)}, {"set_up", setup.nvls_ready}};
    object["slowest_init"] = init_object(setup);
    object["provider"] = or_null(setup.provider);
    object["fabric"] = fabric_object(setup.fabric);
    return object;
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
            {"setup", setup_object(log.setup)},
            {"variables", variables_object(log)},
            {"warnings", nccl_warnings_array(log)},
            {"warning_count", log.warning_count},
            {"log",
             {{"lines", log.lines},
              {"kinds", kinds_object(log.kinds)},
              {"unknown_lines", log.unknown},
              {"torn_lines", log.torn},
              {"cut_lines", log.cut},
              {"notes", log.notes}}}};
}

}  // namespace toporun::launcher
