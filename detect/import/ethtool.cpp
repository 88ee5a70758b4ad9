#include <algorithm>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `ethtool DEVICE`: speed and carrier of one interface, a block each.
namespace toporun::detect {
namespace {

/// The name in "Settings for eth0:", "" for other lines.
std::string_view header_name(std::string_view text) {
    constexpr std::string_view kStart = "Settings for ";
    std::string_view line = trim(text);
    if (!line.starts_with(kStart) || !line.ends_with(':')) return {};
    line = line.substr(kStart.size(), line.size() - kStart.size() - 1);
    return interface_name(line) ? line : std::string_view();
}

void fact(std::string_view key, std::string_view value, Nic& nic) {
    if (key == "Speed" && value.ends_with("Mb/s"))
        if (const auto mbits = number_in(value.substr(0, value.size() - 4), 1, 100'000'000))
            nic.speed_gbits = *mbits / 1000.0;
    if (key == "Link detected") nic.state = value.starts_with("yes") ? "up" : "down";
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return !header_name(line.text).empty(); });
}

Reading read(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = false;
    bool open = false;
    for (const PastedLine& line : lines.lines) {
        const std::string_view name = header_name(line.text);
        const bool indented = line.text.starts_with(' ') || line.text.starts_with('\t');
        if (!name.empty()) machine.nics.push_back(nic_of_name(name));
        open = !name.empty() || (open && (indented || trim(line.text).empty()));
        reading.understood.push_back(open);
        const auto pair = key_and_value(line.text);
        if (open && name.empty() && pair) fact(pair->first, pair->second, machine.nics.back());
    }
    return reading;
}

}  // namespace

Importer ethtool_importer() {
    return {"ethtool", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
