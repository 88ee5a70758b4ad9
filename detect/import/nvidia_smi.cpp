#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

/// The table of plain `nvidia-smi`, in both of its widths, and what it says when it finds no GPU or
/// no driver.
namespace toporun::detect {
namespace {

constexpr std::string_view kNoDevices = "No devices were found";
constexpr std::string_view kNoAnswer = "ERR!";  ///< in place of a value that the GPU did not give
/// The tool did not reach the driver: it says nothing of the GPUs.
constexpr std::string_view kFailures[] = {
    "NVIDIA-SMI has failed",
    "Failed to initialize NVML",
    "Unable to determine the device handle",
};

std::string_view failure(std::string_view line) {
    for (const std::string_view known : kFailures)
        if (line.find(known) != std::string_view::npos) return trim(line);
    return {};
}

/// "... device handle for GPU0: 0000:41:00.0: Unknown Error", or "for GPU0000:41:00.0: ..."
std::optional<PciAddress> first_address(std::string_view text) {
    for (std::string_view word : words(text)) {
        if (word.starts_with("GPU")) word.remove_prefix(3);
        while (word.ends_with(':')) word.remove_suffix(1);
        if (const auto pci = PciAddress::parse(word)) return pci;
    }
    return std::nullopt;
}

/// The fields between the vertical bars of a line; empty for other lines.
std::vector<std::string_view> fields(std::string_view line) {
    std::string_view text = trim(line);
    if (!text.starts_with("|") || !text.ends_with("|") || text.size() < 2) return {};
    text = text.substr(1, text.size() - 2);
    std::vector<std::string_view> out;
    while (out.size() < 8) {
        const std::size_t bar = text.find('|');
        out.push_back(trim(text.substr(0, bar)));
        if (bar == std::string_view::npos) break;
        text.remove_prefix(bar + 1);
    }
    return out;
}

/// The word behind `label` ("Driver Version: 550.54.15").
std::string_view value_behind(std::string_view line, std::string_view label) {
    const std::size_t at = line.find(label);
    if (at == std::string_view::npos) return {};
    const auto word = words(line.substr(at + label.size()).substr(0, 64));
    return word.empty() ? std::string_view() : word[0];
}

/// The frame, and the date that the tool prints above it.
bool frame_or_date(std::string_view text) {
    if (text.starts_with("+--")) return true;
    const auto word = words(text.substr(0, 64));
    constexpr std::string_view kDays = "Mon Tue Wed Thu Fri Sat Sun";
    return word.size() >= 5 && word[0].size() == 3 && kDays.find(word[0]) != std::string_view::npos;
}

bool version(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

class SmiReader {
  public:
    explicit SmiReader(const Lines& lines) : lines_(lines) {
        reading_.understood.resize(lines.lines.size());
    }

    Reading read() {
        bool inside = false, table = false;
        std::string failed;
        for (std::size_t i = 0; i < lines_.lines.size(); ++i) {
            const std::string_view text = trim(lines_.lines[i].text);
            if (const std::string_view said = failure(text); !said.empty()) {
                failed = printable(said.substr(0, 120));
                if (const auto pci = first_address(said)) lost_.push_back(*pci);
                reading_.understood[i] = true;
            } else if (text == kNoDevices) {
                none_ = true;
                reading_.understood[i] = true;
            } else if (text.starts_with("|") && text.find("NVIDIA-SMI") != std::string_view::npos) {
                inside = table = true;
                const std::string_view driver = value_behind(text, "Driver Version:");
                if (version(driver)) driver_ = driver;
                reading_.understood[i] = true;
            } else if (inside && (text.starts_with("|") || text.starts_with("+"))) {
                take(text);
                reading_.understood[i] = true;
            } else if (!text.empty()) {
                inside = false;
                reading_.understood[i] = frame_or_date(text);
            }
        }
        reading_.machine = gpus_.take();
        Machine& machine = reading_.machine;
        for (Gpu& gpu : machine.gpus)
            if (gpu.pci && std::find(lost_.begin(), lost_.end(), *gpu.pci) != lost_.end())
                gpu.responding = false;
        machine.gpus_known = !machine.gpus.empty() || none_;
        machine.software.driver = driver_;
        if (!failed.empty()) machine.notes.push_back(failed);
        if (none_) machine.notes.emplace_back("nvidia-smi found no GPU");
        if (table && machine.gpus.empty() && !none_)
            machine.notes.emplace_back("the table of nvidia-smi is cut before its first GPU");
        return std::move(reading_);
    }

  private:
    void take(std::string_view line) {
        if (line.find("Processes") != std::string_view::npos ||
            line.find("MIG devices") != std::string_view::npos)
            devices_over_ = true;
        if (line.find("Bus-Id") != std::string_view::npos) devices_over_ = false;
        if (devices_over_) return;
        const auto field = fields(line);
        if (field.size() != 3) return;
        if (first_line(field)) {
            second_line_ = true;
        } else if (gpu_ != nullptr && second_line_) {
            memory(field[1]);
            state(field[0], field[2]);
            second_line_ = false;
        } else if (gpu_ != nullptr) {
            if (field[2] == "Enabled" || field[2] == "Enabled*") gpu_->mig = true;
            if (field[2] == "Disabled" || field[2] == "Disabled*") gpu_->mig = false;
            gpu_ = nullptr;
        }
    }

    /// "0  NVIDIA A100-SXM...  On | 00000000:07:00.0 Off | 0". A GPU that does not answer may have
    /// "ERR!" for its number, which is then the next one, and for its address.
    bool first_line(const std::vector<std::string_view>& field) {
        const auto left = words(field[0]);
        const auto middle = words(field[1]);
        if (left.size() < 2 || middle.empty()) return false;
        auto index = first_of_list(left[0]);
        const auto pci = PciAddress::parse(middle[0]);
        const bool no_index = left[0] == kNoAnswer, no_pci = middle[0] == kNoAnswer;
        if ((!index && !no_index) || (!pci && !no_pci)) return false;
        // The second line of a GPU has its fan and its memory in the same places.
        if ((no_index || no_pci) && (second_line_ || field[1].find('/') != std::string_view::npos))
            return false;
        if (!index) index = last_index_ + 1;
        last_index_ = *index;
        gpu_ = gpus_.at(*index);
        if (gpu_ == nullptr) return true;
        gpu_->pci = pci;
        if (no_index || no_pci) gpu_->responding = false;
        const std::string_view mode = left.back();
        std::string_view name = trim(field[0].substr(left[0].size()));
        if (mode == "On" || mode == "Off" || mode == "N/A") {
            if (mode != "N/A") gpu_->persistence = mode == "On";
            name = trim(name.substr(0, name.size() - mode.size()));
        }
        gpu_->name = name;
        if (field[2] == "Off")
            gpu_->ecc = false;
        else if (to_integer(field[2]))
            gpu_->ecc = true;
        gpu_->uncorrected_errors = error_count(field[2]);
        return true;
    }

    /// "N/A   50C    P0    60W / 250W" and "0%      Default"
    void state(std::string_view left, std::string_view right) {
        const auto word = words(left);  // fan, temperature, performance state
        if (word.size() >= 3 && word[1] == kNoAnswer && word[2] == kNoAnswer)
            gpu_->responding = false;
        gpu_->compute_mode =
            compute_mode(trim(right.substr(std::min(right.find(' '), right.size()))));
    }

    /// "0MiB / 40960MiB"
    void memory(std::string_view field) {
        const std::size_t slash = field.find('/');
        if (slash == std::string_view::npos) return;
        const std::string_view used = trim(field.substr(0, slash));
        const std::string_view all = trim(field.substr(slash + 1));
        if (used == kNoAnswer && all == kNoAnswer) gpu_->responding = false;
        gpu_->memory_used_bytes = mebibytes(used);
        gpu_->memory_bytes = mebibytes(all);
    }

    const Lines& lines_;
    Reading reading_;
    GpuList gpus_;
    Gpu* gpu_ = nullptr;
    int last_index_ = -1;
    std::vector<PciAddress> lost_;  ///< the driver has no handle of them
    bool second_line_ = false, devices_over_ = false, none_ = false;
    std::optional<std::string> driver_;
};

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        const std::string_view text = trim(line.text);
        return text == kNoDevices || !failure(text).empty() ||
               (text.starts_with("|") && text.find("NVIDIA-SMI") != std::string_view::npos);
    });
}

Reading read(const Lines& lines) {
    return SmiReader(lines).read();
}

}  // namespace

Importer nvidia_smi_importer() {
    return {"nvidia-smi", recognise, read};
}

}  // namespace toporun::detect
