#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/machine_toml_read.hpp"

namespace toporun::detect::machine_toml {

std::optional<int> index(TomlTable& table, const std::string& key, std::int64_t most) {
    const auto value = table.integer(key);
    if (!value) return std::nullopt;
    if (*value < 0 || *value > most)
        table.fail(key, fmt::format("'{}' must be between 0 and {}, found {}", key, most, *value));
    return static_cast<int>(*value);
}

std::optional<std::uint64_t> size(TomlTable& table, const std::string& key) {
    const auto found = table.scalar_text(key);
    if (!found) return std::nullopt;
    if (*found == "unlimited") return kUnlimited;
    const auto value = to_integer(*found);
    if (!value || *value < 0)
        table.fail(key, fmt::format("'{}' must be a number of at least 0, found '{}'", key,
                                    printable(*found)));
    return static_cast<std::uint64_t>(*value);
}

std::optional<double> positive(TomlTable& table, const std::string& key) {
    const auto value = table.number(key);
    if (value && !(*value > 0 && *value < 1e12))
        table.fail(key, fmt::format("'{}' must be more than 0, found {}", key, *value));
    return value;
}

CpuSet cpus(TomlTable& table, const std::string& key) {
    try {
        return CpuSet::parse(table.string(key).value_or(""));
    } catch (const Error& error) {
        if (!error.where().empty()) throw;  // of another type, with its place already
        table.fail(key, error.what(), error.hint());
    }
}

std::optional<PciAddress> pci(TomlTable& table, const std::string& key) {
    const auto found = table.string(key);
    if (!found) return std::nullopt;
    const auto address = PciAddress::parse(*found);
    if (!address)
        table.fail(key, fmt::format("'{}' is not a PCI bus id", printable(*found)),
                   "write it like 0000:18:00.0");
    return address;
}

std::string pci_id(TomlTable& table, const std::string& key) {
    const std::string found = text(table, key);
    if (!found.empty() && !is_pci_id(found))
        table.fail(key, fmt::format("'{}' is no vendor and device", printable(found)),
                   "write it like 15b3:1021");
    return found;
}

std::string text(TomlTable& table, const std::string& key) {
    return table.string(key).value_or("");
}

std::vector<std::string> texts(TomlTable& table, const std::string& key) {
    return table.strings(key).value_or(std::vector<std::string>{});
}

std::string word(TomlTable& table, const std::string& key, std::string_view what,
                 const std::vector<std::string>& known) {
    const std::string found = text(table, key);
    if (!found.empty() && std::find(known.begin(), known.end(), found) == known.end())
        unknown_word(table, key, found, what, known);
    return found;
}

void unknown_word(const TomlTable& table, const std::string& key, const std::string& word,
                  std::string_view what, const std::vector<std::string>& known) {
    const auto suggestion = closest_word(word, known);
    table.fail(key, fmt::format("'{}' is not {}", printable(word), what),
               suggestion ? fmt::format("did you mean '{}'?", *suggestion)
                          : "known: " + join(known, ", "));
}

}  // namespace toporun::detect::machine_toml
