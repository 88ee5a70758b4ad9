#include <fmt/format.h>

#include <optional>

#include "detect/machine_toml_read.hpp"

/// The matrices of a machine file: shapes, symmetry and cells.
namespace toporun::detect::machine_toml {
namespace {

PathType path(const TomlTable& table, const std::string& key, const std::string& word) {
    if (const auto found = parse_path_name(word)) return *found;
    unknown_word(table, key, word, "a path type", names_of(path_name, PathType::DIS));
}

/// Refuses a matrix that is not `rows` times `columns`.
template <class Row>
void check_shape(const TomlTable& top, const std::string& key, const std::vector<Row>& matrix,
                 std::size_t rows, std::size_t columns, std::string_view what) {
    if (matrix.size() != rows)
        top.fail(key, fmt::format("'{}' has {} rows, must have {} ({})", key, matrix.size(), rows,
                                  what));
    for (std::size_t i = 0; i < rows; ++i)
        if (matrix[i].size() != columns)
            top.fail(key, fmt::format("row {} of '{}' has {} entries, must have {} ({})", i, key,
                                      matrix[i].size(), columns, what));
}

/// Shape GPU x GPU, symmetric, `diagonal` on the diagonal.
template <class Cell>
void check_square(const TomlTable& top, const std::string& key,
                  const std::vector<std::vector<Cell>>& matrix, std::size_t gpus,
                  const std::optional<Cell>& diagonal) {
    check_shape(top, key, matrix, gpus, gpus, "one for each GPU");
    for (std::size_t a = 0; a < gpus; ++a) {
        if (diagonal && matrix[a][a] != *diagonal)
            top.fail(key, fmt::format("'{}' must have {} on its diagonal, found {} for GPU {}", key,
                                      *diagonal, matrix[a][a], a));
        for (std::size_t b = 0; b < a; ++b)
            if (matrix[a][b] != matrix[b][a])
                top.fail(key, fmt::format("'{}' is not symmetric: {} from GPU {} to {}, {} back",
                                          key, matrix[a][b], a, b, matrix[b][a]));
    }
}

/// Bandwidths: shape GPU x GPU, "" for a pair that nothing is known of.
void read_bandwidths(TomlTable& top, Machine& machine) {
    const std::string key = "gpu_path_gbytes_per_s";
    auto rows = top.number_matrix(key);
    if (!rows || rows->empty()) return;
    check_shape(top, key, *rows, machine.gpus.size(), machine.gpus.size(), "one for each GPU");
    for (const auto& row : *rows)
        for (const auto& cell : row)
            if (cell && !(*cell > 0 && *cell < 1e12))
                top.fail(key, fmt::format("{} is not a bandwidth in GB/s", *cell));
    machine.gpu_path_gbytes_per_s = std::move(*rows);
}

void read_gpu_matrices(TomlTable& top, Machine& machine) {
    const std::size_t gpus = machine.gpus.size();
    if (auto words = top.string_matrix("gpu_paths")) {
        for (auto& row : *words)
            for (std::string& word : row) word = path_name(path(top, "gpu_paths", word));
        check_square<std::string>(top, "gpu_paths", *words, gpus, "LOC");
        for (const auto& row : *words) {
            machine.gpu_paths.emplace_back();
            for (const std::string& word : row)
                machine.gpu_paths.back().push_back(*parse_path_name(word));
        }
    }
    if (const auto links = top.integer_matrix("gpu_links")) {
        check_square<std::int64_t>(top, "gpu_links", *links, gpus, 0);
        for (const auto& row : *links) {
            machine.gpu_links.emplace_back();
            for (const std::int64_t count : row) {
                if (count < -1 || count > 1000)  // -1 = unknown
                    top.fail("gpu_links", fmt::format("{} is not a number of links", count));
                machine.gpu_links.back().push_back(static_cast<int>(count));
            }
        }
    }
}

PeerAccess peer_access(const TomlTable& top, const std::string& key, const std::string& word) {
    if (word == "ok") return PeerAccess::ok;
    if (word == "refused") return PeerAccess::refused;
    if (word.empty() || word == "unknown") return PeerAccess::unknown;
    unknown_word(top, key, word, "a state of peer access", {"ok", "refused", "unknown"});
}

AcsRedirect acs_redirect(const TomlTable& top, const std::string& key, const std::string& word) {
    if (word == "on") return AcsRedirect::on;
    if (word == "off") return AcsRedirect::off;
    if (word.empty() || word == "unknown") return AcsRedirect::unknown;
    unknown_word(top, key, word, "a state of ACS redirect", {"on", "off", "unknown"});
}

std::optional<PathType> optional_path(const TomlTable& top, const std::string& key,
                                      const std::string& word) {
    return word.empty() ? std::nullopt : std::optional(path(top, key, word));
}

using Words = std::vector<std::vector<std::string>>;

/// Each word by `meaning`, which refuses those that it does not know.
template <class Meaning>
auto cells(const TomlTable& top, const std::string& key, const Words& words,
           const Meaning& meaning) {
    std::vector<std::vector<decltype(meaning(top, key, std::string()))>> rows;
    for (const auto& row : words) {
        rows.emplace_back();
        for (const std::string& word : row) rows.back().push_back(meaning(top, key, word));
    }
    return rows;
}

std::optional<Words> pair_words(TomlTable& top, const std::string& key, const Machine& machine) {
    auto words = top.string_matrix(key);
    if (words) check_square<std::string>(top, key, *words, machine.gpus.size(), std::nullopt);
    return words;
}

std::optional<Words> nic_words(TomlTable& top, const std::string& key, const Machine& machine) {
    auto words = top.string_matrix(key);
    if (words)
        check_shape(top, key, *words, machine.gpus.size(), machine.nics.size(),
                    "GPUs times interfaces");
    return words;
}

}  // namespace

void read_matrices(TomlTable& top, Machine& machine) {
    read_gpu_matrices(top, machine);
    read_bandwidths(top, machine);
    if (const auto words = pair_words(top, "peer_access", machine))
        machine.peer_access = cells(top, "peer_access", *words, peer_access);
    if (const auto words = pair_words(top, "gpu_acs_redirect", machine))
        machine.gpu_acs_redirect = cells(top, "gpu_acs_redirect", *words, acs_redirect);
    if (const auto words = nic_words(top, "gpu_nic_paths", machine))
        machine.gpu_nic_paths = cells(top, "gpu_nic_paths", *words, optional_path);
    if (const auto words = nic_words(top, "gpu_nic_acs_redirect", machine))
        machine.gpu_nic_acs_redirect = cells(top, "gpu_nic_acs_redirect", *words, acs_redirect);
}

}  // namespace toporun::detect::machine_toml
