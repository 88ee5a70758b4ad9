#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::env::doctor {

struct HcaEntry {
    std::string device;
    std::optional<long long> port;  ///< nothing: every port
};

/// NCCL_IB_HCA as NCCL takes it apart: `[^][=]device[:port],...`. Without `=` a name is a prefix
/// (src/misc/utils.cc parseStringList, src/transport/net_ib.cc).
struct HcaList {
    bool exclude = false;
    bool exact = false;
    std::vector<HcaEntry> entries;

    bool takes(const detect::Nic& nic) const;
};
HcaList parse_hca_list(std::string_view value);

}  // namespace toporun::env::doctor
