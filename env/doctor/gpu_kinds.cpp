#include "env/doctor/gpu_kinds.hpp"

#include <algorithm>
#include <string_view>

#include "detect/topology/gpu_models.hpp"

namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::has_name_word;

enum class Form { unknown, module, rack_module, superchip, server_card, workstation, consumer };

struct Kind {
    Form form = Form::unknown;
    bool peer_access = false;  ///< between cards below one PCIe switch
};

constexpr bool kPeers = true;

struct Row {
    std::string_view word;    ///< of the name; '*' at the end: of a word that starts so
    std::string_view second;  ///< must be there too; "" = nothing more
    Kind kind;
};

/// The first row that fits holds. Sources: NVIDIA's and AMD's product pages for the forms; peer
/// access by public `nvidia-smi topo -p2p` tables and reports: L4 and T4 refuse it (CNS), A10, L40S
/// and the RTX cards with ECC memory have it (NVIDIA/nccl issues 606, 667, 1999, 2079, 2418).
constexpr Row kRows[] = {
    {"GeForce", "", {Form::consumer}},
    {"TITAN", "", {Form::consumer}},
    {"GH200", "", {Form::superchip}},
    {"GB200", "", {Form::rack_module, kPeers}},
    {"GB300", "", {Form::rack_module, kPeers}},
    {"PCIe", "", {Form::server_card, kPeers}},
    {"PCIE", "", {Form::server_card, kPeers}},
    {"NVL", "", {Form::server_card, kPeers}},
    {"SXM*", "", {Form::module, kPeers}},
    {"H100", "HBM3", {Form::module, kPeers}},  // "H100 80GB HBM3": cards have PCIe or NVL instead
    {"H100", "HBM2", {Form::module, kPeers}},  // "H100 64GB HBM2"; "80GB HBM2e" is the PCIe card
    {"H800", "", {Form::module, kPeers}},
    {"H200", "", {Form::module, kPeers}},
    {"H20", "", {Form::module, kPeers}},
    {"B100", "", {Form::module, kPeers}},
    {"B200", "", {Form::module, kPeers}},
    {"B300", "", {Form::module, kPeers}},
    {"RTX", "A4000", {Form::workstation, kPeers}},
    {"RTX", "A4500", {Form::workstation, kPeers}},
    {"RTX", "A5000", {Form::workstation, kPeers}},
    {"RTX", "A5500", {Form::workstation, kPeers}},
    {"RTX", "A6000", {Form::workstation, kPeers}},
    {"RTX", "Ada", {Form::workstation, kPeers}},
    {"RTX", "PRO", {Form::workstation, kPeers}},
    {"RTX", "", {Form::workstation}},
    {"Quadro", "", {Form::workstation}},
    {"H100", "", {Form::server_card, kPeers}},
    {"A100", "", {Form::server_card, kPeers}},
    {"A800", "", {Form::server_card, kPeers}},
    {"V100", "", {Form::server_card, kPeers}},
    {"V100S", "", {Form::server_card, kPeers}},
    {"P100", "", {Form::server_card, kPeers}},
    {"A30", "", {Form::server_card, kPeers}},
    {"A40", "", {Form::server_card, kPeers}},
    {"L20", "", {Form::server_card, kPeers}},
    {"L40", "", {Form::server_card, kPeers}},
    {"L40S", "", {Form::server_card, kPeers}},
    {"A2", "", {Form::server_card}},
    {"A10", "", {Form::server_card, kPeers}},
    {"A10G", "", {Form::server_card}},
    {"A16", "", {Form::server_card}},
    {"L2", "", {Form::server_card}},
    {"L4", "", {Form::server_card}},
    {"T4", "", {Form::server_card}},
    {"Tesla", "", {Form::server_card}},
    {"Instinct", "", {Form::server_card}},
    {"MI210", "", {Form::server_card}},
    {"MI250", "", {Form::server_card}},
    {"MI250X", "", {Form::server_card}},
    {"MI300A", "", {Form::server_card}},
    {"MI300X", "", {Form::server_card}},
    {"MI325X", "", {Form::server_card}},
    {"MI350X", "", {Form::server_card}},
    {"MI355X", "", {Form::server_card}},
};

/// A share of a GPU: "GRID A100-40C", "NVIDIA A40-48Q".
bool is_virtual(std::string_view name) {
    const auto words = detect::name_words(name);
    return has_name_word(name, "GRID") ||
           std::any_of(words.begin(), words.end(), [](std::string_view word) {
               return word.size() > 1 &&
                      std::string_view("ABCQ").find(word.back()) != std::string_view::npos &&
                      std::all_of(word.begin(), word.end() - 1,
                                  [](char c) { return c >= '0' && c <= '9'; });
           });
}

Kind kind_of(const Gpu& gpu) {
    for (const Row& row : kRows)
        if (has_name_word(gpu.name, row.word) &&
            (row.second.empty() || has_name_word(gpu.name, row.second)))
            return row.kind;
    return {};
}

}  // namespace

bool is_sxm(const Gpu& gpu) {
    const Form form = kind_of(gpu).form;
    return form == Form::module || form == Form::rack_module;
}

bool is_geforce(const Gpu& gpu) {
    return kind_of(gpu).form == Form::consumer;
}

bool is_server_gpu(const Gpu& gpu) {
    const Form form = kind_of(gpu).form;
    return is_sxm(gpu) || form == Form::superchip || form == Form::server_card;
}

bool is_laptop_gpu(const Gpu& gpu) {
    // "RTX 2080 with Max-Q Design"; "RTX PRO 6000 Blackwell Max-Q Workstation Edition" is a card.
    return has_name_word(gpu.name, "Laptop") || has_name_word(gpu.name, "Mobile") ||
           gpu.name.find("with Max-Q") != std::string::npos;
}

bool is_rack_gpu(const Gpu& gpu) {
    return kind_of(gpu).form == Form::rack_module;
}

bool has_bridge_connectors(const Gpu& gpu) {
    return has_name_word(gpu.name, "PCIe") || has_name_word(gpu.name, "PCIE") ||
           is_sold_bridged(gpu) || has_name_word(gpu.name, "GV100");
}

bool is_sold_bridged(const Gpu& gpu) {
    return has_name_word(gpu.name, "NVL");
}

bool has_peer_access(const Gpu& gpu) {
    return kind_of(gpu).peer_access && !is_virtual(gpu.name) && !is_laptop_gpu(gpu);
}

bool is_mi300_class(const Gpu& gpu) {
    return has_name_word(gpu.name, "MI300X") || has_name_word(gpu.name, "MI325X") ||
           has_name_word(gpu.name, "MI350X") || has_name_word(gpu.name, "MI355X");
}

std::optional<int> compute_capability(const Gpu& gpu) {
    if (gpu.compute_capability) return gpu.compute_capability;
    const auto model = detect::gpu_model(gpu.name);
    if (!model || model->compute_capability == 0) return std::nullopt;
    return model->compute_capability;
}

}  // namespace toporun::env::doctor
