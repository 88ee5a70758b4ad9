#include "launcher/failures/prefix.hpp"

#include <algorithm>
#include <cctype>

#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/digits.hpp"
#include "launcher/failures/line_ends.hpp"

namespace toporun::launcher::failures {
namespace {

using detect::nccl_log::Cursor;

std::optional<int> skip_number(Cursor& at) {
    if (at.rest().empty() || !is_digit(at.rest().front())) return std::nullopt;
    return at.number<int>();
}

bool skip_digits(Cursor& at, std::size_t least, std::size_t most) {
    std::size_t length = 0;
    while (length < std::min(most, at.rest().size()) && is_digit(at.rest()[length])) ++length;
    return length >= least && at.skip(at.rest().substr(0, length));
}

/// `2026-11-30T07:33:39.123Z `, `2026-11-30 07:33:39,123 `, of Kubernetes, CI and loggers.
bool iso_time(Cursor& at, Origin& origin) {
    const std::string_view begin = at.rest();
    if (!skip_digits(at, 4, 4) || !at.skip("-") || !skip_digits(at, 2, 2) || !at.skip("-") ||
        !skip_digits(at, 2, 2) || !(at.skip("T") || at.skip(" ")) || !skip_digits(at, 2, 2) ||
        !at.skip(":") || !skip_digits(at, 2, 2) || !at.skip(":") || !skip_digits(at, 2, 2))
        return false;
    if (at.skip(".") || at.skip(",")) skip_digits(at, 1, 9);
    if (!at.skip("Z") && (at.skip("+") || at.skip("-"))) {
        skip_digits(at, 2, 4);
        if (at.skip(":")) skip_digits(at, 2, 2);
    }
    origin.time = begin.substr(0, begin.size() - at.rest().size());
    return true;
}

/// `07:33:39.123456789`
bool clock_time(Cursor& at, Origin& origin) {
    const std::string_view begin = at.rest();
    if (!skip_digits(at, 2, 2) || !at.skip(":") || !skip_digits(at, 2, 2) || !at.skip(":") ||
        !skip_digits(at, 2, 2))
        return false;
    if (at.skip(".")) skip_digits(at, 1, 9);
    origin.time = begin.substr(0, begin.size() - at.rest().size());
    return true;
}

bool skip_level(Cursor& at, Origin& origin) {
    for (const char* level : {"E", "W", "I", "F"})
        if (at.skip(level)) {
            origin.level = *level;
            return true;
        }
    return false;
}

/// `ERROR`, `WARNING`, ... of Python's loggers.
void name_level(std::string_view name, Origin& origin) {
    if (name.starts_with("ERROR") || name.starts_with("CRITICAL")) origin.level = 'E';
    if (name.starts_with("WARN")) origin.level = 'W';
    if (name.starts_with("INFO") || name.starts_with("DEBUG")) origin.level = 'I';
}

/// `file.cpp:123] `
bool skip_place(Cursor& at) {
    const std::size_t end = at.rest().find("] ");
    if (end == std::string_view::npos || end > 200) return false;
    const std::string_view place = at.rest().substr(0, end);
    const std::size_t colon = place.rfind(':');
    if (colon == std::string_view::npos || colon + 1 == place.size() ||
        place.find(' ') != std::string_view::npos ||
        !std::all_of(place.begin() + static_cast<std::ptrdiff_t>(colon) + 1, place.end(), is_digit))
        return false;
    return at.skip(at.rest().substr(0, end + 2));
}

// Each of them reads one prefix, or leaves `at` for the caller to reset.

bool srun_label(Cursor& at, Origin& origin) {
    at.skip_blanks();
    const auto task = skip_number(at);
    if (!task || !at.skip(": ")) {
        if (!task || at.rest() != ":") return false;
        at.skip(":");
    }
    origin.task = task;
    return true;
}

bool openmpi_tag(Cursor& at, Origin& origin) {
    if (!at.skip("[")) return false;
    const std::size_t comma = at.rest().find(',');
    if (comma == std::string_view::npos || comma > 64 ||
        at.rest().substr(0, comma).find_first_of(" ]") != std::string_view::npos)
        return false;
    at.skip(at.rest().substr(0, comma + 1));
    const auto rank = skip_number(at);
    if (!rank || !(at.skip("]<stdout>:") || at.skip("]<stderr>:") || at.skip("]<stddiag>:")))
        return false;
    at.skip(" ");
    origin.rank = rank;
    return true;
}

bool hydra_label(Cursor& at, Origin& origin) {
    if (!at.skip("[")) return false;
    const auto rank = skip_number(at);
    if (!rank || !at.skip("] ")) return false;
    origin.rank = rank;
    return true;
}

bool rank_label(Cursor& at, Origin& origin) {
    if (!at.skip("[rank")) return false;
    const auto rank = skip_number(at);
    if (!rank || !at.skip("]:")) return false;
    at.skip(" ");
    origin.rank = rank;
    return true;
}

bool torchrun_label(Cursor& at, Origin& origin) {
    if (!at.skip("[")) return false;
    const std::size_t end = at.rest().find("]:");
    if (end == std::string_view::npos || end > 64) return false;
    const std::string_view label = at.rest().substr(0, end);
    const std::size_t digits = label.find_last_not_of("0123456789") + 1;
    if (digits == 0 || digits >= label.size() ||
        !std::islower(static_cast<unsigned char>(label[0])) ||
        !std::all_of(label.begin(), label.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }))
        return false;
    Cursor number(label.substr(digits));
    const auto local_rank = skip_number(number);
    if (!local_rank) return false;
    at.skip(at.rest().substr(0, end + 2));
    origin.local_rank = local_rank;
    return true;
}

bool ray_label(Cursor& at, Origin& origin) {
    if (!at.skip("(")) return false;
    const std::size_t end = at.rest().find(") ");
    const std::size_t pid_at = at.rest().find("pid=");
    if (end == std::string_view::npos || pid_at > end) return false;
    Cursor inside(at.rest().substr(pid_at + 4, end - pid_at - 4));
    origin.pid = inside.number<std::int64_t>();
    if (inside.until("ip=")) origin.host = inside.rest();
    return at.skip(at.rest().substr(0, end + 2));
}

/// `[E816 01:45:40.183 file.cpp:12] `, `[E file.cpp:12] `
bool c10_log(Cursor& at, Origin& origin) {
    if (!at.skip("[") || !skip_level(at, origin)) return false;
    if (skip_digits(at, 3, 4) && !(at.skip(" ") && clock_time(at, origin))) return false;
    return at.skip(" ") && skip_place(at);
}

/// `E20261130 07:34:19.918448 30004 socket.cpp:426] `, `E0816 01:45:40.183000 123 torch/x.py:12] `
bool glog(Cursor& at, Origin& origin) {
    return skip_level(at, origin) && (skip_digits(at, 8, 8) || skip_digits(at, 4, 4)) &&
           at.skip(" ") && clock_time(at, origin) && (at.skip_blanks(), skip_digits(at, 1, 20)) &&
           at.skip(" ") && skip_place(at);
}

bool process_group(Cursor& at, Origin& origin) {
    if (!at.skip("[PG ")) return false;
    const auto inside = at.until("] ");
    if (!inside || inside->size() > 300) return false;
    const std::size_t rank_at = inside->rfind("Rank ");
    if (rank_at == std::string_view::npos) return false;
    Cursor number(inside->substr(rank_at + 5));
    origin.group_rank = skip_number(number);
    std::string_view name = inside->substr(0, rank_at);
    while (name.ends_with(' ')) name.remove_suffix(1);
    origin.group = name;
    return origin.group_rank.has_value();
}

bool group_rank(Cursor& at, Origin& origin) {
    if (!at.skip("[Rank ")) return false;
    const auto rank = skip_number(at);
    if (!rank || !at.skip("] ")) return false;
    if (!origin.group_rank) origin.group_rank = rank;
    return true;
}

/// `[2026-11-30 07:33:39,123] torch.x: [ERROR] `, `[2026-11-30 07:33:39,123] [ERROR] [x.py:1:f] `
bool dated_logger(Cursor& at, Origin& origin) {
    if (!at.skip("[") || !iso_time(at, origin) || !at.skip("] ")) return false;
    if (at.skip("torch.") && at.until(": [")) {
        name_level(at.rest(), origin);
        return at.until("] ").has_value();
    }
    return true;  // what follows of DeepSpeed's is in its known lines
}

/// `ERROR:torch.distributed.x:`
bool named_logger(Cursor& at, Origin& origin) {
    name_level(at.rest(), origin);
    if (!at.skip("ERROR:torch.") && !at.skip("WARNING:torch.") && !at.skip("INFO:torch."))
        return false;
    const auto name = at.until(":");
    return name && name->find(' ') == std::string_view::npos;
}

bool iso_prefix(Cursor& at, Origin& origin) {
    return iso_time(at, origin) && at.skip(" ");
}

using Reader = bool (*)(Cursor&, Origin&);
constexpr Reader kReaders[] = {openmpi_tag,   rank_label, torchrun_label, c10_log,
                               process_group, group_rank, dated_logger,   hydra_label,
                               glog,          ray_label,  named_logger,   iso_prefix};

bool read_one(Cursor& at, Origin& origin) {
    for (const Reader reader : kReaders) {
        Cursor tried = at;
        Origin found = origin;
        if (!reader(tried, found)) continue;
        at = tried;
        origin = found;
        return true;
    }
    return false;
}

bool pdsh_label(Cursor& at, Origin& origin, const std::set<std::string, std::less<>>& hosts) {
    const std::size_t end = at.rest().find(": ");
    if (hosts.empty() || end == std::string_view::npos || end > 255) return false;
    const auto host = hosts.find(at.rest().substr(0, end));
    if (host == hosts.end()) return false;
    origin.host = *host;
    return at.skip(at.rest().substr(0, end + 2));
}

}  // namespace

