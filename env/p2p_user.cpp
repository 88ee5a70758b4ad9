#include "env/p2p_user.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {
namespace {

using detect::PathType;

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return out;
}

std::string assignment(const std::string& name, const std::string& value) {
    return fmt::format("{}={}", name, shell_word(value));
}

/// The pairs whose transport differs between two sets of switches, as "0-1 2-3 and 10 more".
struct Difference {
    int count = 0;
    int lost_nvlink = 0;  ///< NVLink with the first, not with the second
    std::string pairs;
};

Difference difference(const Inputs& inputs, const PairMatrix& matrix,
                      const TransportSwitches& first, const TransportSwitches& second) {
    constexpr int kNamed = 4;
    Difference found;
    const std::vector<int> gpus = gpus_in_job(inputs);
    for (std::size_t i = 0; matrix.known() && i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j) {
            const int a = std::min(gpus[i], gpus[j]), b = std::max(gpus[i], gpus[j]);
            if (pair_transport(inputs, matrix, a, b, first) ==
                pair_transport(inputs, matrix, a, b, second))
                continue;
            if (++found.count <= kNamed)
                found.pairs += fmt::format("{}{}-{}", found.count > 1 ? " " : "", a, b);
            const PathType path = matrix.path(a, b);
            if (is_nvlink(path) && path <= first.level && path > second.level) ++found.lost_nvlink;
        }
    if (found.count > kNamed) found.pairs += fmt::format(" and {} more", found.count - kNamed);
    return found;
}

Finding not_a_level(const Inputs& inputs, const std::string& value) {
    const std::vector<std::string> names = level_names(inputs.nccl);
    const std::string fixed = upper(trim(value));
    Finding finding;
    finding.id = value.empty() ? "p2p-level-empty" : "p2p-level-not-a-level";
    finding.severity = Severity::slow;
    finding.what = value.empty() ? fmt::format("{} is set to nothing", kP2pLevel)
                                 : fmt::format("{} is no level of {}", assignment(kP2pLevel, value),
                                               library_text(inputs));
    finding.evidence = fmt::format("levels of this version: {}", join(names, " "));
    finding.effect = "NCCL ignores the value without a word and takes its default";
    finding.fix = fmt::format("unset {}", kP2pLevel);
    if (std::find(names.begin(), names.end(), fixed) != names.end())
        finding.remark = fmt::format("or export {}={}: upper case, no blanks", kP2pLevel, fixed);
    else if (fixed == "NV" || fixed == "NVLINK" || fixed == "NVSWITCH")
        finding.remark = fmt::format("or export {}=NVL", kP2pLevel);
    else if (const auto close = closest_word(fixed, names); close && !value.empty())
        finding.remark = fmt::format("did you mean {}={}?", kP2pLevel, *close);
    return finding;
}

void level_word_findings(const Inputs& inputs, const std::string& value,
                         std::vector<Finding>& findings) {
    const auto level = level_of_value(value, inputs.nccl);
    if (!level) {
        findings.push_back(not_a_level(inputs, value));
        return;
    }
    if (inputs.nccl && *inputs.nccl < 20600 && !is_level_digit(value)) {
        findings.push_back({"p2p-level-too-new", Severity::slow,
                            fmt::format("{}: {} has no level names, only numbers",
                                        assignment(kP2pLevel, value), library_text(inputs)),
                            "names came with 2.6", "the word is read as 0, which is LOC: no P2P",
                            fmt::format("unset {}", kP2pLevel), ""});
        return;
    }
    if (is_level_digit(value))
        findings.push_back(
            {"p2p-level-digit", Severity::note,
             fmt::format("{} means {}", assignment(kP2pLevel, value), detect::path_name(*level)),
             "digits are an old scale: 0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS",
             "not the distances that NCCL's log prints",
             fmt::format("export {}={}", kP2pLevel, detect::path_name(*level)), ""});
}

