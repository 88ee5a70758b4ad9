#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"

/// Words for the facts of a machine, shared by its line, its view and its drawings. Every text is
/// safe for a terminal.
namespace toporun::launcher {

/// "3 links", "1 link".
std::string counted(std::size_t count, std::string_view noun);

/// Code points of valid UTF-8, which is what printable() gives.
std::size_t text_width(std::string_view text);

/// The name without what every card has: "NVIDIA H100 80GB HBM3" is "H100 80GB".
std::string short_name(const detect::Gpu& gpu);

/// The RDMA device, which is shorter and is what NCCL uses, else the interface; a second port of a
/// device is "mlx4_0:2".
std::string nic_label(const detect::Nic& nic);

/// "0-3,6"
std::string index_list(const std::vector<int>& indices);

/// CPUs in list form; steps as taskset takes them where neighbours lie on other nodes: "0-62:2".
std::string cpu_list(const detect::CpuSet& cpus);

/// "mlx5_0-3 rdmap4-7s0 eno1": neighbours whose names count upwards as ranges, in the order given.
std::string name_list(const std::vector<std::string>& names);

/// "450", "56.2", "2.5"
std::string rate_text(double value);

std::string bytes_text(std::uint64_t bytes);  ///< "1.5 GiB", "unlimited"

/// "NVL18", "NVB", "PHB": the path with the number of its NVLinks; "?" when unknown.
std::string path_text(const detect::Machine& machine, std::size_t a, std::size_t b);

bool has_paths(const detect::Machine& machine);      ///< gpu_paths has its shape and a pair
bool has_nic_paths(const detect::Machine& machine);  ///< gpu_nic_paths has its shape

/// NVLinks of a GPU by the matrix of links: to the switches, or all pairs together. Nothing where
/// the matrix does not tell all that it needs.
std::optional<int> links_of(const detect::Machine& machine, std::size_t gpu);

/// Positions of the GPUs nearest to the NIC, and the path of all of them.
struct NearestGpus {
    std::vector<int> indices;  ///< Gpu::index
    detect::PathType path = detect::PathType::SYS;
};
std::optional<NearestGpus> nearest_gpus(const detect::Machine& machine, std::size_t nic);

/// Whether all members of a list have the same value by `value_of`.
template <class List, class ValueOf>
bool all_equal(const List& list, const ValueOf& value_of) {
    return std::all_of(list.begin(), list.end(), [&](const auto& member) {
        return value_of(member) == value_of(*list.begin());
    });
}

/// Rows of cells below a header, left-aligned, `gap` blanks between columns, two before the first.
/// A column without a word in any row is left out.
class Table {
  public:
    explicit Table(std::vector<std::string> header, std::size_t gap = 2);
    void row(std::vector<std::string> cells);
    /// Lines, "" without rows.
    std::string text() const;
    std::size_t width() const;  ///< columns that the text takes, with a last gap
    std::size_t said() const;   ///< columns with a word

  private:
    std::vector<std::size_t> widths() const;  ///< 0 = left out

    std::vector<std::vector<std::string>> rows_;
    std::size_t gap_;
};

}  // namespace toporun::launcher
