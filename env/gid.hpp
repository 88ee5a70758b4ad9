#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/inputs.hpp"

/// The GID table of RoCE ports, and the entry that NCCL takes of it.
namespace toporun::env {

/// "::ffff:10.0.0.1" as 10.0.0.1, others as they are.
std::string plain_address(const detect::Gid& gid);
bool is_null(const detect::Gid& gid);
bool is_link_local(const detect::Gid& gid);

/// RoCE v2 with an address that is neither null nor link-local.
bool is_routable_v2(const detect::Gid& gid);

/// RoCE v2 of a routable address, IPv4 first; nullptr when the port has none.
const detect::Gid* best_gid(const detect::Nic& nic);
const detect::Gid* gid_at(const detect::Nic& nic, long long index);

/// The index that NCCL 2.21.5 and later choose by themselves with its default settings (IPv4, RoCE
/// v2): from 0 on, to an entry of the wanted family where the present one has another, or to a
/// valid one of the wanted version where the present one is of another or invalid
/// (src/transport/net_ib.cc, ncclUpdateGidIndex). The table's types must be known.
int automatic_gid_index(const detect::Nic& nic);

/// The version chooses the index by itself; an unknown version counts as the newest.
bool chooses_gid(const Inputs& inputs);

/// A command, and what to know of it.
struct GidAdvice {
    std::string fix;
    std::string remark;
};

/// What to do where the index of the user's, or 0 of an old version, is wrong on this port. An
/// index is advised where it is right for all RoCE ports among `ports`, as decide_gid_index() does.
GidAdvice gid_index_advice(const Inputs& inputs, const detect::Nic& nic,
                           const std::vector<int>& ports);

/// NCCL_IB_GID_INDEX for the RoCE ports among `ports` (positions in Machine::nics): exported only
/// where the index that NCCL would take is wrong and one index is right for all of them.
Setting decide_gid_index(const Inputs& inputs, const std::vector<int>& ports);

}  // namespace toporun::env