std::string stream_key(const Origin& origin) {
    const auto number = [](const auto& value) { return value ? std::to_string(*value) : "-"; };
    return number(origin.rank) + ' ' + number(origin.local_rank) + ' ' + number(origin.task) + ' ' +
           number(origin.pid) + ' ' + origin.host +
           (origin.label.empty() ? "" : ' ' + origin.label);
}

std::string_view cleaned(std::string_view line, std::string& store) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!has_control(line)) return line;
    store.clear();
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\0') continue;
        if (line[i] == '\r') {
            store.clear();
            continue;
        }
        if (line[i] != '\x1b') {
            store += line[i];
            continue;
        }
        if (i + 1 < line.size() && line[i + 1] == '[') {  // ECMA-48 CSI: up to a final byte
            i += 2;
            while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
        } else if (i + 1 < line.size() && line[i + 1] == ']') {  // OSC: up to BEL or ESC
            i += 2;
            while (i < line.size() && line[i] != '\a' && line[i] != '\x1b') ++i;
            if (i + 1 < line.size() && line[i] == '\x1b' && line[i + 1] == '\\') ++i;
        }
    }
    return store;
}

PrefixedLine strip_prefixes(std::string_view line,
                            const std::set<std::string, std::less<>>& pdsh_hosts) {
    PrefixedLine result;
    Cursor at(line);
    constexpr int kDeepest = 12;
    bool labelled = false;  // srun's label is the outermost one: a message may begin with `3: `
    for (int depth = 0; depth < kDeepest && !at.rest().empty(); ++depth) {
        if (read_one(at, result.origin)) continue;
        Cursor tried = at;
        if (!labelled && depth < 2 && !result.origin.rank && !result.origin.local_rank &&
            srun_label(tried, result.origin)) {
            labelled = true;
            at = tried;
            continue;
        }
        if (!pdsh_label(at, result.origin, pdsh_hosts)) break;
    }
    result.message = at.rest();
    return result;
}

}  // namespace toporun::launcher::failures
