#pragma once

#include <string>

#include "env/inputs.hpp"

/// What carries the data between nodes.
namespace toporun::env {

enum class Carrier {
    plugin,   ///< a network plugin of the vendor's, which chooses its adapters itself
    verbs,    ///< NCCL's own RDMA transport
    sockets,  ///< NCCL's own TCP transport
    unknown,  ///< adapters of unknown kind: a log names them by numbers alone
};

struct DataCarrier {
    Carrier kind = Carrier::sockets;
    std::string name;      ///< "aws-ofi", "IB", "Socket"
    std::string evidence;  ///< "8 RDMA ports are up", "NCCL_IB_DISABLE=1"
};

/// By NCCL's own order (NCCL_NET, then the plugin, RDMA, TCP) and what is seen on this host.
DataCarrier data_carrier(const Inputs& inputs);

/// NCCL's verbs transport or a plugin carries the data, sockets only the rendezvous.
bool data_over_rdma(const Inputs& inputs);

}  // namespace toporun::env
