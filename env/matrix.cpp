#include "env/matrix.hpp"

#include <algorithm>

namespace toporun::env {
namespace {

template <class T>
bool square(const std::vector<std::vector<T>>& matrix, std::size_t size) {
    return matrix.size() == size &&
           std::all_of(matrix.begin(), matrix.end(),
                       [&](const std::vector<T>& row) { return row.size() == size; });
}

template <class T>
T at(const std::vector<std::vector<T>>& matrix, int a, int b) {
    return matrix[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
}

}  // namespace

PairMatrix::PairMatrix(const detect::Machine& machine) : machine_(machine) {
    const std::size_t size = machine.gpus.size();
    paths_known_ = size > 0 && square(machine.gpu_paths, size);
    access_known_ = size > 0 && square(machine.peer_access, size);
    redirect_known_ = size > 0 && square(machine.gpu_acs_redirect, size);
    bandwidth_known_ = size > 0 && square(machine.gpu_path_gbytes_per_s, size);
    links_known_ =
        size > 0 && square(machine.gpu_links, size) &&
        std::any_of(
            machine.gpu_links.begin(), machine.gpu_links.end(), [](const std::vector<int>& row) {
                return std::any_of(row.begin(), row.end(), [](int links) { return links > 0; });
            });
}

detect::PathType PairMatrix::path(int a, int b) const {
    if (!paths_known_) return detect::PathType::SYS;
    return std::max(at(machine_.gpu_paths, a, b), at(machine_.gpu_paths, b, a));
}

detect::PeerAccess PairMatrix::peer_access(int a, int b) const {
    if (!access_known_) return detect::PeerAccess::unknown;
    const auto there = at(machine_.peer_access, a, b), back = at(machine_.peer_access, b, a);
    if (there == detect::PeerAccess::refused || back == detect::PeerAccess::refused)
        return detect::PeerAccess::refused;
    return there == back ? there : detect::PeerAccess::unknown;
}

detect::AcsRedirect PairMatrix::acs_redirect(int a, int b) const {
    if (!redirect_known_) return detect::AcsRedirect::unknown;
    const auto there = at(machine_.gpu_acs_redirect, a, b);
    const auto back = at(machine_.gpu_acs_redirect, b, a);
    if (there == detect::AcsRedirect::on || back == detect::AcsRedirect::on)
        return detect::AcsRedirect::on;
    return there == back ? there : detect::AcsRedirect::unknown;
}

int PairMatrix::links(int a, int b) const {
    if (!links_known_) return 0;
    return std::max(0, std::min(at(machine_.gpu_links, a, b), at(machine_.gpu_links, b, a)));
}

bool PairMatrix::links_told(int a, int b) const {
    const detect::PathType joined = path(a, b);
    if (joined == detect::PathType::NVL || joined == detect::PathType::NVB) return true;
    const auto& links = machine_.gpu_links;
    return square(links, machine_.gpus.size()) && at(links, a, b) >= 0 && at(links, b, a) >= 0;
}

std::optional<double> PairMatrix::path_gbytes_per_s(int a, int b) const {
    if (!bandwidth_known_) return std::nullopt;
    const auto there = at(machine_.gpu_path_gbytes_per_s, a, b);
    const auto back = at(machine_.gpu_path_gbytes_per_s, b, a);
    if (!there || !back) return there ? there : back;
    return std::min(*there, *back);
}

bool PairMatrix::direct_nvlink(int a, int b) const {
    return path(a, b) == detect::PathType::NVL && (!links_known_ || links(a, b) > 0) &&
           peer_access(a, b) != detect::PeerAccess::refused && !mig(a, b);
}

bool PairMatrix::mig(int a, int b) const {
    return machine_.gpus[static_cast<std::size_t>(a)].mig.value_or(false) ||
           machine_.gpus[static_cast<std::size_t>(b)].mig.value_or(false);
}

}  // namespace toporun::env
