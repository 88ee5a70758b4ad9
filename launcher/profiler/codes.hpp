#pragma once

#include <string.h>

#include "launcher/profiler/record.hpp"

/// NCCL's names to the codes of a record. Called once per operation: one or two characters select
/// the only candidate, one comparison confirms it. The string may be NULL.
namespace toporun::profiler {

inline uint8_t confirmed(const char* name, const char* candidate, uint8_t code) {
    return strcmp(name, candidate) == 0 ? code : kUnknownCode;
}

inline uint8_t function_code(const char* name) {
    if (name == nullptr) return kUnknownCode;
    switch (name[0]) {
        case 'A':
            if (strncmp(name, "All", 3) != 0) return kUnknownCode;
            if (name[3] == 'R') return confirmed(name, "AllReduce", kAllReduce);
            if (name[3] == 't') return confirmed(name, "AlltoAll", kAllToAll);
            if (strcmp(name, "AllGather") == 0) return kAllGather;
            return confirmed(name, "AllGatherV", kAllGatherV);
        case 'B':
            return confirmed(name, "Broadcast", kBroadcast);
        case 'G':
            return confirmed(name, "Gather", kGather);
        case 'R':
            if (strcmp(name, "ReduceScatter") == 0) return kReduceScatter;
            if (strcmp(name, "Reduce") == 0) return kReduce;
            return confirmed(name, "Recv", kRecv);
        case 'S':
            if (strcmp(name, "Send") == 0) return kSend;
            if (strcmp(name, "SendRecv") == 0) return kSendRecv;
            return confirmed(name, "Scatter", kScatter);
        default:
            return kUnknownCode;
    }
}

inline uint8_t datatype_code(const char* name) {
    if (name == nullptr || strncmp(name, "nccl", 4) != 0) return kUnknownCode;
    const char* type = name + 4;
    switch (type[0]) {
        case 'B':
            return confirmed(type, "Bfloat16", kBfloat16);
        case 'F':
            if (strcmp(type, "Float32") == 0) return kFloat32;
            if (strcmp(type, "Float16") == 0) return kFloat16;
            if (strcmp(type, "Float64") == 0) return kFloat64;
            if (strcmp(type, "Float8e4m3") == 0) return kFloat8e4m3;
            return confirmed(type, "Float8e5m2", kFloat8e5m2);
        case 'I':
            if (strcmp(type, "Int8") == 0) return kInt8;
            if (strcmp(type, "Int32") == 0) return kInt32;
            return confirmed(type, "Int64", kInt64);
        case 'U':
            if (strcmp(type, "Uint8") == 0) return kUint8;
            if (strcmp(type, "Uint32") == 0) return kUint32;
            return confirmed(type, "Uint64", kUint64);
        default:
            return kUnknownCode;
    }
}

inline uint8_t algorithm_code(const char* name) {
    if (name == nullptr) return kUnknownCode;
    switch (name[0]) {
        case 'R':
            return confirmed(name, "RING", kRing);
        case 'T':
            return confirmed(name, "TREE", kTree);
        case 'P':
            return confirmed(name, "PAT", kPat);
        case 'N':
            if (strcmp(name, "NVLS") == 0) return kNvls;
            return confirmed(name, "NVLS_TREE", kNvlsTree);
        case 'C':
            if (strcmp(name, "COLLNET_DIRECT") == 0) return kCollNetDirect;
            return confirmed(name, "COLLNET_CHAIN", kCollNetChain);
        default:
            return kUnknownCode;
    }
}

inline uint8_t protocol_code(const char* name) {
    if (name == nullptr) return kUnknownCode;
    if (name[0] == 'S') return confirmed(name, "SIMPLE", kSimple);
    if (strcmp(name, "LL") == 0) return kLL;
    return confirmed(name, "LL128", kLL128);
}

}  // namespace toporun::profiler
