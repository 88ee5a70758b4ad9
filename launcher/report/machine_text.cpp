#include "launcher/report/machine_text.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace toporun::launcher {

using detect::Gpu;
using detect::Machine;

std::string counted(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t text_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
}

std::string short_name(const Gpu& gpu) {
    std::string_view name = gpu.name;
    for (const std::string_view maker : {"NVIDIA ", "AMD "})
        if (name.starts_with(maker)) name.remove_prefix(maker.size());
    for (const std::string_view memory : {" HBM2", " HBM2e", " HBM3", " HBM3e"})
        if (name.ends_with(memory)) name.remove_suffix(memory.size());
    if (!name.empty()) return printable(name);
    return gpu.vendor == "amd" ? "AMD GPU" : gpu.vendor == "nvidia" ? "NVIDIA GPU" : "GPU";
}

std::string nic_label(const detect::Nic& nic) {
    if (!nic.rdma_device) return printable(nic.name);
    const std::string device = printable(*nic.rdma_device);
    return nic.port.value_or(1) > 1 ? fmt::format("{}:{}", device, *nic.port) : device;
}

std::string cpu_list(const detect::CpuSet& cpus) {
    constexpr std::size_t kFewest = 4;  // fewer are shorter when listed
    const std::vector<int>& all = cpus.indices();
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < all.size();) {
        std::size_t end = i + 1;
        const int step = end < all.size() ? all[end] - all[i] : 1;
        while (end < all.size() && all[end] - all[end - 1] == step) ++end;
        if (step > 1 && end - i < kFewest) end = i + 1;
        parts.push_back(fmt::format("{}", all[i]));
        if (end > i + 1) parts.back() += fmt::format("-{}", all[end - 1]);
        if (end > i + 1 && step > 1) parts.back() += fmt::format(":{}", step);
        i = end;
    }
    return join(parts, ",");
}

std::string index_list(const std::vector<int>& indices) {
    return detect::CpuSet(indices).text();
}

namespace {

/// A name taken apart at one of its numbers: "rdmap4s0" at its first is {"rdmap", 4, "s0"}.
struct Numbered {
    std::string_view before;
    int number = 0;
    std::string_view after;
    friend bool operator==(const Numbered&, const Numbered&) = default;
};

constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostDigits = 9;

/// The name at each of its numbers, those with leading zeros left out.
std::vector<Numbered> numbered(std::string_view name) {
    std::vector<Numbered> found;
    for (std::size_t at = name.find_first_of(kDigits); at != name.npos;) {
        const std::size_t end = std::min(name.find_first_not_of(kDigits, at), name.size());
        const std::string_view digits = name.substr(at, end - at);
        if (digits.size() <= kMostDigits && (digits.size() == 1 || digits.front() != '0'))
            found.push_back(
                {name.substr(0, at), static_cast<int>(*to_integer(digits)), name.substr(end)});
        at = name.find_first_of(kDigits, end);
    }
    return found;
}

/// How many names from `at` on count upwards at the same number, and that number of the first.
std::pair<std::size_t, Numbered> run_of(const std::vector<std::string>& names, std::size_t at) {
    std::pair<std::size_t, Numbered> longest = {1, {}};
    for (const Numbered& first : numbered(names[at])) {
        std::size_t length = 1;
        for (; at + length < names.size(); ++length) {
            Numbered expected = first;
            expected.number += static_cast<int>(length);
            const auto parts = numbered(names[at + length]);
            if (std::find(parts.begin(), parts.end(), expected) == parts.end()) break;
        }
        if (length > longest.first) longest = {length, first};
    }
    return longest;
}

}  // namespace

std::string name_list(const std::vector<std::string>& names) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < names.size();) {
        const auto [length, first] = run_of(names, i);
        if (length > 1)
            parts.push_back(
                printable(fmt::format("{}{}-{}{}", first.before, first.number,
                                      first.number + static_cast<int>(length) - 1, first.after)));
        else
            parts.push_back(printable(names[i]));
        i += length;
    }
    return join(parts, " ");
}

