#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"
#include "env/gid.hpp"

/// GIDs and MTU of RoCE ports.
namespace toporun::env::doctor {
namespace {

using detect::Gid;
using detect::Nic;
using detect::NicKind;

constexpr std::string_view kFamily = "roce";
constexpr int kPlainEthernetMtu = 1500;
/// "active_mtu" of a port without interface: the largest verbs MTU that fits into 1500.
constexpr int kSmallVerbsMtu = 1024;

/// The NCCL_IB_HCA of the job, the user's or the plan's, leaves the port out.
bool is_left_out(const Patient& patient, const Nic& nic) {
    auto value = user_value(patient.inputs, "NCCL_IB_HCA");
    for (const Setting& setting : patient.plan.settings)
        if (!value && setting.name == "NCCL_IB_HCA") value = setting.value;
    return value && !parse_hca_list(*value).takes(nic);
}

/// RoCE ports that are up and whose table is known.
std::vector<const Nic*> ports_with_gids(const Patient& patient, Verdict& verdict) {
    std::vector<const Nic*> ports;
    for (const Nic& nic : patient.machine().nics) {
        if (!is_roce(nic) || !rdma_usable(nic) || is_left_out(patient, nic)) continue;
        if (nic.gids.empty())
            verdict.unknown("the GID tables");
        else
            ports.push_back(&nic);
    }
    return ports;
}

/// The index that NCCL will use, where it is fixed: the user's, or 0 before 2.21.5.
std::optional<long long> fixed_index(const Patient& patient) {
    const auto set = user_number(patient, "NCCL_IB_GID_INDEX");
    if (set && *set >= 0) return set;
    if (nccl_before(patient, 22105)) return 0;
    return std::nullopt;
}

std::string index_text(const Patient& patient, long long index) {
    return user_has(patient.inputs, "NCCL_IB_GID_INDEX")
               ? fmt::format("NCCL_IB_GID_INDEX={}", index)
               : fmt::format("NCCL before 2.21.5 takes GID index {}", index);
}

/// What to do, by the ports that the job uses.
GidAdvice advice_for(const Patient& patient, const Nic& nic) {
    std::vector<int> ports;
    for (const int port : verbs_ports(patient.machine()))
        if (rdma_usable(nic_at(patient, port)) && !is_left_out(patient, nic_at(patient, port)))
            ports.push_back(port);
    return gid_index_advice(patient.inputs, nic, ports);
}

std::string likewise(std::size_t ports) {
    return ports < 2    ? ""
           : ports == 2 ? ", and so it is on 1 more port"
                        : fmt::format(", and so it is on {} more ports", ports - 1);
}

void gid_link_local(const Patient& patient, Verdict& verdict) {
    const auto index = fixed_index(patient);
    if (!index || !maybe_several_nodes(patient)) return;
    std::vector<const Nic*> found;
    for (const Nic* nic : ports_with_gids(patient, verdict)) {
        const Gid* gid = gid_at(*nic, *index);
        if (gid != nullptr && is_link_local(*gid)) found.push_back(nic);
    }
    if (found.empty()) return;
    const Nic& first = *found.front();
    const Gid& gid = *gid_at(first, *index);
    const GidAdvice advice = advice_for(patient, first);
    verdict.slow({.what = fmt::format("GID {} of {} is link-local ({}){}", *index, port_name(first),
                                      gid.address, likewise(found.size())),
                  .evidence = fmt::format("{}; {}", index_text(patient, *index), gid.type),
                  .effect = "it is not routed: beyond the switch ibv_modify_qp fails with "
                            "'Connection timed out'",
                  .fix = advice.fix,
                  .remark = advice.remark,
                  .where = port_name(first)});
}

void gid_v1(const Patient& patient, Verdict& verdict) {
    const auto index = fixed_index(patient);
    if (!index || !maybe_several_nodes(patient)) return;
    std::vector<const Nic*> found;
    for (const Nic* nic : ports_with_gids(patient, verdict)) {
        const Gid* gid = gid_at(*nic, *index);
        if (gid == nullptr || gid->type != "RoCE v1" || is_link_local(*gid)) continue;
        if (best_gid(*nic) != nullptr) found.push_back(nic);  // else roce-no-routable-gid tells
    }
    if (found.empty()) return;
    const Nic& first = *found.front();
    const GidAdvice advice = advice_for(patient, first);
    verdict.slow({.what = fmt::format("GID {} of {} is RoCE v1{}", *index, port_name(first),
                                      likewise(found.size())),
                  .evidence = index_text(patient, *index),
                  .effect = "RoCE v1 is not routed, and lossless settings of the fabric are "
                            "mostly made for v2",
                  .fix = advice.fix,
                  .remark = advice.remark,
                  .where = port_name(first)});
}

void gid_absent(const Patient& patient, Verdict& verdict) {
    const auto index = user_number(patient, "NCCL_IB_GID_INDEX");
    if (!index || *index < 0 || !maybe_several_nodes(patient)) return;
    for (const Nic* nic : ports_with_gids(patient, verdict)) {
        const Gid* gid = gid_at(*nic, *index);
        if (gid != nullptr && !is_null(*gid)) continue;
        verdict.broken({.what = fmt::format("{} has no GID {}", port_name(*nic), *index),
                        .evidence = fmt::format("NCCL_IB_GID_INDEX={}; {} GIDs in use", *index,
                                                nic->gids.size()),
                        .effect = "ibv_modify_qp fails and NCCL stops as it connects to the "
                                  "other nodes",
                        .fix = advice_for(patient, *nic).fix,
                        .remark = advice_for(patient, *nic).remark,
                        .where = port_name(*nic)});
    }
}

void no_routable_gid(const Patient& patient, Verdict& verdict) {
    if (!maybe_several_nodes(patient)) return;
    for (const Nic* nic : ports_with_gids(patient, verdict)) {
        const bool typed = std::all_of(nic->gids.begin(), nic->gids.end(),
                                       [](const Gid& gid) { return !gid.type.empty(); });
        if (!typed || best_gid(*nic) != nullptr) continue;
        const bool v1_only = std::none_of(nic->gids.begin(), nic->gids.end(),
                                          [](const Gid& gid) { return gid.type == "RoCE v2"; });
        verdict.slow({.what = fmt::format(
                          "{} has {}", port_name(*nic),
                          v1_only ? "RoCE v1 GIDs only" : "no RoCE v2 GID with a routable address"),
                      .evidence = fmt::format("{} GIDs in use (show_gids)", nic->gids.size()),
                      .effect = "nodes behind another router are not reached by RDMA",
                      .fix = v1_only ? "show_gids" : "give the port's interface an IP address",
                      .remark = v1_only ? "update the adapter's firmware and the kernel: both have "
                                          "known RoCE v2 for years"
                                        : "",
                      .where = port_name(*nic)});
    }
}

void small_mtu(const Patient& patient, Verdict& verdict) {
    std::vector<std::string> small;
    for (const Nic& nic : patient.machine().nics) {
        if (!is_roce(nic) || !rdma_usable(nic) || !nic.mtu || is_left_out(patient, nic)) continue;
        const bool own_interface = nic.name != nic.rdma_device;
        const int limit = own_interface ? kPlainEthernetMtu : kSmallVerbsMtu;
        if (*nic.mtu <= limit) small.push_back(fmt::format("{} {}", nic.name, *nic.mtu));
    }
    if (small.empty() || !maybe_several_nodes(patient)) return;
    verdict.note({.what = fmt::format("the RoCE ports have a small MTU: {}", join(small, ", ")),
                  .evidence = "MTU of the interface or the port; verbs take 1024 below 1500",
                  .effect = "four times the packets of MTU 4096, and with them more work for "
                            "adapters and switches",
                  .fix = "ip link set DEVICE mtu 9000",
                  .remark = "4200 is enough; if every switch on the way passes it"});
}

void mtu_differs(const Patient& patient, Verdict& verdict) {
    std::map<int, std::vector<std::string>> by_mtu;
    for (const Nic& nic : patient.machine().nics)
        if (nic.kind == NicKind::roce && is_roce(nic) && rdma_usable(nic) && nic.mtu &&
            nic.speed_gbits && *nic.speed_gbits >= 100 && nic.master.empty() &&
            !is_left_out(patient, nic))
            by_mtu[*nic.mtu].push_back(nic.name);
    if (by_mtu.size() < 2 || !maybe_several_nodes(patient)) return;
    std::vector<std::string> words;
    for (const auto& [mtu, names] : by_mtu)
        words.push_back(fmt::format("{} ({})", mtu, join(names, " ")));
    verdict.slow({.what = "the RoCE ports have different MTUs",
                  .evidence = join(words, "; "),
                  .effect = "connections between a large and a small one lose large packets or "
                            "run at the smaller size",
                  .fix = "ip link set DEVICE mtu 9000",
                  .remark = "on all rails of all nodes"});
}

constexpr Check kChecks[] = {
    {{"roce-gid-link-local", kFamily, Severity::slow,
      "the GID that NCCL_IB_GID_INDEX, or index 0 before 2.21.5, selects: link-local ones are "
      "not routed"},
     gid_link_local},
    {{"roce-gid-v1", kFamily, Severity::slow,
      "whether the selected GID is RoCE v1 although the port has v2"},
     gid_v1},
    {{"roce-gid-absent", kFamily, Severity::broken,
      "NCCL_IB_GID_INDEX against the GID table: an empty entry stops NCCL"},
     gid_absent},
    {{"roce-no-routable-gid", kFamily, Severity::slow,
      "whether each RoCE port has a RoCE v2 GID with an address that is routed"},
     no_routable_gid},
    {{"roce-mtu-small", kFamily, Severity::note, "the MTU of RoCE ports: 1500 leaves 1024"},
     small_mtu},
    {{"roce-mtu-differs", kFamily, Severity::slow, "whether the RoCE ports have one MTU"},
     mtu_differs},
};

}  // namespace

std::span<const Check> roce_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
