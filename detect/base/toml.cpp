#include "base/toml.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace toporun {

struct TomlTable::State {
    std::shared_ptr<toml::table> root;  // keeps every node alive
    const toml::table* table = nullptr;
    std::string name;
    std::set<std::string> known;
    std::vector<TomlTable> children;

    std::string place(const toml::source_region& region) const {
        return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
    }
    [[noreturn]] void wrong_type(const toml::node& node, const std::string& key,
                                 std::string_view expected) const {
        std::string found = fmt::format("{}", static_cast<int>(node.type()));
        switch (node.type()) {
            case toml::node_type::table:
                found = "a table";
                break;
            case toml::node_type::array:
                found = "an array of another kind";
                break;
            case toml::node_type::string:
                found = "a string";
                break;
            case toml::node_type::integer:
                found = "an integer";
                break;
            case toml::node_type::floating_point:
                found = "a float";
                break;
            case toml::node_type::boolean:
                found = "a boolean";
                break;
            default:
                found = "a date or time";
                break;
        }
        throw Error(fmt::format("'{}' must be {}, found {}", printable(key), expected, found),
                    place(node.source()));
    }
    const toml::node* find(const std::string& key) {
        known.insert(key);
        return table->get(key);
    }
    template <class T>
    std::optional<T> scalar(const std::string& key, std::string_view expected) {
        const toml::node* node = find(key);
        if (node == nullptr) return std::nullopt;
        if (const auto value = node->value_exact<T>()) return *value;
        wrong_type(*node, key, expected);
    }
    template <class T>
    std::vector<T> array(const toml::node& node, const std::string& key,
                         std::string_view expected) {
        const toml::array* items = node.as_array();
        if (items == nullptr) wrong_type(node, key, expected);
        std::vector<T> values;
        for (const toml::node& item : *items) {
            if (const auto value = item.value_exact<T>())
                values.push_back(*value);
            else
                wrong_type(item, key, expected);
        }
        return values;
    }
    template <class T>
    std::optional<std::vector<std::vector<T>>> matrix(const std::string& key,
                                                      std::string_view expected) {
        const toml::node* node = find(key);
        if (node == nullptr) return std::nullopt;
        const toml::array* rows = node->as_array();
        if (rows == nullptr) wrong_type(*node, key, expected);
        std::vector<std::vector<T>> values;
        for (const toml::node& row : *rows) values.push_back(array<T>(row, key, expected));
        return values;
    }
};

namespace {

/// toml++ takes dotted keys apart without a limit, and destroys nested tables by recursion.
constexpr std::ptrdiff_t kMostKeyParts = 256;

void check_key_depth(std::string_view text, std::string_view name) {
    std::size_t line_number = 0;
    for (std::size_t begin = 0; begin < text.size(); ++line_number) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        const std::string_view key = line.substr(0, line.find('='));
        if (std::count(key.begin(), key.end(), '.') >= kMostKeyParts)
            throw Error(fmt::format("a key has more than {} parts", kMostKeyParts),
                        fmt::format("{}:{}:1", name, line_number + 1));
        begin = end + 1;
    }
}

}  // namespace

TomlTable TomlTable::parse(std::string_view text, std::string_view name) {
    check_key_depth(text, name);
    auto state = std::make_shared<State>();
    state->name = name;
    try {
        state->root = std::make_shared<toml::table>(toml::parse(text, name));
    } catch (const toml::parse_error& fault) {
        throw Error(printable(fault.description()), state->place(fault.source()));
    }
    state->table = state->root.get();
    return TomlTable(std::move(state));
}

std::optional<std::string> TomlTable::string(const std::string& key) {
    return state_->scalar<std::string>(key, "a string");
}
std::optional<std::int64_t> TomlTable::integer(const std::string& key) {
    return state_->scalar<std::int64_t>(key, "an integer");
}
std::optional<bool> TomlTable::boolean(const std::string& key) {
    return state_->scalar<bool>(key, "true or false");
}
std::optional<double> TomlTable::number(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_number()) state_->wrong_type(*node, key, "a number");
    return node->value<double>();
}
std::optional<std::string> TomlTable::scalar_text(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto text = node->value_exact<std::string>()) return *text;
    if (const auto integer = node->value_exact<std::int64_t>()) return fmt::format("{}", *integer);
    if (const auto flag = node->value_exact<bool>()) return *flag ? "true" : "false";
    state_->wrong_type(*node, key, "a string, an integer, true or false");
}
std::optional<std::vector<std::string>> TomlTable::strings(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    return state_->array<std::string>(*node, key, "an array of strings");
}
std::optional<std::vector<std::int64_t>> TomlTable::integers(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    return state_->array<std::int64_t>(*node, key, "an array of integers");
}
std::optional<std::vector<std::vector<std::string>>> TomlTable::string_matrix(
    const std::string& key) {
    return state_->matrix<std::string>(key, "an array of arrays of strings");
}
std::optional<std::vector<std::vector<std::int64_t>>> TomlTable::integer_matrix(
    const std::string& key) {
    return state_->matrix<std::int64_t>(key, "an array of arrays of integers");
}

