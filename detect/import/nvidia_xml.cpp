#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"
#include "detect/import/joined_text.hpp"
#include "detect/import/nvidia_query_facts.hpp"

/// `nvidia-smi -q -x`: what -q says, as XML (nvsmi_device.dtd).
namespace toporun::detect {
namespace {

constexpr std::string_view kBegin = "<nvidia_smi_log";
constexpr std::string_view kEnd = "</nvidia_smi_log>";

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return line.text.find(kBegin) != std::string::npos;
    });
}

void take_elements(const pugi::xml_node& node, const std::string& path, int depth, Gpu& gpu) {
    constexpr int kDeepest = 8;
    if (depth > kDeepest) return;
    for (const pugi::xml_node child : node.children()) {
        if (child.type() != pugi::node_element) continue;
        const std::string name = path + child.name();
        take_query_element(name, trim(child.text().get()), gpu);
        take_elements(child, name + '/', depth + 1, gpu);
    }
}

class XmlReader {
  public:
    explicit XmlReader(const Lines& lines) : joined_(lines) {
        reading_.understood.resize(lines.lines.size());
        for (std::size_t i = 0; i < lines.lines.size(); ++i) {
            const std::string_view text = trim(lines.lines[i].text);
            reading_.understood[i] = text.starts_with("<?xml") || text.starts_with("<!DOCTYPE");
        }
    }

    Reading read() {
        const std::string& text = joined_.text();
        for (std::size_t at = 0; (at = text.find(kBegin, at)) != text.npos;) {
            const std::size_t close = text.find(kEnd, at);
            const std::size_t end = close == text.npos ? text.size() : close + kEnd.size();
            read_log(std::string_view(text).substr(at, end - at), at);
            at = end;
        }
        if (count_ == 0 && notes_.empty())
            throw Error("the XML of nvidia-smi has no GPU", joined_.place(text.find(kBegin)),
                        "a whole output of nvidia-smi -q -x is expected");
        reading_.machine = gpus_.take();
        Machine& machine = reading_.machine;
        machine.gpus_known = !machine.gpus.empty();
        machine.software.driver = driver_;
        machine.notes.insert(machine.notes.end(), notes_.begin(), notes_.end());
        return std::move(reading_);
    }

  private:
    void read_log(std::string_view text, std::size_t offset) {
        pugi::xml_document document;
        const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default);
        const pugi::xml_node log = document.child("nvidia_smi_log");
        std::size_t used = text.size();
        if (!parsed) {
            used = std::min(used,
                            static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0)));
            notes_.push_back(
                fmt::format("{}: the XML ends early or is damaged ({}): what stands before is used",
                            joined_.place(offset + used), parsed.description()));
        }
        const std::size_t first_line = joined_.line_of(offset);
        const std::size_t last = joined_.line_of(offset + std::max<std::size_t>(used, 1) - 1);
        for (std::size_t i = joined_.line_of(offset); i <= last; ++i) reading_.understood[i] = true;
        const std::string_view driver = trim(log.child("driver_version").text().get());
        if (!is_missing_value(driver)) driver_ = driver;
        int listed = 0;
        for (const pugi::xml_node element : log.children("gpu")) {
            Gpu* const gpu = gpus_.at(listed++);
            if (gpu == nullptr) break;
            gpu->throttle_reasons.clear();  // an earlier log of the same text, as by -l
            gpu->uncorrected_errors.reset();
            const std::size_t line = first_line + 1;
            gpus_.take(*gpu, gpu->pci, element.attribute("id").value(), line);
            std::string name = std::exchange(gpu->name, {});
            std::string uuid = gpu->uuid.value_or("");
            gpu->uuid.reset();
            take_elements(element, "", 0, *gpu);
            gpus_.take(*gpu, name, gpu->name, "the name", line);
            gpus_.take(*gpu, uuid, gpu->uuid.value_or(""), "the UUID", line);
            gpu->name = name;
            if (!uuid.empty()) gpu->uuid = uuid;
        }
        if (listed > 0) gpus_.count(listed, first_line + 1);
        count_ += listed;
        const auto attached = first_of_list(trim(log.child("attached_gpus").text().get()));
        if (attached && *attached != listed)
            notes_.push_back(fmt::format("{} of {} GPUs are listed, their numbers are a guess",
                                         listed, *attached));
    }

    JoinedText joined_;
    Reading reading_;
    GpuList gpus_;
    int count_ = 0;
    std::vector<std::string> notes_;
    std::optional<std::string> driver_;
};

Reading read(const Lines& lines) {
    return XmlReader(lines).read();
}

}  // namespace

Importer nvidia_xml_importer() {
    return {"nvidia-smi -q -x", recognise, read};
}

}  // namespace toporun::detect
