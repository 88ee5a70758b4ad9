#include "env/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "env/match_profile.hpp"

namespace toporun::env {
namespace {

std::optional<int> gpu_by_word(const detect::Machine& machine, std::string_view word) {
    if (const auto index = to_integer(word)) {
        if (*index < 0 || *index >= static_cast<long long>(machine.gpus.size()))
            return std::nullopt;
        return static_cast<int>(*index);
    }
    // A UUID may be shortened as long as it is unique (CUDA programming guide,
    // CUDA_VISIBLE_DEVICES).
    if (!word.starts_with("GPU-")) return std::nullopt;
    std::optional<int> found;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        if (!machine.gpus[i].uuid || !machine.gpus[i].uuid->starts_with(word)) continue;
        if (found) return std::nullopt;
        found = static_cast<int>(i);
    }
    return found;
}

bool is_nccl_name(const std::string& name) {
    return name.starts_with("NCCL_");
}

}  // namespace

void find_visible_gpus(Inputs& inputs) {
    const auto& gpus = inputs.machine.gpus;
    inputs.visible.clear();
    inputs.visible_note.clear();
    std::string name = "CUDA_VISIBLE_DEVICES";
    if (inputs.rccl && !inputs.user.variable(name))
        name = inputs.user.variable("HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES"
                                                           : "ROCR_VISIBLE_DEVICES";
    const auto list = inputs.user.variable(name);
    if (!list) {
        for (std::size_t i = 0; i < gpus.size(); ++i) inputs.visible.push_back(static_cast<int>(i));
        return;
    }
    inputs.visible_note = fmt::format("{}={}", name, *list);
    for (const std::string& part : split(*list, ',')) {
        const std::string_view word = trim(part);
        const auto gpu = gpu_by_word(inputs.machine, word);
        const bool repeated = gpu && std::find(inputs.visible.begin(), inputs.visible.end(),
                                               *gpu) != inputs.visible.end();
        if (!gpu || repeated) {
            if (word.starts_with("MIG-"))
                inputs.visible_note += " names MIG instances, which have no P2P";
            return;
        }
        inputs.visible.push_back(*gpu);
    }
}

void find_profiles(Inputs& inputs) {
    inputs.matched = matching_profiles(inputs.machine, inputs.knowledge.profiles);
    inputs.profile = inputs.matched.empty() ? nullptr : inputs.matched.front();
}

bool is_rccl(const detect::Machine& machine) {
    if (machine.software.nccl_library)
        return machine.software.nccl_library->find("rccl") != std::string::npos;
    return !machine.gpus.empty() &&
           std::all_of(machine.gpus.begin(), machine.gpus.end(),
                       [](const detect::Gpu& gpu) { return gpu.vendor == "amd"; });
}

std::string not_here_text(const Job& job) {
    return job.why_not_here.empty() ? "workers may start on other hosts or in containers"
                                    : job.why_not_here;
}

std::string ranks_unknown_text(const Job& job) {
    std::string text = "the number of ranks on this host is not known";
    if (job.launcher == "shell") text += " (--ranks-per-node says it)";
    if (!job.ranks_word.empty()) text += fmt::format(" from '{}'", printable(job.ranks_word));
    return text;
}

std::vector<int> gpus_in_job(const Inputs& inputs) {
    std::vector<int> gpus = inputs.visible;
    const int ranks = inputs.job.ranks_per_node.value_or(0);
    if (ranks > 1 && static_cast<std::size_t>(ranks) < gpus.size())
        gpus.resize(static_cast<std::size_t>(ranks));
    return gpus;
}

std::string library_text(const Inputs& inputs) {
    const std::string name = inputs.rccl ? "RCCL" : "NCCL";
    const auto& version = inputs.machine.software.nccl_version;
    return version ? fmt::format("{} {}", name, *version) : name + " of unknown version";
}

std::optional<std::string> user_value(const Inputs& inputs, const std::string& name) {
    return is_nccl_name(name) ? inputs.user.nccl_value(name) : inputs.user.variable(name);
}

bool user_has(const Inputs& inputs, const std::string& name) {
    return user_value(inputs, name).has_value();
}

Setting left_alone(std::string name, std::string reason, std::string evidence,
                   std::string nccl_default) {
    Setting setting;
    setting.name = std::move(name);
    setting.reason = std::move(reason);
    setting.evidence = std::move(evidence);
    setting.nccl_default = std::move(nccl_default);
    return setting;
}

Setting detected(std::string name, std::string value, std::string reason, std::string evidence,
                 std::string nccl_default) {
    Setting setting = left_alone(std::move(name), std::move(reason), std::move(evidence),
                                 std::move(nccl_default));
    setting.value = std::move(value);
    setting.origin = Origin::detected;
    return setting;
}

Setting settle(const Inputs& inputs, Setting wanted) {
    if (const auto value = user_value(inputs, wanted.name)) {
        const bool conf = !inputs.user.variable(wanted.name);
        wanted.reason = "set already, which toporun never changes";
        if (conf)
            for (const detect::ConfValue& line : inputs.user.conf)
                if (line.name == wanted.name) {
                    wanted.reason =
                        fmt::format("set in {}, which toporun never changes", line.where);
                    break;
                }
        wanted.value = value;
        wanted.origin = conf ? Origin::conf : Origin::user;
        wanted.profile.clear();
        wanted.exported = wanted.per_rank = false;
        return wanted;
    }
    if (!wanted.value) {
        wanted.exported = wanted.per_rank = false;
        return wanted;
    }
    std::string reason;
    if (std::find(inputs.options.leave.begin(), inputs.options.leave.end(), wanted.name) !=
        inputs.options.leave.end())
        reason =
            fmt::format("left alone as asked (--leave); toporun's choice was {}", *wanted.value);
    else if (!inputs.job.same_host)
        reason = not_here_text(inputs.job) + ": nothing of this host is exported";
    if (reason.empty()) {
        wanted.exported = true;
        return wanted;
    }
    return left_alone(wanted.name, reason, wanted.evidence, wanted.nccl_default);
}

long long nccl_integer(const std::string& text) {
    return std::strtoll(text.c_str(), nullptr, 0);
}

}  // namespace toporun::env