std::optional<std::vector<std::vector<std::optional<double>>>> TomlTable::number_matrix(
    const std::string& key) {
    constexpr std::string_view kExpected = "an array of arrays of numbers";
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    const toml::array* rows = node->as_array();
    if (rows == nullptr) state_->wrong_type(*node, key, kExpected);
    std::vector<std::vector<std::optional<double>>> values;
    for (const toml::node& row : *rows) {
        const toml::array* cells = row.as_array();
        if (cells == nullptr) state_->wrong_type(row, key, kExpected);
        values.emplace_back();
        for (const toml::node& cell : *cells) {
            const bool empty = cell.value_exact<std::string>() == "";
            if (!empty && !cell.is_number()) state_->wrong_type(cell, key, kExpected);
            values.back().push_back(empty ? std::nullopt : cell.value<double>());
        }
    }
    return values;
}

std::optional<TomlTable> TomlTable::table(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) state_->wrong_type(*node, key, "a table");
    auto child = std::make_shared<State>();
    child->root = state_->root, child->table = node->as_table(), child->name = state_->name;
    state_->children.push_back(TomlTable(child));
    return state_->children.back();
}

std::vector<TomlTable> TomlTable::tables(const std::string& key) {
    const toml::node* node = state_->find(key);
    if (node == nullptr) return {};
    const toml::array* items = node->as_array();
    if (items == nullptr) state_->wrong_type(*node, key, "an array of tables");
    std::vector<TomlTable> out;
    for (const toml::node& item : *items) {
        if (!item.is_table()) state_->wrong_type(item, key, "an array of tables");
        auto child = std::make_shared<State>();
        child->root = state_->root, child->table = item.as_table(), child->name = state_->name;
        state_->children.push_back(TomlTable(child));
        out.push_back(state_->children.back());
    }
    return out;
}

std::string TomlTable::required_string(const std::string& key) {
    if (auto value = string(key)) return *value;
    throw Error(fmt::format("'{}' is missing", key), where());
}

bool TomlTable::has(const std::string& key) const {
    return state_->table->contains(key);
}

bool TomlTable::has_integers(const std::string& key) const {
    const toml::node* node = state_->table->get(key);
    const toml::array* items = node == nullptr ? nullptr : node->as_array();
    return items != nullptr && !items->empty() && items->front().is_integer();
}

std::vector<std::string> TomlTable::keys() const {
    std::vector<std::pair<toml::source_position, std::string>> found;
    for (const auto& [key, value] : *state_->table)
        found.emplace_back(key.source().begin, std::string(key.str()));
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
    });
    std::vector<std::string> names;
    for (auto& [position, name] : found) names.push_back(std::move(name));
    return names;
}

std::string TomlTable::where() const {
    return state_->place(state_->table->source());
}

std::string TomlTable::where(const std::string& key) const {
    const toml::node* node = state_->table->get(key);
    return node == nullptr ? where() : state_->place(node->source());
}

void TomlTable::fail(const std::string& key, const std::string& what,
                     const std::string& hint) const {
    throw Error(what, where(key), hint);
}

void TomlTable::finish() const {
    for (const auto& [key, value] : *state_->table) {
        const std::string name(key.str());
        if (state_->known.contains(name)) continue;
        const std::vector<std::string> known(state_->known.begin(), state_->known.end());
        const auto suggestion = closest_word(name, known);
        throw Error(fmt::format("unknown key '{}'", printable(name)), state_->place(key.source()),
                    suggestion ? fmt::format("did you mean '{}'?", *suggestion)
                               : fmt::format("known keys: {}", join(known, ", ")));
    }
    for (const TomlTable& child : state_->children) child.finish();
}

}  // namespace toporun
