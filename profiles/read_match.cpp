#include "profiles/read_match.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::profiles {
namespace {

constexpr int kMostDevices = 1024;
constexpr double kFastestGbits = 100000;

std::optional<int> count(TomlTable& table, const std::string& key) {
    const auto number = table.integer(key);
    if (!number) return std::nullopt;
    if (*number < 0 || *number > kMostDevices)
        table.fail(key, fmt::format("'{}' must be 0 to {}, found {}", key, kMostDevices, *number));
    return static_cast<int>(*number);
}

void check_range(const TomlTable& table, const std::string& key, const std::optional<int>& low,
                 const std::optional<int>& high) {
    if (low && high && *high < *low)
        table.fail(key, fmt::format("'{}' {} is below the minimum {}", key, *high, *low));
}

std::string part(TomlTable& table, const std::string& key) {
    const auto text = table.string(key);
    if (text && trim(*text).empty())
        table.fail(key, fmt::format("'{}' must not be empty", key), "leave the key out");
    return text.value_or("");
}

/// A text or several, none of them empty.
std::vector<std::string> parts(TomlTable& table, const std::string& key) {
    std::vector<std::string> list = table.one_or_more(key).value_or(std::vector<std::string>{});
    for (const std::string& text : list)
        if (trim(text).empty()) table.fail(key, fmt::format("'{}' must not be empty", key));
    return list;
}

bool is_device_id(std::string_view text) {
    return text.size() == 9 && text[4] == ':' &&
           std::count_if(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           }) == 8;
}

std::vector<std::string> device_ids(TomlTable& table, const std::string& key) {
    std::vector<std::string> ids = parts(table, key);
    for (const std::string& id : ids)
        if (!is_device_id(id))
            table.fail(key, fmt::format("'{}' is no PCI vendor and device", printable(id)),
                       "write it like 15b3:1021, lower case");
    return ids;
}

std::vector<std::string> kinds(TomlTable& table) {
    static const std::vector<std::string> kKinds = {
        "ethernet", "ipoib", "infiniband", "roce", "efa",      "bond", "vlan",
        "bridge",   "veth",  "tunnel",     "vf",   "loopback", "other"};
    std::vector<std::string> words = parts(table, "kinds");
    for (const std::string& word : words) {
        if (std::find(kKinds.begin(), kKinds.end(), word) != kKinds.end()) continue;
        const auto close = closest_word(word, kKinds);
        table.fail("kinds", fmt::format("'{}' is no kind of adapter", printable(word)),
                   close ? fmt::format("did you mean '{}'?", *close)
                         : "write one of " + join(kKinds, ", "));
    }
    return words;
}

NicSet read_nics(TomlTable& table) {
    NicSet set;
    set.ids = device_ids(table, "ids");
    set.drivers = parts(table, "drivers");
    set.kinds = kinds(table);
    set.names = parts(table, "names");
    set.rdma = table.boolean("rdma");
    set.speed_gbits = table.number("speed_gbits");
    if (set.speed_gbits && !(*set.speed_gbits > 0 && *set.speed_gbits < kFastestGbits))
        table.fail("speed_gbits", "'speed_gbits' must be above 0, in Gb/s");
    set.count = count(table, "count");
    set.count_min = count(table, "count_min");
    set.count_max = count(table, "count_max");
    check_range(table, "count_max", set.count_min, set.count_max);
    set.where = table.where();
    if (!set.count && !set.count_min && !set.count_max)
        table.fail("count", "how many adapters is missing", "write count, count_min or count_max");
    return set;
}

std::vector<NicSet> read_nic_sets(TomlTable& table) {
    std::vector<NicSet> sets;
    std::vector<TomlTable> rows = table.tables("nics");
    for (TomlTable& row : rows) sets.push_back(read_nics(row));
    return sets;
}

bool is_named(const Match& match) {
    return !match.vendor.empty() || !match.asset_tag.empty() || !match.board.empty();
}

bool has_other_conditions(const Match& match) {
    return match.gpu_count_min || match.gpu_count_max || !match.links.empty() ||
           !match.peer_access.empty() || !match.architecture.empty() || match.virtual_machine ||
           !match.container.empty() || !match.scheduler.empty() || !match.plugins.empty() ||
           !match.files.empty() || !match.not_gpu_names.empty();
}

}  // namespace

std::string required_text(TomlTable& table, const std::string& key) {
    std::string text = table.required_string(key);
    if (trim(text).empty()) table.fail(key, fmt::format("'{}' must not be empty", key));
    return text;
}

std::string one_of(TomlTable& table, const std::string& key,
                   const std::vector<std::string>& allowed) {
    const auto word = table.string(key);
    if (!word) return "";
    if (std::find(allowed.begin(), allowed.end(), *word) != allowed.end()) return *word;
    const auto close = closest_word(*word, allowed);
    table.fail(key, fmt::format("'{}' is no value of '{}'", printable(*word), key),
               close ? fmt::format("did you mean '{}'?", *close)
                     : fmt::format("write one of {}", join(allowed, ", ")));
}

Match read_match(TomlTable& table) {
    Match match;
    match.vendor = part(table, "vendor");
    match.products = parts(table, "products");
    if (table.has("product")) {
        if (!match.products.empty())
            table.fail("product", "'product' and 'products' exclude each other");
        match.products = parts(table, "product");
    }
    match.asset_tag = part(table, "asset_tag");
    match.board = part(table, "board");
    match.instance_types = parts(table, "instance_types");
    match.gpu_names = parts(table, "gpu_names");
    match.not_gpu_names = parts(table, "not_gpu_names");
    match.gpu_ids = device_ids(table, "gpu_ids");
    match.gpu_count = count(table, "gpu_count");
    match.gpu_count_min = count(table, "gpu_count_min");
    match.gpu_count_max = count(table, "gpu_count_max");
    check_range(table, "gpu_count_max", match.gpu_count_min, match.gpu_count_max);
    match.links = one_of(table, "links", {"nvswitch", "all", "nvlink", "none"});
    match.peer_access = one_of(table, "peer_access", {"ok", "refused", "not-ok"});
    match.architecture = one_of(table, "architecture", {"x86_64", "aarch64", "ppc64le"});
    match.kernel = part(table, "kernel");
    match.virtual_machine = table.boolean("virtual_machine");
    match.container = part(table, "container");
    match.scheduler = part(table, "scheduler");
    match.plugins = parts(table, "plugins");
    match.files = parts(table, "files");
    match.nics = read_nic_sets(table);
    return match;
}

Expect read_expect(TomlTable& table) {
    Expect expect;
    expect.gpu_count = count(table, "gpu_count");
    expect.nics = read_nic_sets(table);
    return expect;
}

int specificity(const Match& match) {
    int sum = match.products.empty() ? 0 : 64;
    if (is_named(match)) sum += 32;
    if (!match.nics.empty()) sum += 16;
    if (!match.kernel.empty()) sum += 8;
    if (match.gpu_count) sum += 4;
    if (!match.gpu_names.empty() || !match.gpu_ids.empty()) sum += 2;
    return sum + (has_other_conditions(match) ? 1 : 0);
}

}  // namespace toporun::profiles