/// The user's value against toporun's choice, by what the pairs will do.
void effect_findings(const Inputs& inputs, const PairMatrix& matrix, const Setting& wanted,
                     const TransportSwitches& defaults, const TransportSwitches& users,
                     const std::string& said, bool faulty, std::vector<Finding>& findings) {
    TransportSwitches own = defaults;
    if (wanted.value) {
        own.level = wanted.name == kP2pDisable
                        ? PathType::LOC
                        : level_of_value(*wanted.value, inputs.nccl).value_or(defaults.level);
    }
    const Difference changed = difference(inputs, matrix, own, users);
    if (changed.count == 0) return;
    if (changed.lost_nvlink > 0) {
        findings.push_back({"p2p-takes-nvlink", Severity::slow,
                            fmt::format("{} takes NVLink from {} GPU pair{}", said,
                                        changed.lost_nvlink, changed.lost_nvlink == 1 ? "" : "s"),
                            fmt::format("pairs {}", changed.pairs),
                            "they go through shared memory, up to ten times slower",
                            fmt::format("unset {}", said.substr(0, said.find('='))), "",
                            wanted.value && wanted.name == kP2pLevel
                                ? fmt::format("or export {}={}", kP2pLevel, *wanted.value)
                                : ""});
        return;
    }
    const std::string choice = wanted.value ? fmt::format("{}={}", wanted.name, *wanted.value)
                                            : std::string("NCCL's default");
    findings.push_back({"p2p-level-differs", Severity::note,
                        fmt::format("{} is kept; toporun would have taken {}", said, choice),
                        fmt::format("pairs {} differ; {}", changed.pairs, wanted.reason),
                        "other transports between these GPUs",
                        !faulty        ? std::string("compare both by a measurement")
                        : wanted.value ? fmt::format("export {}", choice)
                                       : fmt::format("unset {}", said.substr(0, said.find('='))),
                        ""});
}

void disable_findings(const std::string& value, std::vector<Finding>& findings) {
    if (value == "0" || value == "1") return;
    const bool disables = nccl_integer(value) == 1;
    findings.push_back({"p2p-disable-no-number", Severity::note,
                        fmt::format("{} {}", assignment(kP2pDisable, value),
                                    disables ? "is read as 1" : "does not disable P2P"),
                        "NCCL reads a number and takes 1 only",
                        disables ? "P2P is off" : "the value has no effect",
                        fmt::format("unset {}", kP2pDisable), "",
                        fmt::format("or export {}=1 where P2P is to be off", kP2pDisable)});
}

void broken_nvlink(const Inputs& inputs, const PairMatrix& matrix, const TransportSwitches& users,
                   std::vector<Finding>& findings) {
    std::string pairs;
    for (std::size_t i = 0; matrix.known() && i < inputs.visible.size(); ++i)
        for (std::size_t j = i + 1; j < inputs.visible.size(); ++j) {
            const int a = std::min(inputs.visible[i], inputs.visible[j]);
            const int b = std::max(inputs.visible[i], inputs.visible[j]);
            if (pair_transport(inputs, matrix, a, b, users) == "NONE")
                pairs += fmt::format("{}{}-{}", pairs.empty() ? "" : " ", a, b);
        }
    if (pairs.empty()) return;
    findings.push_back(
        {"nvlink-p2p-refused", Severity::broken,
         "the driver refuses P2P between GPUs that NVLink connects", fmt::format("pairs {}", pairs),
         "NCCL 2.12 and later stop with an error when they connect", "nvidia-smi nvlink -s", "",
         "a link that is down, or the fabric manager; NCCL_IGNORE_DISABLED_P2P=1 "
         "only hides it"});
}

}  // namespace

std::vector<Finding> p2p_user_findings(const Inputs& inputs, const PairMatrix& matrix,
                                       const Setting& wanted, const TransportSwitches& defaults,
                                       bool faulty) {
    std::vector<Finding> findings;
    TransportSwitches users = defaults;
    const auto level = user_value(inputs, kP2pLevel), disable = user_value(inputs, kP2pDisable);
    if (level) {
        level_word_findings(inputs, *level, findings);
        users.level = level_of_value(*level, inputs.nccl).value_or(defaults.level);
    }
    if (disable) {
        disable_findings(*disable, findings);
        if (nccl_integer(*disable) == 1) users.level = PathType::LOC;
    }
    if (level || disable) {
        const bool by_disable = disable && nccl_integer(*disable) == 1;
        const std::string said = by_disable ? assignment(kP2pDisable, *disable)
                                 : level    ? assignment(kP2pLevel, *level)
                                            : assignment(kP2pDisable, *disable);
        effect_findings(inputs, matrix, wanted, defaults, users, said, faulty, findings);
    }
    users.ignore_disabled_p2p =
        nccl_integer(user_value(inputs, "NCCL_IGNORE_DISABLED_P2P").value_or("0")) >= 1;
    broken_nvlink(inputs, matrix, users, findings);
    return findings;
}

}  // namespace toporun::env
