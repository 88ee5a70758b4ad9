#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "env/fabric.hpp"
#include "env/gid.hpp"
#include "env/hca.hpp"
#include "env/interface.hpp"

namespace toporun::env {
namespace {

using detect::Nic;

/// The user's list takes ports that are no part of the compute network.
void hca_findings(const Inputs& inputs, const PortRoles& roles, std::vector<Finding>& findings) {
    const auto value = user_value(inputs, "NCCL_IB_HCA");
    if (!value || value->empty() || data_carrier(inputs).kind != Carrier::verbs) return;
    const HcaList list = parse_hca_list(*value);
    std::vector<std::string> more;
    for (const LeftPort& left : roles.left_out) {
        const Nic& nic = nic_at(inputs, left.port);
        if (list.takes(nic))
            more.push_back(fmt::format("{} ({})", printable(port_name(nic)), left.why));
    }
    const bool takes_kept = std::any_of(roles.kept.begin(), roles.kept.end(),
                                        [&](int port) { return list.takes(nic_at(inputs, port)); });
    if (more.empty() || !takes_kept) return;
    std::vector<std::string> words;
    for (const int port : roles.kept) words.push_back(printable(port_name(nic_at(inputs, port))));
    findings.push_back({"ib-hca-extra", Severity::slow,
                        fmt::format("NCCL_IB_HCA={} takes {}", shell_word(*value), more.front()),
                        fmt::format("left out by toporun: {}", join(more, ", ")),
                        "GPUs' data may go by storage or management ports, or twice by one port",
                        fmt::format("export NCCL_IB_HCA={}", shell_word("=" + join(words, ","))),
                        ""});
}

/// Told to be up, not only not told to be down.
bool told_up(const Nic& nic) {
    return nic.port_state.empty() ? nic.state == "up" : nic.port_state == "active";
}

/// The user's list leaves out what serves the GPUs: the port nearest to one of the job, or all that
/// is for their data.
void missing_hca(const Inputs& inputs, const PortRoles& roles, std::vector<Finding>& findings) {
    const auto value = user_value(inputs, "NCCL_IB_HCA");
    if (!value || value->empty() || data_carrier(inputs).kind != Carrier::verbs) return;
    const HcaList list = parse_hca_list(*value);
    std::vector<int> taken;
    for (const int port : roles.taken)
        if (list.takes(nic_at(inputs, port))) taken.push_back(port);
    std::vector<int> kept;
    for (const int port : roles.kept)
        if (told_up(nic_at(inputs, port))) kept.push_back(port);
    if (taken.empty() || kept.size() != roles.kept.size()) return;  // ib-hca-no-match tells it
    std::vector<std::string> used, words, lost;
    for (const int port : kept) {
        words.push_back(printable(port_name(nic_at(inputs, port))));
        if (list.takes(nic_at(inputs, port))) used.push_back(words.back());
    }
    for (const int gpu : gpus_in_job(inputs)) {
        const auto best = nearest_path(inputs.machine, gpu, kept);
        const auto left = nearest_path(inputs.machine, gpu, taken);
        if (best && *best <= detect::PathType::PXB && (!left || *left > *best))
            lost.push_back(
                std::to_string(inputs.machine.gpus[static_cast<std::size_t>(gpu)].index));
    }
    const bool none = used.empty() && kept.size() < roles.taken.size();
    if (lost.empty() && !none) return;
    const bool writable = kept.size() <= kMostHcaEntries;
    findings.push_back(
        {"ib-hca-missing", Severity::slow,
         fmt::format("NCCL_IB_HCA={} takes {} of {} ports for the GPUs' data", shell_word(*value),
                     used.size(), kept.size()),
         lost.empty()
             ? fmt::format("for their data: {}", join(words, ", "))
             : fmt::format("the port nearest to GPU {} is not among them", join(lost, ", ")),
         used.empty() ? "the ports that are for the GPUs' data are idle"
                      : "the data of several GPUs shares what the list leaves, and goes there by "
                        "farther paths",
         writable ? fmt::format("export NCCL_IB_HCA={}", shell_word("=" + join(words, ",")))
                  : "unset NCCL_IB_HCA",
         "", "on all nodes; unless the other ports are on purpose for other jobs"});
}

/// The user's index selects an entry that is empty or not routed. One finding for the first port.
void gid_findings(const Inputs& inputs, const PortRoles& roles, std::vector<Finding>& findings) {
    const auto value = user_value(inputs, "NCCL_IB_GID_INDEX");
    if (!value || data_carrier(inputs).kind != Carrier::verbs) return;
    const long long index = nccl_integer(*value);
    if (index < 0) return;
    for (const int port : roles.taken) {
        const Nic& nic = nic_at(inputs, port);
        if (!is_roce(nic) || nic.gids.empty()) continue;
        const detect::Gid* gid = gid_at(nic, index);
        const bool absent = gid == nullptr || is_null(*gid);
        if (!absent && !is_link_local(*gid)) continue;
        const GidAdvice advice = gid_index_advice(inputs, nic, roles.taken);
        if (absent)
            findings.push_back(
                {"roce-gid-absent", Severity::broken,
                 fmt::format("{} has no GID {}", printable(port_name(nic)), index),
                 fmt::format("NCCL_IB_GID_INDEX={}; {} GIDs in use", index, nic.gids.size()),
                 "ibv_modify_qp fails and NCCL stops as it connects to the other nodes", advice.fix,
                 printable(port_name(nic)), advice.remark});
        else
            findings.push_back(
                {"roce-gid-link-local", Severity::slow,
                 fmt::format("GID {} of {} is link-local ({})", index, printable(port_name(nic)),
                             printable(gid->address)),
                 fmt::format("NCCL_IB_GID_INDEX={}; {}", index, printable(gid->type)),
                 "it is not routed: beyond the switch ibv_modify_qp fails with 'Connection timed "
                 "out'",
                 advice.fix, printable(port_name(nic)), advice.remark});
        return;
    }
}

}  // namespace

std::vector<Finding> fabric_user_findings(const Inputs& inputs, const PortRoles& roles) {
    std::vector<Finding> findings;
    hca_findings(inputs, roles, findings);
    if (findings.empty()) missing_hca(inputs, roles, findings);  // the fix is the same
    gid_findings(inputs, roles, findings);
    return findings;
}

}  // namespace toporun::env
