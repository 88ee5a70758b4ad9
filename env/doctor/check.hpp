#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/doctor/doctor.hpp"
#include "env/inputs.hpp"

/// What a family of checks is made of. One file a family, one function a kind of fault.
namespace toporun::env::doctor {

/// What every check reads.
struct Patient {
    const Inputs& inputs;
    const Plan& plan;

    const detect::Machine& machine() const { return inputs.machine; }
    const detect::Software& software() const { return inputs.machine.software; }
};

/// A finding without identifier and severity.
struct Words {
    std::string what;
    std::string evidence = {};
    std::string effect = {};
    std::string fix = {};     ///< a command to type, or advice where none helps
    std::string remark = {};  ///< words on the command: when it is not enough, what else there is
    std::string where = {};
};

/// What one check says. Saying nothing means that nothing is wrong, or that it does not apply.
class Verdict {
  public:
    explicit Verdict(std::string_view id) : id_(id) {}

    void find(Severity severity, Words words) {
        findings_.push_back({std::string(id_), severity, std::move(words.what),
                             std::move(words.evidence), std::move(words.effect),
                             std::move(words.fix), std::move(words.where),
                             std::move(words.remark)});
    }
    void broken(Words words) { find(Severity::broken, std::move(words)); }
    void slow(Words words) { find(Severity::slow, std::move(words)); }
    void note(Words words) { find(Severity::note, std::move(words)); }

    /// The check applies here but `fact` is not known: "the NVLink states". `weight`: how much it
    /// is wanted, 1 or kMayHang.
    void unknown(std::string fact, int weight = 1) {
        unknown_ = std::move(fact);
        weight_ = weight;
    }
    /// Of a fact without which a hang or lost data cannot be excluded: before all others.
    static constexpr int kMayHang = 1000;

    const std::vector<Finding>& findings() const { return findings_; }
    const std::string& unknown_fact() const { return unknown_; }
    int weight() const { return weight_; }

  private:
    std::string_view id_;
    std::vector<Finding> findings_;
    std::string unknown_;
    int weight_ = 1;
};

struct Check {
    CheckInfo info;
    void (*examine)(const Patient&,
                    Verdict&);  ///< of decide()'s own: null, or says what it did not know
};

/// Those that need the network adapters, the GPUs, or neither.
std::span<const Check> network_decision_checks();
std::span<const Check> gpu_decision_checks();
std::span<const Check> other_decision_checks();
std::span<const Check> interface_checks();
std::span<const Check> p2p_checks();
std::span<const Check> nvlink_checks();
std::span<const Check> fabric_checks();
std::span<const Check> gdr_checks();
std::span<const Check> rdma_checks();
std::span<const Check> roce_checks();
std::span<const Check> container_checks();
std::span<const Check> limit_checks();
std::span<const Check> numa_checks();
std::span<const Check> pcie_checks();
std::span<const Check> platform_checks();
std::span<const Check> gpu_checks();
std::span<const Check> software_checks();
std::span<const Check> topology_checks();
std::span<const Check> visibility_checks();
std::span<const Check> cloud_checks();
std::span<const Check> setting_checks();
std::span<const Check> amd_checks();

}  // namespace toporun::env::doctor
