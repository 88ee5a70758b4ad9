#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace toporun::detect {

/// A counter of an RDMA port that stands still, or nearly, on a sound link.
struct ErrorCounter {
    std::string_view directory;  ///< below the port's in sysfs: "counters", "hw_counters"
    std::string_view name;       ///< its file there
    /// Up to this is no sign of a fault: boots, work on switches and congestion leave as much.
    std::uint64_t usual = 0;
    std::string_view meaning;  ///< of one count
};

/// Counters of errors of the link, the cable or the fabric: what detection and captures read, and
/// what is judged (Linux Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA's list of RDMA
/// hardware counters). port_rcv_switch_relay_errors and the constraint errors are not among them:
/// multicast and partition keys of other hosts count there on sound links.
inline constexpr std::array<ErrorCounter, 13> kErrorCounters = {{
    {"counters", "symbol_error", 1000, "damaged symbols"},
    {"counters", "link_error_recovery", 0, "the link was trained again"},
    {"counters", "link_downed", 10, "the link went down"},
    {"counters", "port_rcv_errors", 0, "damaged packets"},
    {"counters", "local_link_integrity_errors", 0, "too many errors on the link"},
    {"counters", "excessive_buffer_overrun_errors", 0, "buffers overran"},
    {"counters", "port_rcv_remote_physical_errors", 0, "packets marked bad by the peer"},
    {"counters", "port_xmit_discards", 1000, "packets thrown away before they were sent"},
    {"hw_counters", "out_of_sequence", 10000, "packets out of order or lost"},
    {"hw_counters", "packet_seq_err", 10000, "lost packets"},
    {"hw_counters", "local_ack_timeout_err", 1000, "acknowledgements that never came"},
    {"hw_counters", "rnr_nak_retry_err", 10000, "the receiver had no buffer ready"},
    {"hw_counters", "roce_adp_retrans_to", 1000, "RoCE retransmissions"},
}};

/// The counter of that name, nullptr for none.
constexpr const ErrorCounter* error_counter(std::string_view name) {
    for (const ErrorCounter& counter : kErrorCounters)
        if (counter.name == name) return &counter;
    return nullptr;
}

}  // namespace toporun::detect
