#include "launcher/command/places.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"

namespace toporun::launcher {
namespace {

/// `node:4` without its slots; an IPv6 address in brackets without them.
std::string without_slots(const std::string& host) {
    if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
    return host.substr(0, host.find(':'));
}

/// Grid Engine's `host slots queue processors` (sge_pe(5)).
void add_grid_engine_file(Places& places, const std::string& path, const Host& host) {
    const auto text = host.read_file(path, kListBytes);
    if (!text) places.unknown = true;
    for (const std::string& line : split(text.value_or(""), '\n')) {
        const std::vector<std::string> words = split(std::string(trim(line)), ' ');
        if (words.front().empty()) continue;
        places.add(words.front());
        const auto slots = words.size() > 1 ? positive_count(words[1]) : std::nullopt;
        if (slots) places.slots_of[words.front()] += *slots;
    }
}

}  // namespace

void add_host_file(Places& places, const std::string& path, bool ranks, const Host& host) {
    const auto text = host.read_file(path, kListBytes);
    if (!text) places.unknown = true;
    std::map<std::string, int> lines;  // without a number of slots
    for (std::string line : split(text.value_or(""), '\n')) {
        line = trim(std::string_view(line).substr(0, line.find('#')));
        if (ranks) {
            const std::size_t equals = line.find('=');
            line = equals == std::string::npos ? "" : trim(line.substr(equals + 1));
        }
        const std::string options = line.substr(std::min(line.size(), line.find_first_of(" \t")));
        line = line.substr(0, line.find_first_of(" \t"));
        if (ranks && line.starts_with('+')) places.unknown = true;
        if (line.empty()) continue;
        places.add(without_slots(line));
        const std::size_t slots = options.find(" slots=");
        if (slots == std::string::npos && !ranks) ++lines[without_slots(line)];
        if (slots == std::string::npos) continue;
        const std::string number = options.substr(slots + 7);
        if (const auto count = positive_count(number.substr(0, number.find_first_of(" \t"))))
            places.slots_of[without_slots(line)] += *count;
    }
    for (const auto& [name, count] : lines)  // one alone stands for the cores of the host
        if (count > 1) places.slots_of[name] += count;
}

void add_host_list(Places& places, const std::string& list) {
    for (const std::string& host : split(list, ',')) {
        const std::string name(trim(host));
        if (name.starts_with('+')) places.unknown = true;  // relative to the allocation
        if (name.empty()) continue;
        places.add(without_slots(name));
        const std::size_t colon = name.rfind(':');
        const auto slots = colon == std::string::npos ? std::optional<long long>(1)
                                                      : to_integer(name.substr(colon + 1));
        if (!slots || *slots <= 0 || *slots >= 100'000) continue;
        places.slots = places.slots.value_or(0) + static_cast<int>(*slots);
        places.slots_of[without_slots(name)] += static_cast<int>(*slots);
    }
}

void add_allocation(Places& places, const Environment& environment, const Host& host) {
    if (!variable(environment, "SLURM_JOB_ID").empty()) {
        const bool one = variable(environment, "SLURM_JOB_NUM_NODES") == "1" ||
                         variable(environment, "SLURM_NNODES") == "1";
        const std::string list = variable(environment, "SLURM_JOB_NODELIST");
        if (one && !list.empty() && list != variable(environment, "SLURMD_NODENAME"))
            places.add(list);
        places.unknown = places.unknown || !one;
    }
    for (const char* name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "COBALT_NODEFILE"})
        if (const std::string file = variable(environment, name); !file.empty())
            add_host_file(places, file, false, host);
    if (const std::string file = variable(environment, "PE_HOSTFILE"); !file.empty())
        add_grid_engine_file(places, file, host);
    const bool lsf_list = variable(environment, "LSB_DJOB_HOSTFILE").empty() &&
                          !variable(environment, "LSB_HOSTS").empty();
    places.unknown = places.unknown || lsf_list || !variable(environment, "FLUX_JOB_ID").empty();
}

std::set<std::string> distinct_hosts(const std::set<std::string>& names, const Host& host) {
    std::set<std::string> hosts;
    for (const std::string& name : names)
        hosts.insert(is_this_host(name, host) ? "localhost" : name);
    return hosts;
}

std::optional<int> fill_by_slot(Places& places, int ranks) {
    std::vector<std::string> used;
    std::optional<int> each;
    bool equal = true;
    int left = ranks;
    for (const std::string& host : places.order) {
        if (left == 0) break;
        const auto slots = places.slots_of.find(host);
        if (slots == places.slots_of.end()) return std::nullopt;
        const int here = std::min(left, slots->second);
        equal = equal && (!each || *each == here);
        each = here;
        left -= here;
        used.push_back(host);
    }
    if (left > 0 || used.empty()) return std::nullopt;  // more ranks than slots
    places.order = used;
    places.hosts = {used.begin(), used.end()};
    return equal ? each : std::nullopt;
}

std::string other_host(const Places& places, const Host& host) {
    for (const std::string& name : places.hosts)
        if (!is_this_host(name, host)) return name;
    return {};
}

std::string not_here(const Places& places, const Host& host) {
    if (const std::string other = other_host(places, host); !other.empty())
        return fmt::format("ranks start on another host, '{}'", printable(other));
    return places.unknown ? "the hosts of the ranks are not known here" : "";
}

std::string settle_places(env::Job& job, const Places& places, const Host& host) {
    job.hosts = places.order;
    const std::string reason = not_here(places, host);
    job.same_host = reason.empty();
    return reason;
}

}  // namespace toporun::launcher
