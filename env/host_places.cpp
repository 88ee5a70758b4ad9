#include "env/host_places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/host_list.hpp"

namespace toporun::env {
namespace {

constexpr std::size_t kDeepest = 64;  ///< levels of switches; more is a loop
constexpr std::size_t kMostNotes = 8;

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    });
    return out;
}

struct Line {
    std::size_t number = 0;
    std::string_view text;  ///< without comment and blanks around it
};

std::vector<Line> lines_of(std::string_view text) {
    std::vector<Line> lines;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string_view line = text.substr(begin, end - begin);
        line = trim(line.substr(0, line.find('#')));
        ++number;
        if (!line.empty()) lines.push_back({number, line});
        begin = end + 1;
    }
    return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t begin = line.find_first_not_of(" \t\r", at);
        if (begin == std::string_view::npos) break;
        const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
        words.push_back(line.substr(begin, end - begin));
        at = end;
    }
    return words;
}

[[noreturn]] void refuse(const std::string& file, const Line& line, const std::string& why) {
    throw Error(why, fmt::format("{}:{}", printable(file), line.number),
                "a Slurm topology.conf, SLURM_TOPOLOGY_ADDR of each node, or one host a line");
}

std::vector<std::string> list_at(std::string_view list, const std::string& file, const Line& line) {
    try {
        return expand_host_list(list);
    } catch (const Error& fault) {
        refuse(file, line, fault.what());
    }
}

/// A switch or a block of topology.conf.
struct Switch {
    std::string parent;
    std::vector<std::string> nodes;
};

class TopologyConf {
  public:
    TopologyConf(const std::vector<Line>& lines, const std::string& file) : file_(file) {
        for (const Line& line : lines) read(line);
        for (const auto& [parent, children] : children_)
            for (const std::string& child : children) {
                const auto found = switches_.find(child);
                // A switch below two others is a mesh: the first one counts.
                if (found != switches_.end() && found->second.parent.empty())
                    found->second.parent = parent;
            }
        for (const auto& [name, known] : switches_)
            if (!known.nodes.empty() && in_circle(name) && result_.notes.size() < kMostNotes)
                result_.notes.push_back(
                    fmt::format("{}: the switches above '{}' stand in a circle (Switches=): only "
                                "the lowest counts",
                                printable(file_), printable(name)));
        for (const auto& [name, known] : switches_)
            for (const std::string& node : known.nodes) result_.places.try_emplace(node, way(name));
        result_.kind = HostOrderKind::topology_conf;
    }

    HostPlaces take() { return std::move(result_); }

  private:
    void read(const Line& line) {
        std::string name, nodes, below;
        for (const std::string_view word : words_of(line.text)) {
            const std::size_t equals = word.find('=');
            const std::string key = lower(word.substr(0, equals));
            const std::string_view value =
                equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
            if (key == "switchname" || key == "blockname")
                name = value;
            else if (key == "nodes")
                nodes = value;
            else if (key == "switches")
                below = value;
        }
        if (name.empty()) return note(line);
        // Names of switches may be a list too, of equal members (topology.conf(5)).
        for (const std::string& one : list_at(name, file_, line)) {
            if (switches_.size() >= kMostHosts)
                refuse(file_, line, fmt::format("more than {} switches", kMostHosts));
            Switch& known = switches_[one];
            for (std::string& node : list_at(nodes, file_, line)) {
                if (++nodes_ > kMostHosts)
                    refuse(file_, line, fmt::format("more than {} hosts", kMostHosts));
                known.nodes.push_back(std::move(node));
            }
            for (std::string& child : list_at(below, file_, line)) {
                if (++nodes_ > kMostHosts)
                    refuse(file_, line, fmt::format("more than {} switches", kMostHosts));
                children_[one].push_back(std::move(child));
            }
        }
    }

    void note(const Line& line) {
        if (lower(line.text).starts_with("blocksizes")) return;
        if (result_.notes.size() < kMostNotes)
            result_.notes.push_back(fmt::format("{}:{}: passed over: '{}'", printable(file_),
                                                line.number, printable(line.text.substr(0, 60))));
    }

