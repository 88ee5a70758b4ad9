#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"
#include "detect/import/nvidia_query_facts.hpp"

/// `nvidia-smi -q`, whole or by -d: sections by indentation, "key : value" lines.
namespace toporun::detect {
namespace {

/// "GPU 00000000:18:00.0"
std::optional<PciAddress> gpu_line(std::string_view text) {
    if (!text.starts_with("GPU ")) return std::nullopt;
    return PciAddress::parse(trim(text.substr(4)));
}

bool log_heading(std::string_view text) {
    return text.starts_with("===") && text.find("NVSMI LOG") != std::string_view::npos;
}

/// The keys above the first GPU, where the line NVSMI LOG was not copied.
bool heads_log(std::string_view text) {
    const std::size_t colon = text.find(" : ");
    if (colon == std::string_view::npos) return false;
    const std::string_view key = trim(text.substr(0, colon));
    return key == "Timestamp" || key == "Driver Version" || key == "CUDA Version" ||
           key == "Attached GPUs";
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return log_heading(trim(line.text)) || gpu_line(trim(line.text)).has_value();
    });
}

class QueryReader {
  public:
    explicit QueryReader(const Lines& lines) : lines_(lines) {
        reading_.understood.resize(lines.lines.size());
    }

    Reading read() {
        for (std::size_t i = 0; i < lines_.lines.size(); ++i)
            if (take(lines_.lines[i])) reading_.understood[i] = true;
        finish_gpu();
        reading_.machine = gpus_.take();
        reading_.machine.gpus_known = !reading_.machine.gpus.empty();
        reading_.machine.software.driver = driver_;
        if (attached_ && *attached_ != count_)
            reading_.machine.notes.push_back(fmt::format(
                "{} of {} GPUs are listed, their numbers are a guess", count_, *attached_));
        return std::move(reading_);
    }

  private:
    struct Section {
        std::size_t indent = 0;
        std::string_view name;
    };

    bool take(const PastedLine& pasted) {
        const std::string_view line = pasted.text;
        const std::string_view text = trim(line);
        if (log_heading(text)) {
            finish_gpu();
            return inside_ = true;
        }
        if (text.empty()) return false;
        if (const auto pci = gpu_line(text)) {
            finish_gpu();
            begin_gpu(*pci, pasted.number);
            sections_.clear();
            inside_ = true;
            base_ = line.find_first_not_of(" \t");
            return true;
        }
        if (!inside_ && !heads_log(text)) return false;
        inside_ = true;
        return key_line(line, text);
    }

    /// A GPU that an earlier log of the same text has told of is the same one.
    void begin_gpu(const PciAddress& pci, std::size_t line) {
        gpu_ = gpus_.with_pci(pci);
        line_ = line;
        if (gpu_ != nullptr) {
            name_ = std::exchange(gpu_->name, {});
            uuid_ = std::exchange(gpu_->uuid, {});
            gpu_->throttle_reasons.clear();
            return;
        }
        gpu_ = gpus_.at(count_++);
        if (gpu_ != nullptr) gpu_->pci = pci;
    }

    /// By what it is known in the earlier log holds on.
    void finish_gpu() {
        if (gpu_ != nullptr && !name_.empty()) {
            std::swap(name_, gpu_->name);
            gpus_.take(*gpu_, gpu_->name, name_, "the name", line_);
        }
        if (gpu_ != nullptr && uuid_) {
            const std::string again = gpu_->uuid.value_or("");
            gpus_.take(*gpu_, *uuid_, again, "the UUID", line_);
            gpu_->uuid = uuid_;
        }
        name_.clear();
        uuid_.reset();
        gpu_ = nullptr;
    }

    bool key_line(std::string_view line, std::string_view text) {
        const std::size_t indent = line.find_first_not_of(" \t");
        const std::size_t colon = text.find(" : ");
        const std::string_view key = trim(text.substr(0, colon));
        const std::string_view value =
            colon == std::string_view::npos ? std::string_view() : trim(text.substr(colon + 3));
        while (!sections_.empty() && sections_.back().indent >= indent) sections_.pop_back();
        if (gpu_ == nullptr) {
            if (key == "Driver Version" && !is_missing_value(value)) driver_ = value;
            if (key == "Attached GPUs") {
                const auto count = first_of_list(value);
                if (count) attached_ = std::max(attached_.value_or(0), *count);
            }
            return colon != std::string_view::npos;
        }
        if (indent <= base_) {  // another output begins here, or another log
            finish_gpu();
            return inside_ = heads_log(text) && key_line(line, text);
        }
        if (colon != std::string_view::npos) apply(key, value);
        constexpr std::size_t kDeepest = 16;
        if (sections_.size() < kDeepest && key.size() < 64) sections_.push_back({indent, key});
        return true;
    }

    void apply(std::string_view key, std::string_view value) {
        std::string path;
        for (const Section& section : sections_) path += std::string(section.name) + '/';
        path += key;
        take_query_fact(path, value, *gpu_);
    }

    const Lines& lines_;
    Reading reading_;
    GpuList gpus_;
    Gpu* gpu_ = nullptr;
    bool inside_ = false;
    int count_ = 0;
    std::size_t line_ = 0;             ///< of the GPU
    std::string name_;                 ///< of the GPU in an earlier log
    std::optional<std::string> uuid_;  ///< likewise
    std::size_t base_ = 0;             ///< indentation of the line of the GPU
    std::vector<Section> sections_;
    std::optional<int> attached_;
    std::optional<std::string> driver_;
};

Reading read(const Lines& lines) {
    return QueryReader(lines).read();
}

}  // namespace

Importer nvidia_query_importer() {
    return {"nvidia-smi -q", recognise, read};
}

}  // namespace toporun::detect
