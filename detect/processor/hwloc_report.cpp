#include "detect/processor/hwloc_report.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kEnd = "end";  ///< the last line: without it the text is cut
constexpr long long kMostIndex = 65535;

template <class Number>
std::string word(const std::optional<Number>& number) {
    return number ? fmt::format("{}", *number) : std::string("-");
}

/// The words of one line, taken from left to right. Throws Error where one is not as expected.
class Words {
  public:
    explicit Words(std::string_view line) : words_(split(line, ' ')) {}

    const std::string& next() {
        if (at_ == words_.size()) throw Error("a word is missing");
        return words_[at_++];
    }
    long long number(long long most) {
        const auto value = to_integer(next());
        if (!value || *value < 0 || *value > most) throw Error("no number");
        return *value;
    }
    int index() { return static_cast<int>(number(kMostIndex)); }
    std::optional<int> optional_index() {
        if (words_.size() > at_ && words_[at_] == "-") return ++at_, std::nullopt;
        return index();
    }
    CpuSet cpus() { return CpuSet::parse(next()); }

  private:
    std::vector<std::string> words_;
    std::size_t at_ = 0;
};

void take_line(std::string_view line, HwlocCpu& cpu) {
    Words words(line);
    const std::string& kind = words.next();
    if (kind == "packages") {
        cpu.packages = words.index();
    } else if (kind == "allowed") {
        cpu.allowed = words.cpus();
    } else if (kind == "node") {
        NumaNode node;
        node.os_index = words.index();
        const long long memory = words.number(INT64_MAX);
        if (memory > 0) node.memory_bytes = static_cast<std::uint64_t>(memory);
        node.cpus = words.cpus();
        cpu.numa_nodes.push_back(std::move(node));
    } else if (kind == "core") {
        Core core;
        core.package = words.index();
        core.numa_node = words.optional_index();
        core.l3 = words.optional_index();
        core.pus = words.cpus();
        cpu.cores.push_back(std::move(core));
    } else {
        throw Error("no kind of line");
    }
}

}  // namespace

std::string hwloc_report(const HwlocCpu& cpu) {
    if (!cpu.loaded) return fmt::format("{}\n", kEnd);
    std::string text = fmt::format("packages {}\nallowed {}\n", cpu.packages, cpu.allowed.text());
    for (const NumaNode& node : cpu.numa_nodes)
        text += fmt::format("node {} {} {}\n", node.os_index, node.memory_bytes.value_or(0),
                            node.cpus.text());
    for (const Core& core : cpu.cores)
        text += fmt::format("core {} {} {} {}\n", core.package, word(core.numa_node), word(core.l3),
                            core.pus.text());
    return text + fmt::format("{}\n", kEnd);
}

std::optional<HwlocCpu> parse_hwloc_report(std::string_view text) {
    HwlocCpu cpu;
    const std::vector<std::string> lines = split(text, '\n');
    if (lines.size() < 2 || lines[lines.size() - 2] != kEnd || !lines.back().empty())
        return std::nullopt;
    try {
        for (std::size_t i = 0; i + 2 < lines.size(); ++i) take_line(lines[i], cpu);
    } catch (const Error&) {
        return std::nullopt;
    }
    cpu.loaded = lines.size() > 2;
    return cpu;
}

}  // namespace toporun::detect