    /// From the switch up; kDeepest of them when there is no end.
    std::vector<std::string> upwards(const std::string& name) const {
        std::vector<std::string> up = {name};
        while (up.size() < kDeepest) {
            const auto found = switches_.find(up.back());
            if (found == switches_.end() || found->second.parent.empty()) break;
            up.push_back(found->second.parent);
        }
        return up;
    }

    bool in_circle(const std::string& name) const { return upwards(name).size() == kDeepest; }

    /// From the top down to the switch itself.
    std::vector<std::string> way(const std::string& name) const {
        std::vector<std::string> up = upwards(name);
        if (up.size() == kDeepest) return {name};
        std::reverse(up.begin(), up.end());
        return up;
    }

    const std::string& file_;
    std::map<std::string, Switch> switches_;
    std::map<std::string, std::vector<std::string>> children_;
    std::size_t nodes_ = 0;
    HostPlaces result_;
};

/// "spine1.leaf3.gpu-7" behind the node's name or the variable's, or alone.
std::optional<std::pair<std::string, std::vector<std::string>>> address_of(std::string_view line) {
    constexpr std::string_view kName = "SLURM_TOPOLOGY_ADDR=";
    const std::vector<std::string_view> words = words_of(line);
    std::string_view address = words.back();
    if (address.starts_with(kName)) address.remove_prefix(kName.size());
    if (words.size() > 2 || address.find('.') == std::string_view::npos) return std::nullopt;
    std::vector<std::string> levels = split(address, '.');
    std::string node = words.size() == 2 ? std::string(words.front()) : levels.back();
    if (words.size() == 2 && words.front().starts_with(kName)) return std::nullopt;
    levels.pop_back();
    if (node.empty() || levels.size() > kDeepest) return std::nullopt;
    return std::pair(std::move(node), std::move(levels));
}

bool is_topology_conf(const std::vector<Line>& lines) {
    return std::any_of(lines.begin(), lines.end(), [](const Line& line) {
        const std::string text = lower(line.text);
        return text.starts_with("switchname=") || text.starts_with("blockname=");
    });
}

/// The lines have more than names: the variable, a second word, or in each one the same number of
/// dots with different last parts. Full names of hosts (a.example.org, b.example.org) end alike.
bool are_addresses(const std::vector<Line>& lines) {
    std::set<std::string> last;
    for (const Line& line : lines) {
        if (line.text.find("SLURM_TOPOLOGY_ADDR=") != std::string_view::npos) return true;
        const auto address = address_of(line.text);
        if (!address) return false;
        if (words_of(line.text).size() == 2) return true;
        last.insert(address->first);
    }
    return last.size() == lines.size() && lines.size() > 1;
}

}  // namespace

HostPlaces read_host_places(std::string_view text, const std::string& file) {
    const std::vector<Line> lines = lines_of(text);
    if (lines.empty())
        throw Error(fmt::format("'{}' names no host", printable(file)), {},
                    "a Slurm topology.conf, SLURM_TOPOLOGY_ADDR of each node, or one host a line");
    if (is_topology_conf(lines)) return TopologyConf(lines, file).take();
    HostPlaces result;
    const bool addresses = are_addresses(lines);
    result.kind = addresses ? HostOrderKind::addresses : HostOrderKind::hosts;
    for (const Line& line : lines) {
        if (addresses) {
            auto address = address_of(line.text);
            if (!address) refuse(file, line, "this line holds no SLURM_TOPOLOGY_ADDR");
            result.places.insert_or_assign(std::move(address->first), std::move(address->second));
        } else {
            // "host slots=8", "host:8" of Open MPI and Hydra: the name alone.
            std::string_view name = words_of(line.text).front();
            if (name.find('[') == std::string_view::npos) name = name.substr(0, name.find(':'));
            for (std::string& host : list_at(name, file, line)) {
                const std::string place = fmt::format("{:08}", result.places.size());
                result.places.try_emplace(std::move(host), std::vector{place});
            }
        }
        if (result.places.size() > kMostHosts)
            refuse(file, line, fmt::format("more than {} hosts", kMostHosts));
    }
    return result;
}

}  // namespace toporun::env
