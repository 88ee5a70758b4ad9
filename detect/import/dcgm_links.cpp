#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

/// `dcgmi nvlink --link-status`: a row of letters for each GPU and NVSwitch, one per link: U up,
/// D down, X disabled, _ not there.
namespace toporun::detect {
namespace {

constexpr std::size_t kMostLetters = 256;  ///< a switch has up to 72 links

/// The number of "gpuId 3:".
std::optional<int> gpu_line(std::string_view line) {
    const std::string_view text = trim(line);
    if (!text.starts_with("gpuId ") || !text.ends_with(":")) return std::nullopt;
    return first_of_list(trim(text.substr(6, text.size() - 7)));
}

bool switch_line(std::string_view line) {
    const std::string_view text = trim(line);
    return text.starts_with("physicalId ") && text.ends_with(":");
}

/// The letters of a row; empty when it is none.
std::string letters(std::string_view line) {
    std::string out;
    for (const std::string_view word : words(line.substr(0, 4 * kMostLetters))) {
        if (word.size() != 1 || std::string_view("UDX_").find(word[0]) == std::string_view::npos)
            return {};
        out += word;
    }
    return out.substr(0, kMostLetters);
}

bool frame(std::string_view line) {
    const std::string_view text = trim(line);
    return text.starts_with("+--") || text.starts_with("| NvLink") || text == "GPUs:" ||
           text == "NvSwitches:" || text == "No NvSwitches found." || text.starts_with("Key:");
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return gpu_line(line.text).has_value(); });
}

std::vector<GpuLink> links_of(const std::string& states) {
    std::vector<GpuLink> links;
    for (std::size_t i = 0; i < states.size(); ++i) {
        if (states[i] == '_') continue;
        GpuLink link;
        link.link = static_cast<int>(i);
        link.active = states[i] == 'U';
        links.push_back(link);
    }
    return links;
}

Reading read(const Lines& lines) {
    Reading reading;
    reading.understood.resize(lines.lines.size());
    GpuList gpus;
    Gpu* gpu = nullptr;
    bool switches = false;
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string& text = lines.lines[i].text;
        const std::string row = letters(text);
        if (const auto index = gpu_line(text)) {
            gpu = gpus.at(*index);
        } else if (switch_line(text)) {
            switches = true;
            gpu = nullptr;
        } else if (!row.empty()) {
            if (gpu != nullptr && gpu->links.empty()) gpu->links = links_of(row);
        } else if (!frame(text)) {
            continue;
        }
        reading.understood[i] = true;
    }
    reading.machine = gpus.take();
    reading.machine.nvswitch = switches;
    set_no_links(reading.machine);
    return reading;
}

}  // namespace

Importer dcgm_links_importer() {
    return {"dcgmi nvlink --link-status", recognise, read};
}

}  // namespace toporun::detect