std::string rate_text(double value) {
    return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string bytes_text(std::uint64_t bytes) {
    return bytes == detect::kUnlimited ? "unlimited" : format_bytes(bytes);
}

namespace {

int pair_links(const Machine& machine, std::size_t a, std::size_t b) {
    return machine.gpu_links.size() > a && machine.gpu_links[a].size() > b ? machine.gpu_links[a][b]
                                                                           : 0;
}

}  // namespace

std::string path_text(const Machine& machine, std::size_t a, std::size_t b) {
    const detect::PathType path = machine.gpu_paths.at(a).at(b);
    if (path == detect::PathType::DIS) return "?";
    const std::string_view name = detect::path_name(path);
    const int links = pair_links(machine, a, b);
    return links > 0 ? fmt::format("{}{}", name, links) : std::string(name);
}

namespace {

template <class Row>
bool has_shape(const std::vector<Row>& matrix, std::size_t rows, std::size_t columns) {
    return matrix.size() == rows && std::all_of(matrix.begin(), matrix.end(), [&](const Row& row) {
               return row.size() == columns;
           });
}

}  // namespace

bool has_paths(const Machine& machine) {
    return machine.gpus.size() > 1 &&
           has_shape(machine.gpu_paths, machine.gpus.size(), machine.gpus.size());
}

bool has_nic_paths(const Machine& machine) {
    return !machine.gpus.empty() && !machine.nics.empty() &&
           has_shape(machine.gpu_nic_paths, machine.gpus.size(), machine.nics.size());
}

std::optional<int> links_of(const Machine& machine, std::size_t gpu) {
    if (machine.gpu_links.size() <= gpu) return std::nullopt;
    int sum = 0;
    int most = 0;
    bool all_told = true;
    for (const int count : machine.gpu_links[gpu]) {
        all_told = all_told && count >= 0;
        sum += std::max(count, 0);
        most = std::max(most, count);
    }
    if (machine.nvswitch && most > 0) return most;
    if (!all_told) return std::nullopt;
    return sum;
}

std::optional<NearestGpus> nearest_gpus(const Machine& machine, std::size_t nic) {
    if (!has_nic_paths(machine) || nic >= machine.nics.size()) return std::nullopt;
    std::optional<NearestGpus> nearest;
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        const auto& path = machine.gpu_nic_paths[gpu][nic];
        if (!path) continue;
        if (!nearest || *path < nearest->path) nearest = NearestGpus{{}, *path};
        if (*path == nearest->path) nearest->indices.push_back(machine.gpus[gpu].index);
    }
    return nearest;
}

Table::Table(std::vector<std::string> header, std::size_t gap) : gap_(gap) {
    rows_.push_back(std::move(header));
}

void Table::row(std::vector<std::string> cells) {
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> found(rows_.front().size(), 0);
    for (std::size_t column = 0; column < found.size(); ++column) {
        bool said = false;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (column >= rows_[i].size()) continue;
            said = said || (i > 0 && !rows_[i][column].empty());
            found[column] = std::max(found[column], text_width(rows_[i][column]));
        }
        if (!said) found[column] = 0;
    }
    return found;
}

std::size_t Table::width() const {
    std::size_t sum = 2;
    for (const std::size_t column : widths())
        if (column > 0) sum += column + gap_;
    return sum;
}

std::size_t Table::said() const {
    const std::vector<std::size_t> found = widths();
    return found.size() - static_cast<std::size_t>(std::count(found.begin(), found.end(), 0u));
}

std::string Table::text() const {
    if (rows_.size() < 2) return {};
    const std::vector<std::size_t> found = widths();
    std::string out;
    for (const auto& cells : rows_) {
        std::string line = "  ";
        for (std::size_t i = 0; i < cells.size() && i < found.size(); ++i)
            if (found[i] > 0)
                line += cells[i] + std::string(found[i] - text_width(cells[i]) + gap_, ' ');
        line.erase(line.find_last_not_of(' ') + 1);
        if (!line.empty()) out += line + "\n";
    }
    return out;
}

}  // namespace toporun::launcher
