#include "launcher/process/error_file.hpp"

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

std::string text_at(const nlohmann::json& object, const char* name) {
    if (!object.is_object()) return {};
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::vector<std::string> lines_of_error_file(const std::string& text) {
    constexpr bool kThrow = false;
    const nlohmann::json file = nlohmann::json::parse(text, nullptr, kThrow);
    if (!file.is_object()) return {};
    // {"message": TEXT} or {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT}}}
    // (torch/distributed/elastic/multiprocessing/errors/error_handler.py)
    std::string told = text_at(file, "message");
    const auto message = file.find("message");
    if (message != file.end() && message->is_object()) {
        const auto extra = message->find("extraInfo");
        if (extra != message->end()) told = text_at(*extra, "py_callstack");
        if (told.empty()) told = text_at(*message, "message");
    }
    return told.empty() ? std::vector<std::string>{} : split(told, '\n');
}

}  // namespace toporun::launcher
