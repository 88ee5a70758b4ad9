#include "detect/import/settle_joined.hpp"

#include <algorithm>

#include "detect/topology/gpu_models.hpp"

namespace toporun::detect {
namespace {

/// A saved machine may have the note already.
void note_once(Machine& machine) {
    const std::string note =
        "root ports above GPUs redirect (ACS), which is of effect where the IOMMU translates: add "
        "/proc/cmdline for the IOMMU";
    auto& notes = machine.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

/// Requests that turn at the root complex are redirected where the IOMMU translates.
void settle_root_ports(Machine& machine) {
    const auto translating = machine.software.iommu_translating;
    const auto has_root = [](const Gpu& gpu) { return gpu.acs_root_port.has_value(); };
    auto& gpus = machine.gpus;
    if (std::none_of(gpus.begin(), gpus.end(), has_root)) return;
    if (!translating) return note_once(machine);
    const AcsRedirect effect = *translating ? AcsRedirect::on : AcsRedirect::off;
    const std::size_t size = gpus.size();
    auto& matrix = machine.gpu_acs_redirect;
    if (matrix.empty()) {
        matrix.assign(size, std::vector<AcsRedirect>(size, AcsRedirect::unknown));
        for (std::size_t i = 0; i < size; ++i) matrix[i][i] = AcsRedirect::off;
    }
    for (std::size_t a = 0; a < size; ++a)
        for (std::size_t b = 0; b < size; ++b) {
            if (!has_root(gpus[a]) || !has_root(gpus[b])) continue;
            if (gpus[a].acs_root_port == gpus[b].acs_root_port) continue;
            if (matrix[a][b] == AcsRedirect::unknown) matrix[a][b] = effect;
        }
    auto& any = machine.software.acs_redirect;
    if (!any && (*translating || std::all_of(gpus.begin(), gpus.end(), has_root)))
        any = *translating;
}

/// NVIDIA's modules with a Grace CPU, DGX Spark and Jetson: no other CPU is built with them.
void settle_architecture(Machine& machine) {
    if (!machine.cpu.architecture.empty()) return;
    for (const Gpu& gpu : machine.gpus)
        for (const std::string_view word : {"GH200", "GB200", "GB300", "GB10", "Orin", "Thor"})
            if (has_name_word(gpu.name, word)) machine.cpu.architecture = "aarch64";
}

}  // namespace

void settle_joined(Machine& machine) {
    settle_root_ports(machine);
    settle_architecture(machine);
}

}  // namespace toporun::detect
