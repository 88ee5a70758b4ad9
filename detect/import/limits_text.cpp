#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/host_text.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// Limits of a process: `ulimit -a` of bash and zsh, /proc/PID/limits; and the size of /dev/shm:
/// `df`, `mount`.
namespace toporun::detect {
namespace {

struct LimitWords {
    std::string_view bash;  ///< its option, as bash prints it
    std::string_view zsh;   ///< ... and zsh
    std::string_view proc;  ///< the kernel's words
    std::uint64_t unit;     ///< of the shells, in bytes
    std::optional<std::uint64_t> Limits::*field;
};

constexpr LimitWords kLimits[] = {
    {"-l)", "-l:", "Max locked memory", 1024, &Limits::memlock_bytes},
    {"-n)", "-n:", "Max open files", 1, &Limits::nofile},
    {"-u)", "-u:", "Max processes", 1, &Limits::nproc},
};

std::optional<std::uint64_t> limit_value(std::string_view word, std::uint64_t unit) {
    if (word == "unlimited") return kUnlimited;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value > kUnlimited / unit ? kUnlimited : value * unit;
}

struct Limit {
    const LimitWords* words;
    std::uint64_t value;
};

std::optional<Limit> read_limit(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 3) return std::nullopt;
    for (const LimitWords& row : kLimits) {
        std::optional<std::uint64_t> value;
        const std::string_view before = parts[parts.size() - 2];
        if (before == row.bash || (before.size() == 4 && before.substr(1) == row.bash))
            value = limit_value(parts.back(), row.unit);
        else if (parts[0] == row.zsh)
            value = limit_value(parts.back(), row.unit);
        else if (text.starts_with(row.proc))  // soft and hard limit, then the unit
            if (const auto rest = words(text.substr(row.proc.size())); rest.size() >= 2)
                value = limit_value(rest[0], 1);
        if (value) return Limit{&row, *value};
    }
    return std::nullopt;
}

/// Another line of these lists, which says nothing that is kept.
bool limit_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 3) return false;
    const std::string_view option = parts[parts.size() - 2];
    const bool bash =
        option.ends_with(')') && (option.starts_with('-') || option.starts_with("(-"));
    const bool zsh = parts[0].size() == 3 && parts[0][0] == '-' && parts[0][2] == ':';
    return bash || zsh || (parts[0] == "Max" && parts.size() > 3) ||
           (parts[0] == "Limit" && parts[1] == "Soft");
}

bool recognise_limits(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return read_limit(line.text).has_value(); });
}

Reading read_limits(const Lines& lines) {
    Reading reading;
    reading.machine.gpus_known = reading.machine.nics_known = false;
    for (const PastedLine& line : lines.lines) {
        const auto limit = read_limit(line.text);
        reading.understood.push_back(limit || limit_line(line.text));
        if (!limit) continue;
        auto& field = reading.machine.limits.*(limit->words->field);
        if (!field) field = limit->value;
    }
    return reading;
}

struct SharedMemory {
    std::optional<std::uint64_t> size;  ///< nothing: tmpfs' default, half of the memory
    std::optional<std::uint64_t> free;
};

/// Bytes in a block by the header of `df`: "1K-blocks", "1024-blocks"; "Size" has units beside the
/// numbers.
std::uint64_t block_bytes(std::string_view header) {
    for (const std::string_view word : words(header))
        if (const std::size_t at = word.find("-blocks"); at != std::string_view::npos && at > 0)
            return pasted_size(word.substr(0, at), 1).value_or(1024);
    return header.find("Size") == std::string_view::npos ? 1024 : 1;
}

/// "shm  64M  0  64M  0% /dev/shm"; a long first word may stand on a line of its own.
std::optional<SharedMemory> read_df(std::string_view text, std::uint64_t unit) {
    const std::vector<std::string_view> parts = words(text);
    const std::size_t count = parts.size();
    if (count < 5 || parts[count - 1] != "/dev/shm" || !parts[count - 2].ends_with('%'))
        return std::nullopt;
    const auto size = pasted_size(parts[count - 5], unit);
    if (!size) return std::nullopt;
    return SharedMemory{*size, pasted_size(parts[count - 3], unit)};
}

/// "shm on /dev/shm type tmpfs (rw,nosuid,size=65536k)" and the form of /proc/mounts.
std::optional<SharedMemory> read_mount(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    const bool mount = parts.size() > 5 && parts[1] == "on" && parts[2] == "/dev/shm" &&
                       parts[3] == "type" && parts[4] == "tmpfs";
    const bool proc = parts.size() > 3 && parts[1] == "/dev/shm" && parts[2] == "tmpfs";
    if (!mount && !proc) return std::nullopt;
    const std::size_t at = text.find("size=");
    const bool options_end = text.ends_with(')') || (proc && parts.size() == 6);
    if (at == std::string_view::npos)
        return options_end ? std::optional(SharedMemory{}) : std::nullopt;
    const std::string_view word = text.substr(at + 5);
    const auto size = pasted_size(word.substr(0, word.find_first_of(",) \t")), 1);
    return size ? std::optional(SharedMemory{*size, {}}) : std::nullopt;
}

bool recognise_shm(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return read_df(line.text, 1) || read_mount(line.text);
    });
}

Reading read_shm(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    std::uint64_t unit = 1024;  // of POSIX df without a header
    for (const PastedLine& line : lines.lines) {
        const bool header = line.text.starts_with("Filesystem");
        if (header) unit = block_bytes(line.text);
        const auto df = read_df(line.text, unit);
        const auto found = df ? df : read_mount(line.text);
        const auto parts = words(line.text);  // other file systems of the same table
        const bool other = parts.size() >= 5 && parts[parts.size() - 2].ends_with('%');
        reading.understood.push_back(found || header || other);
        if (found && !found->size)
            machine.notes.emplace_back(
                "/dev/shm is mounted without a size: the kernel's default is half of the memory");
        if (!found || machine.limits.shm_bytes) continue;
        machine.limits.shm_bytes = found->size;
        machine.limits.shm_free_bytes = found->free;
    }
    return reading;
}

}  // namespace

Importer ulimit_importer() {
    return {"ulimit -a", recognise_limits, read_to_open_end<read_limits>};
}

Importer df_importer() {
    return {"df /dev/shm", recognise_shm, read_to_open_end<read_shm>};
}

}  // namespace toporun::detect
