#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml.hpp"
#include "detect/machine.hpp"

/// The parts of the machine file's reader. Each throws Error with the place of what it refuses.
namespace toporun::detect::machine_toml {

/// An integer from 0 to `most`.
std::optional<int> index(TomlTable& table, const std::string& key,
                         std::int64_t most = kMostOsIndex);
/// A size or count; "unlimited" is kUnlimited.
std::optional<std::uint64_t> size(TomlTable& table, const std::string& key);
std::optional<double> positive(TomlTable& table, const std::string& key);
CpuSet cpus(TomlTable& table, const std::string& key);
std::optional<PciAddress> pci(TomlTable& table, const std::string& key);
std::string pci_id(TomlTable& table, const std::string& key);  ///< "" when left out
std::string text(TomlTable& table, const std::string& key);    ///< "" when left out
std::vector<std::string> texts(TomlTable& table, const std::string& key);

/// One of `known`, "" when left out; `what` as in "a state".
std::string word(TomlTable& table, const std::string& key, std::string_view what,
                 const std::vector<std::string>& known);
[[noreturn]] void unknown_word(const TomlTable& table, const std::string& key,
                               const std::string& word, std::string_view what,
                               const std::vector<std::string>& known);

/// The names of an enumeration, for a hint.
template <class Enum>
std::vector<std::string> names_of(std::string_view (*name)(Enum), Enum last) {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(last); ++i)
        names.emplace_back(name(static_cast<Enum>(i)));
    return names;
}

void read_gpus(TomlTable& top, Machine& machine);
void read_nics(TomlTable& top, Machine& machine);
void read_cpu(TomlTable& top, Cpu& cpu);
/// Needs the GPUs and NICs, which give the shapes.
void read_matrices(TomlTable& top, Machine& machine);

}  // namespace toporun::detect::machine_toml
