#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

/// `nvidia-smi -L` (GPUs and MIG devices) and `nvidia-smi nvlink -s`, which prints the same heading
/// for each GPU and the state of its links below.
namespace toporun::detect {
namespace {

/// "Link 3: 25.781 GB/s", "Link 3: <inactive>".
std::optional<GpuLink> link_line(std::string_view line) {
    const std::string_view text = trim(line);
    if (!text.starts_with("Link ")) return std::nullopt;
    const std::size_t colon = text.substr(0, 16).find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto number = first_of_list(trim(text.substr(5, colon - 5)));
    if (!number || *number >= kMostGpuLinks) return std::nullopt;
    GpuLink link;
    link.link = *number;
    const std::string_view state = trim(text.substr(colon + 1));
    if (state == "<inactive>" || state == "inActive" || state == "Inactive") {
        link.active = false;
        return link;
    }
    if (!state.ends_with("GB/s")) return std::nullopt;
    double speed = 0;
    const auto [end, error] = std::from_chars(state.data(), state.data() + state.size(), speed);
    if (error != std::errc() || !(speed >= 0 && speed < 1e6)) return std::nullopt;
    link.active = true;
    link.speed_gbytes_per_s = speed;
    return link;
}

/// "MIG 1g.10gb     Device  0: (UUID: MIG-...)".
bool mig_line(std::string_view line) {
    const std::string_view text = trim(line);
    return text.starts_with("MIG ") && text.find("(UUID: MIG-") != std::string_view::npos;
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return gpu_heading(line.text).has_value(); });
}

Reading read(const Lines& lines) {
    Reading reading;
    reading.understood.resize(lines.lines.size());
    GpuList gpus;
    Gpu* gpu = nullptr;
    std::set<int> listed;
    std::size_t begin = 0;
    bool links = false;  // of nvlink -s: GPUs by the user's choice
    const auto finish = [&] {
        if (!listed.empty() && !links) gpus.count(static_cast<int>(listed.size()), begin);
        listed.clear();
        links = false;
    };
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string& text = lines.lines[i].text;
        if (const auto heading = gpu_heading(text)) {
            const std::size_t line = lines.lines[i].number;
            if (listed.count(heading->index) > 0) finish();
            if (listed.empty()) begin = line;
            listed.insert(heading->index);
            gpu = gpus.at(heading->index);
            if (gpu != nullptr) gpus.take(*gpu, gpu->name, heading->name, "the name", line);
            if (gpu != nullptr && heading->uuid.starts_with("GPU-")) {
                std::string uuid = gpu->uuid.value_or("");
                gpus.take(*gpu, uuid, heading->uuid, "the UUID", line);
                gpu->uuid = uuid;
            }
            reading.understood[i] = true;
        } else if (const auto link = link_line(text); link && gpu != nullptr) {
            const bool known = std::any_of(gpu->links.begin(), gpu->links.end(),
                                           [&](const GpuLink& a) { return a.link == link->link; });
            if (!known) gpu->links.push_back(*link);
            links = true;
            reading.understood[i] = true;
        } else if (mig_line(text) && gpu != nullptr) {
            gpu->mig = true;
            reading.understood[i] = true;
        }
    }
    finish();
    reading.machine = gpus.take();
    set_no_links(reading.machine);
    return reading;
}

}  // namespace

Importer nvidia_list_importer() {
    return {"nvidia-smi -L and nvlink -s", recognise, read};
}

}  // namespace toporun::detect
