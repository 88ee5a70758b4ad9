#include "env/carrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "env/hca.hpp"

namespace toporun::env {
namespace {

bool ib_disabled(const Inputs& inputs) {
    return nccl_integer(user_value(inputs, "NCCL_IB_DISABLE").value_or("0")) != 0;
}

/// Plugins that are NCCL's verbs transport with additions and read its switch.
bool reads_ib_disable(const std::string& maker) {
    return maker == "hpcx" || maker == "gib";
}

std::string maker_of(const detect::Software& software, const std::string& name) {
    for (const detect::NcclPlugin& plugin : software.nccl_plugin_files)
        if (plugin.name == name && !plugin.maker.empty()) return plugin.maker;
    return name;
}

/// The plugin that NCCL would load: libnccl-net.so, or the one that the user names.
std::optional<DataCarrier> plugin_carrier(const Inputs& inputs) {
    const detect::Software& software = inputs.machine.software;
    const auto asked = user_value(inputs, "NCCL_NET_PLUGIN");
    if (asked && *asked == "none") return std::nullopt;
    for (const std::string& name : software.nccl_plugins) {
        if (name.find("nccl-net") == std::string::npos) continue;
        const std::string maker = maker_of(software, name);
        if (ib_disabled(inputs) && reads_ib_disable(maker)) continue;
        return DataCarrier{Carrier::plugin, maker,
                           fmt::format("{} is on the library path", printable(name))};
    }
    if (asked && !asked->empty())
        return DataCarrier{Carrier::plugin, printable(*asked),
                           fmt::format("NCCL_NET_PLUGIN={}", shell_word(*asked))};
    if (has_efa(inputs.machine) && !software.nccl_library)
        return DataCarrier{Carrier::plugin, "aws-ofi", "EFA adapters are here"};
    return std::nullopt;
}

std::optional<DataCarrier> asked_for(const Inputs& inputs) {
    const auto net = user_value(inputs, "NCCL_NET");
    if (!net || net->empty()) return std::nullopt;
    const std::string evidence = fmt::format("NCCL_NET={}", shell_word(*net));
    // NCCL compares these names without regard to case (src/plugin/net.cc).
    std::string word = *net;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (word == "socket") return DataCarrier{Carrier::sockets, "Socket", evidence};
    if (word == "ib") return DataCarrier{Carrier::verbs, "IB", evidence};
    return DataCarrier{Carrier::plugin, printable(*net), evidence};
}

}  // namespace

DataCarrier data_carrier(const Inputs& inputs) {
    if (auto asked = asked_for(inputs)) return *asked;
    if (auto plugin = plugin_carrier(inputs)) return *plugin;
    const auto value = user_value(inputs, "NCCL_IB_DISABLE");
    if (ib_disabled(inputs))
        return {Carrier::sockets, "Socket", fmt::format("NCCL_IB_DISABLE={}", shell_word(*value))};
    const std::vector<int> ports = verbs_ports(inputs.machine);
    const auto up = std::count_if(ports.begin(), ports.end(), [&](int port) {
        return rdma_usable(inputs.machine.nics[static_cast<std::size_t>(port)]);
    });
    const auto& nics = inputs.machine.nics;
    const auto numbered = std::find_if(nics.begin(), nics.end(), [](const detect::Nic& nic) {
        return !nic.rdma_device && nic.name.starts_with("NET/");
    });
    if (ports.empty() && numbered != nics.end())
        return {Carrier::unknown, "unknown",
                fmt::format("{} of unknown kind", printable(numbered->name))};
    if (up == 0)
        return {Carrier::sockets, "Socket",
                ports.empty() ? (inputs.machine.software.verbs_devices
                                     ? "no RDMA adapter that NCCL itself could use"
                                     : "no RDMA adapter is told of")
                              : fmt::format("none of {} RDMA ports is up", ports.size())};
    if (inputs.machine.software.verbs_devices == 0)
        return {Carrier::sockets, "Socket", "no /dev/infiniband/uverbs* to open the adapters"};
    return {Carrier::verbs, "IB",
            fmt::format("{} RDMA port{} that NCCL could use", up, up == 1 ? "" : "s")};
}

bool data_over_rdma(const Inputs& inputs) {
    return data_carrier(inputs).kind != Carrier::sockets;
}

}  // namespace toporun::env
