#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files.hpp"

/// Checks of JSON against the schemas of docs/.
namespace toporun::tests {

using nlohmann::json;

inline bool has_type(const json& value, const std::string& type) {
    return (type == "null" && value.is_null()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
           (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

/// Checks a value by the words of JSON Schema 2020-12 that the files of docs/ use.
class Schema {
  public:
    explicit Schema(json root) : root_(std::move(root)) {}

    /// What is wrong with `value`, one line each, "" for the path of the whole.
    std::vector<std::string> faults(const json& value) const {
        std::vector<std::string> found;
        check(root_, value, "", found);
        return found;
    }
    const json& root() const { return root_; }

  private:
    const json& followed(const json& schema) const {
        if (!schema.contains("$ref")) return schema;
        const std::string name = schema["$ref"].get<std::string>().substr(1);
        return root_.at(json::json_pointer(name));
    }

    void check(const json& reference, const json& value, const std::string& at,
               std::vector<std::string>& found) const {
        const json& schema = followed(reference);
        if (schema.contains("anyOf")) return check_any(schema["anyOf"], value, at, found);
        if (schema.contains("type") && !has_any_type(schema["type"], value)) {
            found.push_back(at + " is " + value.dump() + ", not " + schema["type"].dump());
            return;
        }
        if (schema.contains("enum") &&
            std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
            found.push_back(at + " is " + value.dump());
        if (value.is_object()) check_object(schema, value, at, found);
        if (value.is_array() && schema.contains("items"))
            for (std::size_t i = 0; i < value.size(); ++i)
                check(schema["items"], value[i], at + "/" + std::to_string(i), found);
    }

    static bool has_any_type(const json& types, const json& value) {
        if (types.is_string()) return has_type(value, types);
        return std::any_of(types.begin(), types.end(),
                           [&](const json& type) { return has_type(value, type); });
    }

    void check_any(const json& choices, const json& value, const std::string& at,
                   std::vector<std::string>& found) const {
        for (const json& choice : choices) {
            std::vector<std::string> faults_of_choice;
            check(choice, value, at, faults_of_choice);
            if (faults_of_choice.empty()) return;
        }
        found.push_back(at + " is " + value.dump());
    }

    void check_object(const json& schema, const json& value, const std::string& at,
                      std::vector<std::string>& found) const {
        for (const json& key : schema.at("required"))
            if (!value.contains(key)) found.push_back(at + " has no " + key.dump());
        for (const auto& [key, member] : value.items()) {
            if (schema.at("properties").contains(key))
                check(schema["properties"][key], member, at + "/" + key, found);
            else
                found.push_back(at + " has the unknown key " + key);
        }
    }

    json root_;
};

/// docs/`name`.schema.json.
inline Schema documented_schema(const std::string& name) {
    const auto folder = std::filesystem::path(TOPORUN_TEST_DATA) / "../../docs";
    return Schema(json::parse(read_file(folder / (name + ".schema.json"))));
}

/// Every object of the schema describes each of its keys.
inline void check_described(const json& object) {
    for (const auto& item : object.at("properties").items()) {
        CAPTURE(item.key());
        CHECK((item.value().contains("$ref") || !item.value().value("description", "").empty()));
    }
    CHECK(object.at("additionalProperties") == false);
}

/// Every definition is described, and every key of the objects.
inline void check_all_described(const json& schema) {
    check_described(schema);
    for (const auto& item : schema.at("$defs").items()) {
        CAPTURE(item.key());
        const json& definition = item.value();
        CHECK(!definition.value("description", "").empty());
        if (definition.at("type") == "object") check_described(definition);
    }
}

}  // namespace toporun::tests
