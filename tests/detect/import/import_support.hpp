#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/import/import.hpp"
#include "files.hpp"

/// What the tests of importers share.
namespace toporun::tests {

inline detect::Machine import_text(const std::string& text, const std::string& name = "x.txt") {
    return detect::import_captures(std::vector<detect::Capture>{{name, text}});
}

inline bool has_note(const detect::Machine& machine, const std::string& part) {
    return std::any_of(machine.notes.begin(), machine.notes.end(), [&](const std::string& note) {
        return note.find(part) != std::string::npos;
    });
}

/// "LOC NVL SYS" per row, "?" for a pair that is not known.
inline std::string path_row(const detect::Machine& machine, std::size_t gpu) {
    std::vector<std::string> names;
    if (gpu >= machine.gpu_paths.size()) return "";
    for (const detect::PathType path : machine.gpu_paths[gpu])
        names.emplace_back(path == detect::PathType::DIS ? "?" : detect::path_name(path));
    return join(names, " ");
}

inline std::string link_row(const detect::Machine& machine, std::size_t gpu) {
    std::vector<std::string> numbers;
    if (gpu >= machine.gpu_links.size()) return "";
    for (const int links : machine.gpu_links[gpu]) numbers.push_back(std::to_string(links));
    return join(numbers, " ");
}

inline std::string nic_row(const detect::Machine& machine, std::size_t gpu) {
    std::vector<std::string> names;
    if (gpu >= machine.gpu_nic_paths.size()) return "";
    for (const auto& path : machine.gpu_nic_paths[gpu])
        names.emplace_back(path ? detect::path_name(*path) : "?");
    return join(names, " ");
}

inline std::string numa_nodes(const detect::Machine& machine) {
    std::vector<std::string> numbers;
    for (const detect::Gpu& gpu : machine.gpus)
        numbers.push_back(gpu.numa_node ? std::to_string(*gpu.numa_node) : "?");
    return join(numbers, " ");
}

inline std::string nic_names(const detect::Machine& machine) {
    std::vector<std::string> names;
    for (const detect::Nic& nic : machine.nics) names.push_back(nic.name);
    return join(names, " ");
}

/// Reads each row's file below `data` of the shared captures with `check(row, machine)`; a file
/// without a row fails.
template <class Row, class Check>
void check_shared_folder(const std::string& data, const std::vector<Row>& rows, Check check) {
    const std::filesystem::path folder = std::filesystem::path(TOPORUN_SHARED) / data;
    if (!std::filesystem::is_directory(folder)) {
        MESSAGE("skipped: ", folder.string(), " is not here");
        return;
    }
    for (const Row& row : rows) {
        CAPTURE(row.file);
        check(row, import_text(read_file(folder / row.file), row.file));
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        CAPTURE(name);
        CHECK(std::any_of(rows.begin(), rows.end(),
                          [&](const Row& row) { return row.file == name; }));
    }
}

}  // namespace toporun::tests
