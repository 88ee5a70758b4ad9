#include "detect/import/pasted_interfaces.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

bool contains_all(std::vector<std::string> all, std::vector<std::string> some) {
    std::sort(all.begin(), all.end());
    std::sort(some.begin(), some.end());
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

bool same_interface(const PastedInterface& a, const PastedInterface& b) {
    if (a.os_index != 0 && b.os_index != 0 && a.os_index != b.os_index) return false;
    return contains_all(a.addresses, b.addresses) || contains_all(b.addresses, a.addresses);
}

template <typename T>
void fill(T& into, const T& from) {
    if (into == T{}) into = from;
}

void fill_in(PastedInterface& into, const PastedInterface& from) {
    fill(into.below, from.below);
    fill(into.os_index, from.os_index);
    fill(into.flags, from.flags);
    fill(into.link_type, from.link_type);
    fill(into.info_kind, from.info_kind);
    fill(into.operstate, from.operstate);
    fill(into.master, from.master);
    fill(into.mtu, from.mtu);
    if (into.addresses.size() < from.addresses.size()) into.addresses = from.addresses;
}

/// The first of two states stays.
void note_differences(const PastedInterface& first, const PastedInterface& second,
                      std::vector<std::string>& notes) {
    constexpr std::size_t kMost = 20;
    const auto told = [](const std::string& state) { return state == "up" || state == "down"; };
    const Nic a = to_nic(first), b = to_nic(second);
    if (notes.size() >= kMost) return;
    if (told(a.state) && told(b.state) && a.state != b.state)
        notes.push_back(fmt::format("{} is listed as {} and as {}: the first is kept", a.name,
                                    a.state, b.state));
    if (a.mtu && b.mtu && *a.mtu != *b.mtu)
        notes.push_back(fmt::format("{} is listed with MTU {} and with {}: the first is kept",
                                    a.name, *a.mtu, *b.mtu));
}

}  // namespace

void PastedInterfaces::add(PastedInterface pasted) {
    const auto begins_another = [&] {
        const Listing& last = listings_.back();
        if (last.by_name.contains(pasted.name)) return true;
        const int before = last.interfaces.back().os_index;
        return pasted.os_index != 0 && before != 0 && pasted.os_index <= before;
    };
    if (listings_.empty() || begins_another()) listings_.emplace_back();
    Listing& listing = listings_.back();
    listing.by_name.emplace(pasted.name, listing.interfaces.size());
    listing.interfaces.push_back(std::move(pasted));
}

bool PastedInterfaces::same_machine(const Listing& a, const Listing& b) {
    return std::all_of(b.interfaces.begin(), b.interfaces.end(), [&](const PastedInterface& of_b) {
        const auto found = a.by_name.find(of_b.name);
        return found == a.by_name.end() || same_interface(a.interfaces[found->second], of_b);
    });
}

void PastedInterfaces::merge(const Listing& from, Listing& into, std::vector<std::string>& notes) {
    for (const PastedInterface& pasted : from.interfaces) {
        const auto [found, added] = into.by_name.emplace(pasted.name, into.interfaces.size());
        if (added) {
            into.interfaces.push_back(pasted);
        } else {
            note_differences(into.interfaces[found->second], pasted, notes);
            fill_in(into.interfaces[found->second], pasted);
        }
    }
}

Machine PastedInterfaces::machine() const {
    Machine machine;
    machine.gpus_known = false;
    if (listings_.empty()) return machine;
    Listing all = listings_.front();
    std::size_t left_out = 0;
    for (std::size_t i = 1; i < listings_.size(); ++i) {
        if (same_machine(all, listings_[i]))
            merge(listings_[i], all, machine.notes);
        else
            ++left_out;
    }
    for (const PastedInterface& pasted : all.interfaces) machine.nics.push_back(to_nic(pasted));
    // Only the kernel's numbers give the order of several listings.
    if (std::all_of(all.interfaces.begin(), all.interfaces.end(),
                    [](const PastedInterface& pasted) { return pasted.os_index != 0; }))
        std::stable_sort(machine.nics.begin(), machine.nics.end(),
                         [](const Nic& a, const Nic& b) { return a.os_index < b.os_index; });
    if (left_out > 0)
        machine.notes.push_back(fmt::format(
            "{} more list{} of interfaces with other addresses or numbers taken for other "
            "machines, left out",
            left_out, left_out == 1 ? "" : "s"));
    return machine;
}

std::string unreadable_address(const PastedLine& line, std::string_view name,
                               std::string_view address) {
    return fmt::format("line {}: {}: the address '{}' cannot be read, left out", line.number,
                       printable(name), printable(address.substr(0, 64)));
}

}  // namespace toporun::detect
