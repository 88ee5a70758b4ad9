#include "env/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "env/gid.hpp"
#include "env/hca.hpp"
#include "env/interface.hpp"
#include "env/interface_model.hpp"
#include "env/profile_word.hpp"

namespace toporun::env {
namespace {

using detect::Nic;

/// What one variable was decided from.
struct Network {
    DataCarrier carrier;
    PortRoles roles;
    std::string evidence;
};

/// With a profile's word on it.
void add_setting(const Inputs& inputs, Setting wanted, Decision& decision) {
    const bool list = wanted.name == "NCCL_IB_HCA";
    const auto unfit = [&](const std::string& value) -> std::string {
        if (!list) return "";
        const HcaList hca = parse_hca_list(value);
        const std::vector<int> ports = verbs_ports(inputs.machine);
        return std::none_of(ports.begin(), ports.end(),
                            [&](int port) { return hca.takes(nic_at(inputs, port)); })
                   ? "it selects no RDMA port of this host: NCCL would fall back to sockets"
                   : "";
    };
    decision.settings.push_back(
        settle(inputs, with_profile(inputs, std::move(wanted), decision.findings, unfit)));
}

std::string names_of(const Inputs& inputs, const std::vector<int>& ports) {
    constexpr std::size_t kNamed = 12;
    std::vector<std::string> names;
    for (const int port : ports) {
        if (names.size() == kNamed) {
            names.push_back(fmt::format("{} more", ports.size() - kNamed));
            break;
        }
        names.push_back(printable(port_name(nic_at(inputs, port))));
    }
    return names.empty() ? "none" : join(names, ", ");
}

/// "mlx5_4:1, mlx5_5:1: farther from every GPU (SYS) than the others (PIX)", one part a reason.
std::string left_out_text(const Inputs& inputs, const std::vector<LeftPort>& left) {
    std::vector<std::string> reasons, parts;
    std::map<std::string, std::vector<int>> by_reason;
    for (const LeftPort& one : left) {
        if (by_reason.count(one.why) == 0) reasons.push_back(one.why);
        by_reason[one.why].push_back(one.port);
    }
    for (const std::string& reason : reasons)
        parts.push_back(fmt::format("{}: {}", names_of(inputs, by_reason[reason]), reason));
    return join(parts, "; ");
}

/// Names that NCCL's list can hold.
bool writable_device(const Nic& nic) {
    const std::string& name = *nic.rdma_device;
    return !name.empty() && name.find_first_of(",:^= ") == std::string::npos &&
           printable(name) == name;
}

Setting hca_list(const Inputs& inputs, const Network& network) {
    const PortRoles& roles = network.roles;
    Setting wanted = left_alone("NCCL_IB_HCA", "", network.evidence,
                                fmt::format("{} takes every active port: {}", library_text(inputs),
                                            names_of(inputs, roles.taken)));
    const bool named = std::all_of(roles.kept.begin(), roles.kept.end(),
                                   [&](int port) { return writable_device(nic_at(inputs, port)); });
    if (roles.left_out.empty()) {
        wanted.reason = "nothing tells a storage or management port or a duplicate from the others";
    } else if (roles.kept.size() > kMostHcaEntries || !named) {
        wanted.reason = "the ports for the GPUs' data do not fit into NCCL's list";
    } else {
        std::vector<std::string> words;
        for (const int port : roles.kept) words.push_back(port_name(nic_at(inputs, port)));
        wanted.value = "=" + join(words, ",");
        wanted.origin = Origin::detected;
        wanted.reason = fmt::format("the data between GPUs stays on {} of {} ports; left out: {}",
                                    roles.kept.size(), roles.taken.size(),
                                    left_out_text(inputs, roles.left_out));
    }
    return wanted;
}

std::string gdr_evidence(const Inputs& inputs, const PortRoles& roles) {
    std::map<detect::PathType, int> gpus;
    for (const int gpu : inputs.visible)
        if (const auto path = nearest_path(inputs.machine, gpu, roles.kept)) ++gpus[*path];
    std::vector<std::string> parts;
    for (const auto& [path, count] : gpus)
        parts.push_back(
            fmt::format("{} for {} GPU{}", detect::path_name(path), count, count == 1 ? "" : "s"));
    return parts.empty() ? "paths between GPUs and adapters not known"
                         : "nearest adapter: " + join(parts, ", ");
}

Setting gdr_level(const Inputs& inputs, const Network& network) {
    const bool c2c = inputs.nccl && *inputs.nccl >= 22900;
    return left_alone("NCCL_NET_GDR_LEVEL",
                      "beyond NCCL's level only a measurement tells whether GPUDirect RDMA or the "
                      "way through host memory is faster",
                      gdr_evidence(inputs, network.roles),
                      fmt::format("{}: GPUDirect RDMA up to {}", library_text(inputs),
                                  c2c ? "P2C where the CPU is reached by C2C, else PXB" : "PXB"));
}

void add_verbs_settings(const Inputs& inputs, const Network& network, Decision& decision) {
    std::vector<Setting> wanted = {hca_list(inputs, network)};
    const auto& kept = network.roles.kept;
    const bool roce = std::any_of(kept.begin(), kept.end(),
                                  [&](int port) { return is_roce(nic_at(inputs, port)); });
    if (roce) wanted.push_back(decide_gid_index(inputs, kept));
    if (kept.size() > 1)
        wanted.push_back(left_alone(
            "NCCL_CROSS_NIC",
            "0 is right only where rails are not connected with each other, which no host shows",
            network.evidence,
            "2: a ring stays on its rail where that costs nothing, and crosses where it gains"));
    wanted.push_back(left_alone(
        "NCCL_IB_QPS_PER_CONNECTION",
        "more queue pairs help where the fabric spreads flows (ECMP), which a measurement shows",
        network.evidence, "1"));
    if (roce)
        for (const char* name : {"NCCL_IB_TC", "NCCL_IB_SL"})
            wanted.push_back(left_alone(name,
                                        "which class is lossless is the site's policy and stands "
                                        "in its switches",
                                        network.evidence, "0"));
    if (!inputs.visible.empty()) wanted.push_back(gdr_level(inputs, network));
    for (Setting& one : wanted) add_setting(inputs, std::move(one), decision);
}

/// The plugin's own; what it does not read is left alone all the more.
void add_plugin_settings(const Inputs& inputs, const Network& network, Decision& decision) {
    const bool ports = !network.roles.taken.empty();
    if (!ports && !has_efa(inputs.machine)) return;
    const std::string reason =
        fmt::format("the network plugin {} chooses its adapters and their settings itself",
                    network.carrier.name);
    for (const char* name : {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}) {
        if (std::string_view(name) != "NCCL_IB_HCA" && !user_has(inputs, name)) continue;
        add_setting(inputs, left_alone(name, reason, network.evidence, "as the plugin decides"),
                    decision);
    }
}

constexpr double kFastGbits = 25;

/// What NCCL does by itself with sockets, by the adapter's PCI vendor
/// (src/transport/net_socket.cc).
std::string socket_default(const Inputs& inputs, const std::vector<int>& used) {
    const auto has_driver = [&](std::string_view driver) {
        return std::any_of(used.begin(), used.end(),
                           [&](int position) { return nic_at(inputs, position).driver == driver; });
    };
    if (has_driver("ena")) return "2 threads with 8 sockets each: its choice for Amazon's adapters";
    if (has_driver("gve")) return "4 threads with 1 socket each: its choice for Google's adapters";
    return "one socket, served by the main proxy thread";
}

void add_socket_settings(const Inputs& inputs, const Network& network, Decision& decision) {
    if (!interfaces_known(inputs.machine)) return;
    const std::vector<int> used = socket_interfaces(inputs);
    double fastest = 0;
    std::vector<std::string> speeds;
    for (const int position : used) {
        const Nic& nic = nic_at(inputs, position);
        fastest = std::max(fastest, nic.speed_gbits.value_or(0));
        if (nic.speed_gbits && speeds.size() < 4)
            speeds.push_back(fmt::format("{} {:g} Gb/s", printable(nic.name), *nic.speed_gbits));
    }
    const bool chosen =
        user_has(inputs, "NCCL_SOCKET_NTHREADS") || user_has(inputs, "NCCL_NSOCKS_PERTHREAD");
    if (fastest < kFastGbits && !chosen) return;
    const std::string own = socket_default(inputs, used);
    const bool vendor = own.find("choice for") != std::string::npos;
    const std::string reason =
        vendor ? "NCCL has its own numbers for this provider's adapters"
               : "more threads and sockets help on some networks and hurt on others (NVIDIA/nccl "
                 "issue 209): measure products up to 64, at most 16 threads, with spare cores";
    const std::string evidence =
        network.evidence + (speeds.empty() ? "" : "; " + join(speeds, ", "));
    for (const char* name : {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"})
        add_setting(inputs, left_alone(name, reason, evidence, own), decision);
}

}  // namespace

Decision decide_fabric(const Inputs& inputs) {
    Decision decision;
    const Span span = job_span(inputs);
    if (!span.several) return decision;
    Network network{data_carrier(inputs), port_roles(inputs.machine), {}};
    network.evidence = network.carrier.evidence;
    switch (network.carrier.kind) {
        case Carrier::verbs:
            if (!network.roles.taken.empty()) add_verbs_settings(inputs, network, decision);
            break;
        case Carrier::plugin:
            add_plugin_settings(inputs, network, decision);
            break;
        case Carrier::sockets:
            add_socket_settings(inputs, network, decision);
            break;
        case Carrier::unknown:
            break;
    }
    for (Finding& finding : fabric_user_findings(inputs, network.roles))
        decision.findings.push_back(std::move(finding));
    return decision;
}

}  // namespace toporun::env
