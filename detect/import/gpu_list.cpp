#include "detect/import/gpu_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "detect/import/gpu_table.hpp"

namespace toporun::detect {
namespace {

constexpr int kMostNotes = 20;  // lists of several machines contradict each other everywhere

}  // namespace

GpuList::GpuList() : machine_(machine_with_gpus({}, "nvidia")) {}

Gpu* GpuList::at(int index) {
    const auto found = std::find_if(machine_.gpus.begin(), machine_.gpus.end(),
                                    [&](const Gpu& gpu) { return gpu.index == index; });
    if (found != machine_.gpus.end()) return &*found;
    if (machine_.gpus.size() >= kMostTableGpus) return nullptr;
    Gpu gpu;
    gpu.index = index;
    gpu.vendor = "nvidia";
    machine_.gpus.push_back(std::move(gpu));
    return &machine_.gpus.back();
}

Gpu* GpuList::with_pci(const PciAddress& pci) {
    const auto found = std::find_if(machine_.gpus.begin(), machine_.gpus.end(),
                                    [&](const Gpu& gpu) { return gpu.pci == pci; });
    return found == machine_.gpus.end() ? nullptr : &*found;
}

void GpuList::contradiction(const Gpu& gpu, std::string_view fact, std::string_view first,
                            std::string_view second, std::size_t line) {
    if (++contradictions_ <= kMostNotes)
        machine_.notes.push_back(fmt::format("GPU {}: {} is {}, in line {} {}: the first is kept",
                                             gpu.index, fact, printable(first.substr(0, 96)), line,
                                             printable(second.substr(0, 96))));
}

void GpuList::take(const Gpu& gpu, std::string& into, std::string_view value, std::string_view fact,
                   std::size_t line) {
    if (into.empty())
        into = value;
    else if (into != value && !value.empty())
        contradiction(gpu, fact, into, value, line);
}

void GpuList::take(const Gpu& gpu, std::optional<PciAddress>& into, std::string_view value,
                   std::size_t line) {
    const auto pci = PciAddress::parse(value);
    if (!into)
        into = pci;
    else if (pci && pci != into)
        contradiction(gpu, "the bus id", into->text(), pci->text(), line);
}

void GpuList::count(int count, std::size_t line) {
    if (count_line_ == 0) {
        count_ = count;
        count_line_ = line;
    } else if (count != count_ && count > 1 && count_ > 1 &&  // one may have been asked for
               ++contradictions_ <= kMostNotes) {
        machine_.notes.push_back(
            fmt::format("the list from line {} on has {} GPUs, that from line {} on {}",
                        count_line_, count_, line, count));
    }
}

Machine GpuList::take() {
    return std::move(machine_);
}

std::optional<GpuHeading> gpu_heading(std::string_view line) {
    const std::string_view text = trim(line);
    if (!text.starts_with("GPU ")) return std::nullopt;
    const std::size_t colon = text.substr(0, 16).find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto index = first_of_list(trim(text.substr(4, colon - 4)));
    const std::size_t uuid = text.find("(UUID:");
    if (!index || uuid == std::string_view::npos || uuid < colon) return std::nullopt;
    GpuHeading heading{*index, trim(text.substr(colon + 1, uuid - colon - 1)), {}};
    const std::size_t end = std::min(text.find(')', uuid), text.size());
    heading.uuid = trim(text.substr(uuid + 6, end - uuid - 6));
    return heading;
}

void set_no_links(Machine& machine) {
    const bool none = std::all_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) {
        return !gpu.links.empty() &&
               std::all_of(gpu.links.begin(), gpu.links.end(),
                           [](const GpuLink& link) { return link.active == false; });
    });
    if (none) machine.gpu_links.assign(machine.gpus.size(), std::vector(machine.gpus.size(), 0));
}

std::optional<std::uint64_t> mebibytes(std::string_view text) {
    text = trim(text);
    if (!text.ends_with("MiB")) return std::nullopt;
    const auto number = to_integer(trim(text.substr(0, text.size() - 3)));
    constexpr long long kMost = 1ll << 32;
    if (!number || *number < 0 || *number > kMost) return std::nullopt;
    return static_cast<std::uint64_t>(*number) << 20;
}

std::optional<std::uint64_t> error_count(std::string_view text) {
    constexpr long long kMost = 1ll << 40;
    const auto number = to_integer(text);
    if (!number || *number < 0 || *number > kMost) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
}

std::string compute_mode(std::string_view text) {
    if (text == "Default") return "default";
    if (text == "Prohibited") return "prohibited";
    return text.starts_with("E. ") || text.starts_with("Exclusive") ? "exclusive-process" : "";
}

}  // namespace toporun::detect
