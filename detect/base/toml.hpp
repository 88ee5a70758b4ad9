#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toporun {

/// A TOML table that is read strictly. Each getter marks its key as known and throws Error with
/// `name:line:column` when the value has another type; `finish()` refuses every key that no getter
/// asked for, with a suggestion. A copy shares the table and the marks.
class TomlTable {
  public:
    /// Parses `text`; `name` is the file name for messages. Throws Error for a syntax fault.
    static TomlTable parse(std::string_view text, std::string_view name);

    std::optional<std::string> string(const std::string& key);
    std::optional<std::int64_t> integer(const std::string& key);
    std::optional<double> number(const std::string& key);  ///< an integer or a float
    std::optional<bool> boolean(const std::string& key);
    std::optional<std::vector<std::string>> strings(const std::string& key);
    /// A string, or an array of strings.
    std::optional<std::vector<std::string>> one_or_more(const std::string& key);
    std::optional<std::vector<std::int64_t>> integers(const std::string& key);
    /// An array of arrays of strings, of integers.
    std::optional<std::vector<std::vector<std::string>>> string_matrix(const std::string& key);
    std::optional<std::vector<std::vector<std::int64_t>>> integer_matrix(const std::string& key);
    /// An array of arrays of numbers; "" in place of a number is an empty cell.
    std::optional<std::vector<std::vector<std::optional<double>>>> number_matrix(
        const std::string& key);
    std::optional<TomlTable> table(const std::string& key);
    std::vector<TomlTable> tables(const std::string& key);  ///< `[[key]]`, empty when absent
    /// The value as text whatever its scalar type: "NVL", "4", "true".
    std::optional<std::string> scalar_text(const std::string& key);

    /// As `string`, but Error when the key is absent.
    std::string required_string(const std::string& key);
    /// The same, and more than blanks.
    std::string filled_string(const std::string& key);

    bool has(const std::string& key) const;           ///< does not mark the key as known
    bool has_integers(const std::string& key) const;  ///< an array that starts with an integer
    std::vector<std::string> keys() const;            ///< in the file's order
    std::string where() const;                        ///< name:line:column of the table
    std::string where(const std::string& key) const;  ///< ... of the key, else of the table
    [[noreturn]] void fail(const std::string& key, const std::string& what,
                           const std::string& hint = {}) const;

    /// Throws Error for the first key that was never asked for, here and in every table handed out.
    void finish() const;

  private:
    struct State;
    explicit TomlTable(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

}  // namespace toporun
