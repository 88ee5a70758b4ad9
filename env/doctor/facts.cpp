#include "env/doctor/facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/interface.hpp"
#include "env/matrix.hpp"

namespace toporun::env::doctor {

using detect::Gpu;
using detect::Machine;
using detect::Nic;

bool several_nodes(const Patient& patient) {
    return job_span(patient.inputs).several;
}

bool maybe_several_nodes(const Patient& patient) {
    return patient.inputs.job.nodes != 1;
}

int ranks_here(const Patient& patient) {
    const int gpus = static_cast<int>(patient.inputs.visible.size());
    return patient.inputs.job.ranks_per_node.value_or(gpus);
}

bool nccl_since(const Patient& patient, int code) {
    return patient.inputs.nccl && *patient.inputs.nccl >= code;
}

bool nccl_before(const Patient& patient, int code) {
    return patient.inputs.nccl && *patient.inputs.nccl < code;
}

bool contains_any(std::string_view text, const std::vector<std::string_view>& parts) {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
        return text.find(part) != std::string_view::npos;
    });
}

const Gpu& gpu_at(const Patient& patient, int position) {
    return patient.machine().gpus[static_cast<std::size_t>(position)];
}

const Nic& nic_at(const Patient& patient, int position) {
    return patient.machine().nics[static_cast<std::size_t>(position)];
}

bool in_rack(const Patient& patient) {
    const std::vector<int> gpus = visible_gpus(patient, is_rack_gpu);
    if (gpus.size() < 2 || patient.machine().nvswitch) return !gpus.empty();
    const PairMatrix matrix(patient.machine());
    for (const int a : gpus) {
        int links = 0;
        for (const int b : gpus) {
            if (a == b) continue;
            if (!matrix.known() || !matrix.direct_nvlink(a, b) || matrix.links(a, b) == 0)
                return true;
            links += matrix.links(a, b);
        }
        if (links > detect::kMostDirectLinks) return true;  // more than a GPU has
    }
    return false;
}

bool has_nvidia_gpu(const Patient& patient) {
    return !visible_gpus(patient, [](const Gpu& gpu) { return gpu.vendor == "nvidia"; }).empty();
}

std::string and_list(const std::vector<std::string>& words) {
    if (words.size() < 2) return words.empty() ? "none" : words.front();
    const std::span<const std::string> first(words.data(), words.size() - 1);
    return fmt::format("{} and {}", join(first, ", "), words.back());
}

std::string gpus_text(const Machine& machine, const std::vector<int>& positions) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> words;
    for (const int position : positions) {
        if (words.size() == kNamed) break;
        words.push_back(std::to_string(machine.gpus[static_cast<std::size_t>(position)].index));
    }
    if (positions.size() > kNamed)
        words.push_back(fmt::format("{} more", positions.size() - kNamed));
    return (positions.size() == 1 ? "GPU " : "GPUs ") + and_list(words);
}

std::string pairs_text(const Machine& machine, const std::vector<std::pair<int, int>>& pairs) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> words;
    for (const auto& [a, b] : pairs) {
        if (words.size() == kNamed) break;
        words.push_back(fmt::format("{}-{}", machine.gpus[static_cast<std::size_t>(a)].index,
                                    machine.gpus[static_cast<std::size_t>(b)].index));
    }
    return join(words, " ") + (pairs.size() > kNamed ? " ..." : "");
}

std::optional<bool> kernel_since(const Machine& machine, int major, int minor) {
    const std::string& release = machine.software.kernel;
    if (release.empty() || release.front() < '0' || release.front() > '9') return std::nullopt;
    return profiles::compare_versions(release, fmt::format("{}.{}", major, minor)) >= 0;
}

std::optional<long long> user_number(const Patient& patient, const std::string& name) {
    const auto value = user_value(patient.inputs, name);
    if (!value) return std::nullopt;
    return nccl_integer(*value);
}

std::string assigned(const std::string& name, const std::string& value) {
    return fmt::format("{}={}", name, shell_word(value));
}

std::string set_text(const Patient& patient, const std::string& name) {
    const UserEnvironment& user = patient.inputs.user;
    const std::string text = assigned(name, user_value(patient.inputs, name).value_or(""));
    if (user.variable(name)) return text;
    for (const detect::ConfValue& line : user.conf)
        if (line.name == name) return fmt::format("{} in {}", text, line.where);
    return text;
}

}  // namespace toporun::env::doctor
