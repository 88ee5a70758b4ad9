#include "env/settings_text.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "env/explain.hpp"

namespace toporun::env {
namespace {

bool by_shim(const Setting& setting) {
    return setting.exported && setting.per_rank;
}
bool by_text(const Setting& setting) {
    return setting.exported && !setting.per_rank && setting.value;
}

constexpr std::size_t kCommentWidth = 98;  // behind "# "

std::string commented(const std::string& text) {
    std::string out;
    for (const std::string& line : wrapped("", printable(text), kCommentWidth))
        out += "# " + line + "\n";
    return out;
}

std::string shim_comment(const Setting& setting) {
    return commented(
        fmt::format("{}: set for each rank by toporun itself, not by this text", setting.name));
}

/// Quoted where an assignment needs it: zsh takes a leading `=name` for the path of a command.
std::string assigned_word(const std::string& value) {
    const std::string word = shell_word(value);
    return word == value && value.find('=') != std::string::npos ? "'" + word + "'" : word;
}

/// Slurm splits --export at commas, and the shell that reads the line at blanks. Nothing is quoted:
/// whether a quote reaches Slurm depends on how the line is used.
bool fits_slurm(const std::string& value) {
    return !value.empty() && shell_word(value) == value && value.find(',') == std::string::npos;
}

/// By the first byte; 0 for one that begins no sequence.
std::size_t sequence_length(unsigned char first) {
    return first < 0x80             ? 1
           : (first & 0xe0) == 0xc0 ? 2
           : (first & 0xf0) == 0xe0 ? 3
           : (first & 0xf8) == 0xf0 ? 4
                                    : 0;
}

/// Of one whole sequence.
unsigned code_point(std::string_view sequence) {
    const auto first = static_cast<unsigned char>(sequence.front());
    unsigned code = sequence.size() == 1 ? first : first & (0xffu >> (sequence.size() + 1));
    for (const char next : sequence.substr(1))
        code = code << 6 | (static_cast<unsigned char>(next) & 0x3fu);
    return code;
}

/// Whether TOML may hold the bytes: UTF-8 without overlong forms and surrogates (RFC 3629).
bool is_utf8(std::string_view text) {
    constexpr std::array<unsigned, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = sequence_length(static_cast<unsigned char>(text[at]));
        if (length == 0 || text.size() - at < length) return false;
        const std::string_view sequence = text.substr(at, length);
        for (const char next : sequence.substr(1))
            if ((static_cast<unsigned char>(next) & 0xc0) != 0x80) return false;
        const unsigned code = code_point(sequence);
        const bool surrogate = code >= 0xd800 && code <= 0xdfff;
        if (code < kLeast[length] || code > 0x10ffff || surrogate) return false;
        at += length;
    }
    return true;
}

/// A TOML basic string of UTF-8 text, printable.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const std::size_t length = sequence_length(static_cast<unsigned char>(text.front()));
        const std::string_view character = text.substr(0, length);
        text.remove_prefix(length);
        if (character == "\"" || character == "\\")
            out += fmt::format("\\{}", character);
        else if (printable(character) == character)
            out += character;
        else if (const unsigned code = code_point(character); code > 0xffff)
            out += fmt::format("\\U{:08x}", code);
        else
            out += fmt::format("\\u{:04x}", code);
    }
    return out + "\"";
}

}  // namespace

std::string settings_sh(const Plan& plan, bool comments) {
    std::string out;
    std::string reasons;
    for (const Setting& setting : plan.settings) {
        if (by_shim(setting)) reasons += shim_comment(setting);
        if (!by_text(setting)) continue;
        out += fmt::format("export {}={};\n", setting.name, assigned_word(*setting.value));
        reasons += commented(fmt::format("{}: {}", setting.name, setting.reason));
    }
    if (!comments) return out;
    if (out.empty()) out = "# everything is left alone\n";
    return out + reasons;
}

std::string settings_slurm(const Plan& plan) {
    std::string line = "--export=ALL";
    for (const Setting& setting : plan.settings)
        if (by_text(setting) && fits_slurm(*setting.value))
            line += fmt::format(",{}={}", setting.name, *setting.value);
    return line + "\n";
}

std::vector<std::string> settings_before_slurm(const Plan& plan) {
    std::vector<std::string> commands;
    for (const Setting& setting : plan.settings)
        if (by_text(setting) && !fits_slurm(*setting.value))
            commands.push_back(
                fmt::format("export {}={}", setting.name, assigned_word(*setting.value)));
    return commands;
}

std::string settings_toml(const Plan& plan) {
    std::string out = "[settings]\n";
    std::string left;
    for (const Setting& setting : plan.settings) {
        if (by_shim(setting)) {
            left += shim_comment(setting);
        } else if (by_text(setting) && !is_utf8(*setting.value)) {
            left += commented(fmt::format("{}: TOML cannot hold this value, it is no UTF-8: {}",
                                          setting.name, *setting.value));
        } else if (by_text(setting)) {
            out += commented(setting.reason);
            out += fmt::format("{} = {}\n", setting.name, quoted(*setting.value));
        } else {
            const bool set = setting.origin == Origin::user || setting.origin == Origin::conf;
            left += commented(fmt::format("{}: {}: {}", setting.name,
                                          set ? "set already" : "left alone", setting.reason));
        }
    }
    return out + left;
}

}  // namespace toporun::env
