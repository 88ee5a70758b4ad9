#include "env/gloo.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "env/interface.hpp"

namespace toporun::env {
namespace {

constexpr const char* kGloo = "GLOO_SOCKET_IFNAME";

}  // namespace

std::optional<Setting> decide_gloo(const Inputs& inputs, const Setting& chosen) {
    if (inputs.job.launcher != "torchrun" || !job_span(inputs).several) return std::nullopt;
    if (!chosen.value || chosen.origin == Origin::user || chosen.origin == Origin::conf)
        return std::nullopt;
    const std::vector<int> used =
        listed_search(inputs.machine, search_context(inputs), parse_ifname(*chosen.value));
    if (used.size() != 1) return std::nullopt;  // which one the others reach is not known
    // One exact name: Gloo knows no prefix, no `=` and no `^` (PyTorch, ProcessGroupGloo).
    return settle(
        inputs,
        detected(kGloo, nic_at(inputs, used.front()).name,
                 "Gloo listens where the host's name resolves to, which may be one of "
                 "the interfaces that NCCL was kept from",
                 fmt::format("{}={}: {}", kSocketIfname, shell_word(*chosen.value), chosen.reason),
                 "the address that the host's name resolves to, else the loopback"));
}

}  // namespace toporun::env
