#include "profiles/known_bad.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/toml.hpp"
#include "profiles/embedded.hpp"
#include "profiles/profile.hpp"

namespace toporun::profiles {
namespace {

constexpr int kMostRows = 100000;
constexpr int kMostGpus = 1024;
constexpr int kMostNodes = 1000000;

void check_word(const TomlTable& table, const std::string& key, const std::string& word,
                const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), word) != known.end()) return;
    const auto close = closest_word(word, known);
    table.fail(
        key, fmt::format("'{}' is no value of '{}'", printable(word), key),
        close ? fmt::format("did you mean '{}'?", *close) : "write one of " + join(known, ", "));
}

std::string choice(TomlTable& table, const std::string& key,
                   const std::vector<std::string>& known) {
    const auto word = table.string(key);
    if (!word) return "";
    check_word(table, key, *word, known);
    return *word;
}

/// Two or three numbers: "525.85.12", "2.28".
std::string dotted_version(TomlTable& table, const std::string& key) {
    const auto text = table.string(key);
    if (!text) return "";
    const std::vector<std::string> parts = split(*text, '.');
    const bool good = !parts.empty() && parts.size() <= 3 &&
                      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
                          const auto number = to_integer(part);
                          return number && *number >= 0 && *number <= 9999;
                      });
    if (!good) table.fail(key, fmt::format("'{}' is not a version", printable(*text)));
    return *text;
}

std::vector<std::string> names(TomlTable& table, const std::string& key) {
    std::vector<std::string> list = table.strings(key).value_or(std::vector<std::string>{});
    for (const std::string& name : list)
        if (trim(name).empty()) table.fail(key, "a name must not be empty");
    return list;
}

int number(TomlTable& table, const std::string& key, int most) {
    const auto value = table.integer(key);
    if (!value) return 0;
    if (*value < 0 || *value > most)
        table.fail(key, fmt::format("'{}' must be 0 to {}, found {}", key, most, *value));
    return static_cast<int>(*value);
}

void check_range(const TomlTable& table, const std::string& since, const std::string& until,
                 const std::string& key) {
    if (!since.empty() && !until.empty() && !version_in_range(since, "", until))
        table.fail(key, fmt::format("{} is below {}", until, since));
}

/// Whoever takes P2P away by a row must be sure of the cards, the drivers and the damage.
void check_decides(const TomlTable& table, const KnownBadRow& row) {
    const bool sure = row.confidence == "high" && !row.gpus.empty() && !row.driver_until.empty() &&
                      (row.symptom == "hang" || row.symptom == "corruption");
    if (!sure)
        table.fail("decides", "this row cannot decide",
                   "it needs 'gpus', 'driver_until', confidence high, and a hang or corruption");
}

KnownBadRow read_row(TomlTable& table) {
    KnownBadRow row;
    row.row = number(table, "row", kMostRows);
    if (row.row == 0) table.fail("row", "'row' must be a number above 0");
    row.gpus = names(table, "gpus");
    row.not_gpus = names(table, "not_gpus");
    row.gpu_count_min = number(table, "gpu_count_min", kMostGpus);
    row.gpu_count_max = number(table, "gpu_count_max", kMostGpus);
    row.nodes_min = number(table, "nodes_min", kMostNodes);
    row.driver_since = dotted_version(table, "driver_since");
    row.driver_until = dotted_version(table, "driver_until");
    check_range(table, row.driver_since, row.driver_until, "driver_until");
    row.nccl_since = dotted_version(table, "nccl_since");
    row.nccl_until = dotted_version(table, "nccl_until");
    check_range(table, row.nccl_since, row.nccl_until, "nccl_until");
    row.architecture = choice(table, "architecture", {"x86_64", "aarch64"});
    row.kernel = table.string("kernel").value_or("");
    row.platform = names(table, "platform");
    for (const std::string& word : row.platform)
        check_word(table, "platform", word,
                   {"vm", "container", "one-port", "port-per-gpu", "slingshot"});
    row.peer_access = choice(table, "peer_access", {"ok", "not-ok", "refused", "possible"});
    row.links = choice(table, "links", {"none", "some"});
    row.path = choice(table, "path", {"PIX", "PXB", "PHB", "SYS"});
    row.driver_open = table.boolean("driver_open");
    row.symptom = table.filled_string("symptom");
    check_word(table, "symptom", row.symptom, {"hang", "corruption", "error", "slow"});
    row.what = table.filled_string("what");
    row.fix = table.filled_string("fix");
    if (table.has("remark")) row.remark = table.filled_string("remark");
    row.source = table.filled_string("source");
    row.confidence = table.filled_string("confidence");
    check_word(table, "confidence", row.confidence, {"high", "medium"});
    row.decides = table.boolean("decides").value_or(false);
    if (row.decides) check_decides(table, row);
    return row;
}

StockRefusal read_refusal(TomlTable& table) {
    StockRefusal refusal;
    refusal.gpus = names(table, "gpus");
    if (refusal.gpus.empty()) table.fail("gpus", "'gpus' must name a GPU");
    refusal.not_gpus = names(table, "not_gpus");
    refusal.driver_since = dotted_version(table, "driver_since");
    refusal.guest = choice(table, "platform", {"vm"}) == "vm";
    refusal.what = table.filled_string("what");
    refusal.source = table.filled_string("source");
    return refusal;
}

}  // namespace

KnownBad read_known_bad(std::string_view text, std::string_view file) {
    TomlTable table = TomlTable::parse(text, file);
    KnownBad known;
    std::set<int> numbers;
    std::vector<TomlTable> rows = table.tables("rows");
    for (TomlTable& row : rows) {
        known.rows.push_back(read_row(row));
        if (!numbers.insert(known.rows.back().row).second)
            row.fail("row", fmt::format("two rows have the number {}", known.rows.back().row));
    }
    std::vector<TomlTable> refusals = table.tables("stock_refuses");
    for (TomlTable& refusal : refusals) known.stock_refusals.push_back(read_refusal(refusal));
    table.finish();
    return known;
}

KnownBad builtin_known_bad() {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == kKnownBadFile) return read_known_bad(file.text, file.name);
    return {};
}

}  // namespace toporun::profiles
