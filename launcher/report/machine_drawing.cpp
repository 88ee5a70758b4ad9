#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "launcher/report/machine_graph.hpp"
#include "launcher/report/machine_layout.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view.hpp"

/// The topology in text: frames within frames.
namespace toporun::launcher {
namespace {

using detect::Machine;

constexpr std::size_t kWidth = 100;
constexpr std::size_t kFrameWidth = 4;  // stroke and blank on both sides

/// What frames are drawn with.
struct Pens {
    std::string_view top_left, top_right, bottom_left, bottom_right, across, down, link;
};
constexpr Pens kAscii = {"+", "+", "+", "+", "-", "|", "="};
constexpr Pens kBox = {"┌", "┐", "└", "┘", "─", "│", "═"};

/// Lines of a picture; shorter lines end before the others.
using Block = std::vector<std::string>;

std::size_t width_of(const Block& block) {
    std::size_t width = 0;
    for (const std::string& line : block) width = std::max(width, text_width(line));
    return width;
}

std::string repeated(std::string_view text, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += text;
    return out;
}

std::string padded(const std::string& line, std::size_t width) {
    return line + std::string(width - std::min(width, text_width(line)), ' ');
}

Block framed(const Pens& pens, const std::string& title, const Block& content) {
    const std::size_t width =
        std::max(width_of(content), title.empty() ? 0 : text_width(title) + 2);
    const std::string head =
        title.empty() ? repeated(pens.across, width + 2)
                      : fmt::format("{} {} {}", pens.across, title,
                                    repeated(pens.across, width - text_width(title) - 1));
    Block block = {fmt::format("{}{}{}", pens.top_left, head, pens.top_right)};
    for (const std::string& line : content)
        block.push_back(fmt::format("{} {} {}", pens.down, padded(line, width), pens.down));
    block.push_back(fmt::format("{}{}{}", pens.bottom_left, repeated(pens.across, width + 2),
                                pens.bottom_right));
    return block;
}

/// Blocks beside each other, in as many rows as `width` demands.
Block arranged(const std::vector<Block>& blocks, std::size_t width) {
    Block out;
    Block row;
    const auto end_row = [&] {
        out.insert(out.end(), row.begin(), row.end());
        row.clear();
    };
    for (const Block& block : blocks) {
        if (!row.empty() && width_of(row) + 1 + width_of(block) > width) end_row();
        const std::size_t left = row.empty() ? 0 : width_of(row) + 1;
        row.resize(std::max(row.size(), block.size()));
        for (std::size_t i = 0; i < block.size(); ++i) row[i] = padded(row[i], left) + block[i];
    }
    end_row();
    return out;
}

Block device_lines(const Machine& machine, const SwitchGroup& group) {
    Block lines;
    for (const std::size_t gpu : group.gpus)
        lines.push_back(gpu_title(machine.gpus[gpu]) + "  " + short_name(machine.gpus[gpu]));
    for (const std::size_t nic : group.nics)
        lines.push_back(
            std::string(trim(nic_title(machine.nics[nic]) + "  " + nic_words(machine.nics[nic]))));
    return lines;
}

/// A frame for each switch and each single GPU; single NICs share one.
std::vector<Block> group_blocks(const Machine& machine, const Pens& pens,
                                const std::vector<SwitchGroup>& groups) {
    std::vector<Block> blocks;
    SwitchGroup single_nics;
    for (const SwitchGroup& group : groups) {
        if (!group.is_switch() && group.gpus.empty())
            single_nics.nics.push_back(group.nics.front());
        else
            blocks.push_back(
                framed(pens, group.is_switch() ? "PCIe switch" : "", device_lines(machine, group)));
    }
    if (!single_nics.nics.empty())
        blocks.push_back(framed(pens, "", device_lines(machine, single_nics)));
    return blocks;
}

Block place_block(const Machine& machine, const Pens& pens, const Place& place) {
    std::vector<Block> blocks;
    std::vector<SwitchGroup> single;  // groups that are a tree of their own
    for (const SwitchTree& tree : place.trees) {
        if (tree.groups.size() == 1) {
            single.push_back(tree.groups.front());
            continue;
        }
        blocks.push_back(
            framed(pens, "PCIe switches",
                   arranged(group_blocks(machine, pens, tree.groups), kWidth - 2 * kFrameWidth)));
    }
    for (Block& block : group_blocks(machine, pens, single)) blocks.push_back(std::move(block));
    return framed(pens, printable(place.title), arranged(blocks, kWidth - kFrameWidth));
}

/// Words after `head`, broken into lines that are indented below it.
std::string wrapped(const std::string& head, const std::vector<std::string>& words) {
    std::string out;
    std::string line = head;
    for (const std::string& word : words) {
        if (text_width(line) + 1 + text_width(word) > kWidth) {
            out += line + "\n";
            line = std::string(4, ' ');
        } else {
            line += ' ';
        }
        line += word;
    }
    return out + line + "\n";
}

/// Which GPUs `text_of` says the same of: "18 links, 450 GB/s: GPU 0-7".
template <class TextOf>
std::string by_gpus(const Machine& machine, std::string_view what, std::string_view link,
                    const TextOf& text_of) {
    std::map<std::string, std::vector<int>> holders;
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        if (const std::string text = text_of(gpu); !text.empty())
            holders[text].push_back(machine.gpus[gpu].index);
    std::string out;
    for (const auto& [text, indices] : holders)
        out +=
            fmt::format("{0} {1}{1} {2} {1}{1} GPU {3}\n", what, link, text, index_list(indices));
    return out;
}

/// Pairs with NVLinks of their own, one line for each kind.
std::string pair_lines(const Machine& machine, std::string_view link) {
    std::map<std::string, std::vector<std::string>> pairs;
    std::size_t all = 0;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b, ++all)
            if (linked_directly(machine, a, b))
                pairs[pair_text(machine, a, b)].push_back(fmt::format(
                    "{}{}{}{}", machine.gpus[a].index, link, link, machine.gpus[b].index));
    std::string out;
    for (const auto& [text, names] : pairs) {
        const bool every = names.size() == all && all > 1;
        out += wrapped(text + ":", every ? std::vector<std::string>{"every pair of GPUs"} : names);
    }
    return out;
}

std::string link_lines(const Machine& machine, std::string_view link) {
    const std::string to_switches = by_gpus(machine, "NVSwitch", link, [&](std::size_t gpu) {
        return switch_links_text(machine, gpu);
    });
    const std::string to_cpus = by_gpus(machine, "CPU", link, [&](std::size_t gpu) -> std::string {
        const auto& rate = machine.gpus[gpu].c2c_gbytes_per_s;
        return rate ? fmt::format("C2C, {} GB/s", rate_text(*rate)) : "";
    });
    return to_switches + to_cpus + pair_lines(machine, link);
}

std::string lines_of(const Block& block) {
    std::string out;
    for (const std::string& line : block) {
        const std::size_t end = line.find_last_not_of(' ');
        out += line.substr(0, end == line.npos ? 0 : end + 1) + "\n";
    }
    return out;
}

}  // namespace

std::string machine_drawing(const Machine& machine, Strokes strokes) {
    const Pens& pens = strokes == Strokes::box ? kBox : kAscii;
    std::string out = machine.hostname.empty() ? "" : printable(machine.hostname) + ":\n";
    out += machine_line(machine) + "\n";
    const std::vector<Place> places = layout_of(machine);
    const auto located = std::count_if(places.begin(), places.end(),
                                       [](const Place& place) { return place.located; });
    for (std::size_t i = 0; i < places.size(); ++i) {
        if (i == 1 && located == 2) out += fmt::format("      {} SYS\n", pens.down);
        out += lines_of(place_block(machine, pens, places[i]));
    }
    if (located > 2) out += "NUMA nodes reach each other by SYS\n";
    return out + link_lines(machine, pens.link);
}

}  // namespace toporun::launcher
