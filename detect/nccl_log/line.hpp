#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "detect/nccl_log/collective.hpp"
#include "detect/nccl_log/fabric.hpp"
#include "detect/nccl_log/setup.hpp"

/// What a line of NCCL's log says. Pure: a line in, an event out, no file, no state. Every version
/// from 2.8 to 2.30 and RCCL; a line that is not understood is kept as Unknown. No input makes it
/// throw.
namespace toporun::detect::nccl_log {

enum class Level { info, warn, trace, bare };  ///< bare: a line without the record prefix

/// The record prefix `host:pid:tid [dev] NCCL LEVEL ` of a line (NCCL src/debug.cc). Its texts are
/// parts of the line, which must outlive it.
struct Record {
    std::string_view host;  ///< short host name; "" for a bare line
    std::int64_t pid = 0;
    std::int64_t tid = 0;       ///< kernel thread id, equals pid in the main thread
    std::optional<int> device;  ///< CUDA device current in that thread: not the rank
    Level level = Level::bare;
    bool old_form = false;     ///< before 2.4: "INFO" alone
    std::string_view source;   ///< "init.cc:904" of a warning, else ""
    std::string_view message;  ///< without line end
};

/// A network interface as NCCL prints it, `eth0:10.0.0.1<0>`.
struct Interface {
    std::string name;
    std::string address;  ///< without the port, IPv6 without brackets
    friend bool operator==(const Interface&, const Interface&) = default;
};

struct Version {
    bool rccl = false;
    std::string version;  ///< "2.28.9"
    std::string suffix;   ///< what follows the numbers before '+': "", "rc1"
    std::string toolkit;  ///< "cuda13.0", "hip6.0", "" when not said
};

/// Interfaces of the out-of-band connections.
struct Bootstrap {
    std::vector<Interface> interfaces;
};

/// What a network found: `NET/Socket : Using [0]eth0:...`, `NET/IB : Using [0]mlx5_0:1/IB ...`.
struct NetworkDevices {
    std::string network;                ///< "Socket", "IB", "FastSocket", ...
    std::vector<Interface> interfaces;  ///< of Socket; the OOB interface of IB
    std::vector<std::string> devices;   ///< of IB: "mlx5_0:1/IB"
    bool none = false;                  ///< "No device found."
};

/// `Using network NAME`: which network carries data between nodes.
struct UsingNetwork {
    std::string name;
};

/// `KIND/Plugin: ...`: a plugin that was loaded, or was not found.
struct Plugin {
    std::string kind;  ///< "NET", "PROFILER", "TUNER", "ENV"
    std::string name;  ///< plugin or library name, may be ""
    bool loaded = false;
};

/// `... - Init START` and `... - Init COMPLETE`: the lines that map a process to a rank.
struct Init {
    bool complete = false;
    int rank = 0;
    int ranks = 0;
    std::string communicator;        ///< the process's pointer, "0x7f51f2af7010"
    std::string id;                  ///< commId, the same in all processes; "" when not printed
    std::string bus_id;              ///< as printed: "1a000"; "" when not printed
    std::optional<int> cuda_device;  ///< after CUDA_VISIBLE_DEVICES
    std::optional<int> nvml_device;  ///< physical index, 2.18.3 and later
    std::string parent;              ///< of a split: the parent's pointer, else ""
    std::optional<int> split;        ///< splitCount or childCount
    std::optional<int> color;
};

/// `comm 0x.. rank 0 nRanks 8 nNodes 1 localRanks 8 ...`, 2.20 and later.
struct CommunicatorShape {
    std::string communicator;
    int rank = 0;
    int ranks = 0;
    int nodes = 0;
    int local_ranks = 0;
};

enum class Transport { p2p, p2p_indirect, shm, net, other };

/// "P2P", "P2P-indirect", "SHM", "NET", "other".
std::string_view transport_name(Transport transport);

/// `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM`. Ranks are those of one communicator, which the line
/// does not name. Texts are parts of the line.
struct Connection {
    int channel = 0;
    std::optional<int> index;  ///< connection index: 0 rings and trees, 1 send/recv
    int from = 0;
    int to = 0;
    std::string_view from_device;  ///< bus id in hex up to 2.18.1, nvmlDev later
    std::string_view to_device;
    std::string_view direction;  ///< "send", "receive", "" when not said (then: the sender)
    Transport transport = Transport::other;
    std::string_view network;  ///< of Transport::net: "IB", "Socket", "AWS Libfabric"
    bool gpu_direct = false;   ///< of Transport::net: GPUDirect RDMA
    std::string_view via;      ///< verbatim, "P2P/CUMEM/read"
};

/// `NCCL_P2P_LEVEL set by environment to NVL`, also "by plugin", "by /etc/nccl.conf".
struct Variable {
    std::string name;
    std::string value;   ///< without the full stop that NCCL puts after numbers
    std::string origin;  ///< "environment"
};

struct Warning {
    std::string source;  ///< "init.cc:904", may be ""
    std::string text;
};

/// A line that is none of the above; Line::record holds what could be read of it.
struct Unknown {};

using Event =
    std::variant<Unknown, Version, Bootstrap, NetworkDevices, UsingNetwork, Plugin, Init,
                 CommunicatorShape, Connection, Variable, Warning, Collective, ChannelCounts,
                 RingOrder, RingLink, Trees, Pattern, Affinity, InitTimings, NvlsSupport, NvlsReady,
                 GpuDirect, Choice, TuningAlgorithms, TuningRow, ErrorTrail, CommunicatorEnd,
                 Provider, TestRank, CudaDriver, NetworkPlugin, QueuePair, VirtualDevice, NoVerbs,
                 Mnnvl, CollNet, NoGraph>;

struct Line {
    Record record;
    Event event;
    bool torn = false;  ///< another record starts inside this one: two writers, one file
    /// The line is NCCL's: it has the record prefix or is a version line.
    bool from_nccl() const {
        return record.level != Level::bare || std::holds_alternative<Version>(event);
    }
};

/// Reads one line, which must outlive the result. The record prefix is searched anywhere in it, so
/// that prefixes of launchers and time stamps do not matter; of several records in one line the
/// last is read. Terminal escapes belong to the text: plain_line() removes them.
Line parse_line(std::string_view line);

/// `line` without its line end and without terminal escape sequences (ECMA-48 CSI). `buffer` holds
/// the result where it is not a part of `line`; both must outlive it.
std::string_view plain_line(std::string_view line, std::string& buffer);

/// The PCI bus id that NCCL prints as one number, `1a000` -> "0000:1a:00.0" (domain << 20 | bus <<
/// 12 | device << 4 | function, NCCL src/misc/utils.cc); nothing for anything else.
std::optional<std::string> bus_id_text(std::string_view bus_id);

}  // namespace toporun::detect::nccl_log
