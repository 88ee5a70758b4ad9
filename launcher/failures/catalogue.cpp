#include "launcher/failures/catalogue.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "launcher/failures/embedded.hpp"

namespace toporun::launcher::failures {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 9> kRoles = {
    {{"outside", Role::outside},
     {"external", Role::external},
     {"cause", Role::cause},
     {"hint", Role::hint},
     {"lag", Role::lag},
     {"ambiguous", Role::ambiguous},
     {"consequence", Role::consequence},
     {"teardown", Role::teardown},
     {"noise", Role::noise}}};

using Numbers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

Role read_role(TomlTable& table) {
    const std::string text = table.required_string("role");
    for (const auto& [name, role] : kRoles)
        if (name == text) return role;
    table.fail("role", "no role: " + text);
}

Class read_class(TomlTable& table) {
    return {table.required_string("id"), table.required_string("severity"),
            table.required_string("title"), table.strings("advice").value_or(Texts())};
}

/// `instead` stands in place of the class's advice: each of its steps ends in a line end, by which
/// the judge knows them.
std::string read_advice(TomlTable& row) {
    std::string advice = row.string("advice").value_or("");
    for (const std::string& step : row.strings("instead").value_or(Texts())) advice += step + "\n";
    return advice;
}

/// Of several lines that one text matches: a quoted consequence says that the text is none of its
/// rank's own making; of what is known to be harmless nothing else counts.
int strength(const KnownLine& line) {
    constexpr int kGeneral = static_cast<int>(Role::noise) * 2 - 1;  // before noise only
    if (line.id == "harmless") return -2;
    if (line.general) return kGeneral;
    return line.role == Role::consequence ? -1 : static_cast<int>(line.role) * 2;
}

bool counts(const KnownLine& line, const Captures& captures) {
    if (line.only.empty()) return true;
    auto value = captures.number("xid");
    if (!value) value = captures.number("status");
    return value && std::find(line.only.begin(), line.only.end(), *value) != line.only.end();
}

std::vector<std::pair<std::string_view, std::string_view>> builtin_files() {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const EmbeddedFile& file : embedded_files()) files.emplace_back(file.name, file.text);
    return files;
}

}  // namespace

std::string_view role_text(Role role) {
    return kRoles[static_cast<std::size_t>(role)].first;
}

const Catalogue& Catalogue::builtin() {
    static const Catalogue catalogue(builtin_files());
    return catalogue;
}

Catalogue::Catalogue(const std::vector<std::pair<std::string_view, std::string_view>>& files) {
    std::vector<TomlTable> tables;
    for (const auto& [name, text] : files) {
        tables.push_back(TomlTable::parse(text, name));
        for (TomlTable& row : tables.back().tables("classes")) classes_.push_back(read_class(row));
    }
    for (TomlTable& file : tables) {
        for (TomlTable& row : file.tables("findings")) add_finding(row);
        for (TomlTable& group : file.tables("groups")) {
            const std::string source = group.required_string("source");
            for (TomlTable& row : group.tables("lines")) {
                const std::string text = row.required_string("text");
                const std::string id = row.string("class").value_or("");
                const Class* of = find_class(id);
                if (of == nullptr && !id.empty()) row.fail("class", "no such class: " + id);
                try {
                    lines_.push_back({.pattern = Pattern(text),
                                      .id = row.string("id").value_or(""),
                                      .of = of,
                                      .role = read_role(row),
                                      .adds = row.string("adds").value_or(""),
                                      .says = row.string("says").value_or(""),
                                      .advice = read_advice(row),
                                      .source = source,
                                      .of_nccl = source.starts_with("NVIDIA/nccl "),
                                      .general = row.boolean("general").value_or(false),
                                      .only = row.integers("only").value_or(Numbers())});
                } catch (const std::invalid_argument& fault) {
                    row.fail("text", fault.what());
                }
                filter_.add(lines_.back().pattern.key(),
                            static_cast<std::uint16_t>(lines_.size() - 1));
                const Pattern& pattern = lines_.back().pattern;
                if (!pattern.anchor().empty())
                    anchors_.add(pattern.anchor());
                else if (!pattern.whole_line().empty())
                    short_lines_.emplace(pattern.whole_line());
                else
                    row.fail("text", "no seven bytes in a row, and no whole line");
            }
        }
        file.finish();
    }
}

void Catalogue::add_finding(TomlTable& row) {
    KnownFinding finding{{},
                         row.required_string("id"),
                         row.required_string("severity"),
                         row.required_string("what"),
                         row.required_string("effect"),
                         row.required_string("fix")};
    row.required_string("source");
    for (const std::string& text : row.strings("lines").value_or(Texts())) {
        try {
            finding.patterns.emplace_back(text);
        } catch (const std::invalid_argument& fault) {
            row.fail("lines", fault.what());
        }
        finding_filter_.add(finding.patterns.back().key(),
                            static_cast<std::uint16_t>(findings_.size()));
        anchors_.add(finding.patterns.back().anchor());
    }
    findings_.push_back(std::move(finding));
}

bool Catalogue::ends_in_short_line(std::string_view line) const {
    constexpr std::size_t kLongestLabel = 64;
    return line.size() <= kLongestLabel + Anchors::kBytes &&
           std::any_of(short_lines_.begin(), short_lines_.end(),
                       [&](const std::string& known) { return line.ends_with(known); });
}

const Class* Catalogue::find_class(std::string_view id) const {
    for (const Class& known : classes_)
        if (known.id == id) return &known;
    return nullptr;
}

std::optional<Catalogue::Match> Catalogue::match(std::string_view message,
                                                 const std::vector<std::uint16_t>& candidates,
                                                 bool nccl_record) const {
    std::optional<Match> best;
    for (const std::uint16_t candidate : candidates) {
        const KnownLine& line = lines_[candidate];
        if (nccl_record && !line.of_nccl) continue;
        if (best && strength(*best->line) <= strength(line)) continue;
        auto captures = line.pattern.match(message);
        if (!captures || !counts(line, *captures)) continue;
        best = Match{&line, std::move(*captures)};
    }
    return best;
}

}  // namespace toporun::launcher::failures
