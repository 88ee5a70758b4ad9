#include "env/doctor/hca_list.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env::doctor {

HcaList parse_hca_list(std::string_view value) {
    constexpr std::size_t kMostEntries = 32;
    HcaList list;
    if (value.starts_with('^')) list.exclude = true, value.remove_prefix(1);
    if (value.starts_with('=')) list.exact = true, value.remove_prefix(1);
    for (const std::string& part : split(value, ',')) {
        const std::vector<std::string> words = split(part, ':');
        if (words.front().empty() || list.entries.size() == kMostEntries) continue;
        list.entries.push_back(
            {words.front(), words.size() > 1 ? to_integer(words[1]) : std::nullopt});
    }
    return list;
}

bool HcaList::takes(const detect::Nic& nic) const {
    const std::string device = nic.rdma_device.value_or("");
    const bool listed = std::any_of(entries.begin(), entries.end(), [&](const HcaEntry& entry) {
        const bool name = exact ? device == entry.device : device.starts_with(entry.device);
        return name && (!entry.port || !nic.port || *entry.port == *nic.port);
    });
    return listed != exclude;
}

}  // namespace toporun::env::doctor
