#include "env/settings_text.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace toporun::env {
namespace {

bool by_shim(const Setting& setting) {
    return setting.exported && setting.per_rank;
}
bool by_text(const Setting& setting) {
    return setting.exported && !setting.per_rank && setting.value;
}

std::string comment(const std::string& text) {
    return fmt::format("# {}\n", printable(text));
}

std::string shim_comment(const Setting& setting) {
    return comment(
        fmt::format("{}: set for each rank by toporun itself, not by this text", setting.name));
}

/// Slurm splits --export at commas, and the shell that reads the line at blanks.
bool fits_slurm(const std::string& value) {
    return !value.empty() && shell_word(value) == value && value.find(',') == std::string::npos;
}

/// A TOML basic string.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += fmt::format("\\{}", c);
        else if (byte < 0x20 || byte == 0x7f)
            out += fmt::format("\\u{:04x}", byte);
        else
            out += c;
    }
    return out + "\"";
}

}  // namespace

std::string settings_sh(const Plan& plan) {
    std::string out;
    for (const Setting& setting : plan.settings) {
        if (by_shim(setting)) out += shim_comment(setting);
        if (!by_text(setting)) continue;
        out += comment(setting.reason);
        out += fmt::format("export {}={}\n", setting.name, shell_word(*setting.value));
    }
    return out.empty() ? "# everything is left to NCCL\n" : out;
}

std::string settings_slurm(const Plan& plan) {
    std::string comments;
    std::string line = "--export=ALL";
    for (const Setting& setting : plan.settings) {
        if (by_shim(setting)) comments += shim_comment(setting);
        if (!by_text(setting)) continue;
        if (fits_slurm(*setting.value)) {
            line += fmt::format(",{}={}", setting.name, *setting.value);
            continue;
        }
        comments +=
            comment(fmt::format("{}: --export cannot hold this value, write before srun: "
                                "export {}={}",
                                setting.name, setting.name, shell_word(*setting.value)));
    }
    return comments + line + "\n";
}

std::string settings_toml(const Plan& plan) {
    std::string out = "[settings]\n";
    for (const Setting& setting : plan.settings) {
        if (by_shim(setting)) {
            out += shim_comment(setting);
        } else if (by_text(setting)) {
            out += comment(setting.reason);
            out += fmt::format("{} = {}\n", setting.name, quoted(*setting.value));
        } else {
            const bool set = setting.origin == Origin::user || setting.origin == Origin::conf;
            out += comment(fmt::format("{}: {}: {}", setting.name,
                                       set ? "set already" : "left alone", setting.reason));
        }
    }
    return out;
}

}  // namespace toporun::env
