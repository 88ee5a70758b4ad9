#include "profiles/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/toml.hpp"

namespace toporun::profiles {
namespace {

constexpr double kMostGbytesPerS = 10000;
constexpr std::size_t kMostMeasuredGpus = 256;
constexpr std::size_t kLongestText = 200;

std::string line_of(const TomlTable& table, const std::string& key, std::string text) {
    if (text.size() > kLongestText || printable(text) != text)
        table.fail(key, fmt::format("'{}' must be one short line", key));
    return text;
}

std::string optional_line(TomlTable& table, const std::string& key) {
    return line_of(table, key, table.string(key).value_or(""));
}

std::string filled_line(TomlTable& table, const std::string& key) {
    std::string text = line_of(table, key, table.required_string(key));
    if (trim(text).empty()) table.fail(key, fmt::format("'{}' must not be empty", key));
    return text;
}

/// Whether `text` has the form of `pattern`: 'd' a decimal digit, 'x' a lower-case hexadecimal one.
bool has_form(std::string_view text, std::string_view pattern) {
    return text.size() == pattern.size() &&
           std::equal(text.begin(), text.end(), pattern.begin(), [](char c, char form) {
               const bool digit = c >= '0' && c <= '9';
               if (form == 'd') return digit;
               if (form == 'x') return digit || (c >= 'a' && c <= 'f');
               return c == form;
           });
}

std::string pci_id(TomlTable& table, const std::string& key) {
    std::string text = table.required_string(key);
    for (char& c : text)
        if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!has_form(text, "xxxx:xx:xx.d") && !has_form(text, "xxxxxxxx:xx:xx.d"))
        table.fail(key, fmt::format("'{}' is no PCI id", printable(text)),
                   "write it like 0000:18:00.0");
    return text;
}

std::optional<double> bandwidth(TomlTable& table, const std::string& key) {
    const auto value = table.number(key);
    if (value && !(std::isfinite(*value) && *value > 0 && *value <= kMostGbytesPerS))
        table.fail(key,
                   fmt::format("'{}' must be above 0 and at most {} GB/s", key, kMostGbytesPerS));
    return value;
}

void read_head(TomlTable& head, Measured& measured) {
    measured.name = filled_line(head, "name");
    measured.date = head.required_string("date");
    if (!has_form(measured.date, "dddd-dd-dd"))
        head.fail("date", fmt::format("'{}' is no date", printable(measured.date)),
                  "write it like 2026-11-30, in quotes");
    measured.tool = filled_line(head, "tool");
    measured.driver = optional_line(head, "driver");
    measured.kernel = optional_line(head, "kernel");
    measured.iommu = optional_line(head, "iommu");
    const std::vector<std::string> modes = {"", "off", "pass-through", "translating"};
    if (std::find(modes.begin(), modes.end(), measured.iommu) == modes.end())
        head.fail("iommu", fmt::format("'{}' is no value of 'iommu'", measured.iommu),
                  "write one of off, pass-through, translating");
}

std::set<std::string> read_gpus(TomlTable& table, Measured& measured) {
    std::set<std::string> known;
    std::vector<TomlTable> gpus = table.tables("gpus");
    if (gpus.size() < 2 || gpus.size() > kMostMeasuredGpus)
        table.fail("gpus",
                   fmt::format("a measured profile lists 2 to {} GPUs, found {}", kMostMeasuredGpus,
                               gpus.size()),
                   "one [[gpus]] table for each GPU of the machine");
    for (TomlTable& gpu : gpus) {
        MeasuredGpu one{pci_id(gpu, "pci"), optional_line(gpu, "uuid")};
        if (!known.insert(one.pci).second)
            gpu.fail("pci", fmt::format("two GPUs have the PCI id {}", one.pci));
        if (!one.uuid.empty() && !one.uuid.starts_with("GPU-"))
            gpu.fail("uuid", fmt::format("'{}' is no GPU's UUID", one.uuid),
                     "nvidia-smi -L shows it: GPU-...");
        measured.gpus.push_back(std::move(one));
    }
    return known;
}

MeasuredPair read_pair(TomlTable& table, const std::set<std::string>& known) {
    MeasuredPair pair{pci_id(table, "a"), pci_id(table, "b"), {}, {}, true};
    for (const auto& [key, id] : {std::pair("a", pair.a), std::pair("b", pair.b)})
        if (known.count(id) == 0)
            table.fail(key, fmt::format("{} is not among the GPUs of this file", id));
    if (pair.a == pair.b) table.fail("b", "a pair has two different GPUs");
    pair.p2p_gbytes_per_s = bandwidth(table, "p2p_gbytes_per_s");
    pair.shm_gbytes_per_s = bandwidth(table, "shm_gbytes_per_s");
    const auto intact = table.boolean("intact");
    if (!intact)
        table.fail("intact", "'intact' is missing", "true when the data arrived as it was sent");
    pair.intact = *intact;
    return pair;
}

}  // namespace

bool is_measured(std::string_view text, std::string_view file) {
    return TomlTable::parse(text, file).has("measured");
}

Measured read_measured(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    Measured measured;
    measured.file = file;
    auto head = table.table("measured");
    if (!head) table.fail("measured", "the table [measured] is missing");
    read_head(*head, measured);
    const std::set<std::string> known = read_gpus(table, measured);
    std::set<std::pair<std::string, std::string>> seen;
    std::vector<TomlTable> pairs = table.tables("pairs");
    for (TomlTable& one : pairs) {
        MeasuredPair pair = read_pair(one, known);
        if (!seen.insert(std::minmax(pair.a, pair.b)).second)
            one.fail("a", fmt::format("the pair {} {} is there twice", pair.a, pair.b));
        measured.pairs.push_back(std::move(pair));
    }
    table.finish();
    if (measured.pairs.empty()) table.fail("pairs", "no pair was measured");
    return measured;
}

}  // namespace toporun::profiles
