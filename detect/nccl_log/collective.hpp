#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The lines of the subsystem COLL, one for each call (NCCL src/enqueue.cc ncclEnqueueCheck), the
/// same in all versions. Pure like line.hpp.
namespace toporun::detect::nccl_log {

enum class Function : std::uint8_t {
    all_reduce,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    send,
    recv,
    all_to_all,
    gather,
    scatter,
    all_gather_v,
};
inline constexpr std::size_t kFunctions = 11;

/// NCCL's own name, "AllReduce".
std::string_view function_name(Function function);

/// `AllReduce: opCount 1f sendbuff 0x7f.. recvbuff 0x7f.. count 1024 datatype 7 op 0 root 0 comm
/// 0x55.. [nranks=8] stream 0x56..`
struct Collective {
    Function function = Function::all_reduce;
    std::uint64_t op_count = 0;      ///< calls of this communicator before
    std::uint64_t count = 0;         ///< elements; of AllGather and the like per rank
    int datatype = 0;                ///< NCCL's code, 7 = float32
    int op = 0;                      ///< NCCL's code, 0 = sum
    int root = 0;                    ///< the peer of Send and Recv
    std::uint64_t communicator = 0;  ///< the process's pointer; 0 when it is masked ("0x...")
    std::optional<int> ranks;        ///< of the communicator
    std::uint64_t stream = 0;        ///< the process's pointer; 0 when it is masked
    bool usual = false;              ///< in the form of 2.8 and later, up to the stream
};

/// How the last call of a process ended: communicator and stream are the same in most.
struct CallEnd {
    std::string text;
    Collective call;
};

/// The call in a message of an INFO record; nothing for anything else, calls of an unknown name
/// among them.
std::optional<Collective> parse_collective(std::string_view message);
/// The same, quicker where the call ends as `end` says, which any call may be. False: `call` is as
/// it happens to be.
bool parse_collective(std::string_view message, CallEnd& end, Collective& call);

/// Bytes of one element of NCCL's datatype (nccl.h ncclDataType_t), 0 for an unknown code.
int datatype_bytes(int datatype);

/// The size of the call in bytes as nccl-tests counts it (doc/PERFORMANCE.md): the parts of all
/// ranks together for AllGather, ReduceScatter, AlltoAll, Gather, Scatter. Nothing when it cannot
/// be told.
std::optional<std::uint64_t> size_bytes(const Collective& collective);

}  // namespace toporun::detect::nccl_log
