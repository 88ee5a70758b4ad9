#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_list.hpp"
#include "detect/import/gpu_table.hpp"

/// `nvidia-smi --query-gpu=... --format=csv`, with its header: the columns are the user's choice.
namespace toporun::detect {
namespace {

constexpr std::size_t kMostColumns = 256;

std::optional<bool> on(std::string_view value) {
    if (value == "Enabled") return true;
    if (value == "Disabled") return false;
    return std::nullopt;
}

std::optional<int> number(std::string_view value) {
    const auto found = first_of_list(value);
    return found && *found >= 1 && *found <= 64 ? found : std::nullopt;
}

struct Column {
    std::string_view name;  ///< without the unit in brackets
    /// nullptr: of what a GPU is known by.
    void (*set)(Gpu& gpu, std::string_view value);
};
constexpr Column kColumns[] = {
    {"index", nullptr},
    {"driver_version", nullptr},
    {"name", nullptr},
    {"gpu_name", nullptr},
    {"uuid", nullptr},
    {"gpu_uuid", nullptr},
    {"pci.bus_id", nullptr},
    {"gpu_bus_id", nullptr},
    {"memory.total", [](Gpu& gpu, std::string_view v) { gpu.memory_bytes = mebibytes(v); }},
    {"memory.used", [](Gpu& gpu, std::string_view v) { gpu.memory_used_bytes = mebibytes(v); }},
    {"persistence_mode", [](Gpu& gpu, std::string_view v) { gpu.persistence = on(v); }},
    {"ecc.mode.current", [](Gpu& gpu, std::string_view v) { gpu.ecc = on(v); }},
    {"compute_mode", [](Gpu& gpu, std::string_view v) { gpu.compute_mode = compute_mode(v); }},
    {"ecc.errors.uncorrected.volatile.total",
     [](Gpu& gpu, std::string_view v) { gpu.uncorrected_errors = error_count(v); }},
    {"mig.mode.current", [](Gpu& gpu, std::string_view v) { gpu.mig = on(v); }},
    {"pcie.link.gen.max", [](Gpu& gpu, std::string_view v) { gpu.pcie_generation = number(v); }},
    {"pcie.link.gen.current",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_generation_now = number(v); }},
    {"pcie.link.width.max", [](Gpu& gpu, std::string_view v) { gpu.pcie_width = number(v); }},
    {"pcie.link.width.current",
     [](Gpu& gpu, std::string_view v) { gpu.pcie_width_now = number(v); }},
};

/// The command of a list has its columns with commas too: it is no row.
std::vector<std::string_view> fields(std::string_view line) {
    std::vector<std::string_view> out;
    if (line.find("--query") != std::string_view::npos) return {line};
    for (std::size_t at = 0; at <= line.size() && out.size() < kMostColumns;) {
        const std::size_t end = std::min(line.find(',', at), line.size());
        out.push_back(trim(line.substr(at, end - at)));
        at = end + 1;
    }
    return out;
}

/// The known columns of a header, null for others; empty when the line is no header.
std::vector<const Column*> header(std::string_view line) {
    if (line.find(',') == std::string_view::npos) return {};
    std::vector<const Column*> columns;
    std::size_t known = 0;
    for (const std::string_view field : fields(line)) {
        const std::string_view name = trim(field.substr(0, field.find('[')));
        if (name == "pid") return {};  // --query-compute-apps: rows are processes
        const auto found = std::find_if(std::begin(kColumns), std::end(kColumns),
                                        [&](const Column& column) { return column.name == name; });
        columns.push_back(found == std::end(kColumns) ? nullptr : found);
        known += columns.back() == nullptr ? 0 : 1;
    }
    if (known < 2) return {};
    return columns;
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return !header(line.text).empty(); });
}

/// What the driver does not have: "N/A", "[N/A]", "[Not Supported]".
bool missing(std::string_view value) {
    return value.empty() || value == "N/A" || value.starts_with("[");
}

/// What a GPU is known by.
void take_identity(std::string_view column, std::string_view value, std::size_t line, Gpu& gpu,
                   GpuList& gpus) {
    if (column.ends_with("name")) gpus.take(gpu, gpu.name, value, "the name", line);
    if (column.ends_with("bus_id")) gpus.take(gpu, gpu.pci, value, line);
    if (!column.ends_with("uuid")) return;
    std::string uuid = gpu.uuid.value_or("");
    gpus.take(gpu, uuid, value, "the UUID", line);
    gpu.uuid = uuid;
}

void read_row(const std::vector<const Column*>& columns, const std::vector<std::string_view>& row,
              int position, std::size_t line, GpuList& gpus, std::optional<std::string>& driver) {
    int index = position;
    for (std::size_t i = 0; i < row.size(); ++i)
        if (columns[i] != nullptr && columns[i]->name == "index")
            index = first_of_list(row[i]).value_or(position);
    Gpu* gpu = gpus.at(index);
    if (gpu == nullptr) return;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] == "[GPU is lost]") gpu->responding = false;
        if (columns[i] == nullptr || missing(row[i])) continue;
        if (columns[i]->set != nullptr)
            columns[i]->set(*gpu, row[i]);
        else
            take_identity(columns[i]->name, row[i], line, *gpu, gpus);
        if (columns[i]->name == "driver_version") driver = row[i];
    }
}

Reading read(const Lines& lines) {
    Reading reading;
    reading.understood.resize(lines.lines.size());
    GpuList gpus;
    std::vector<const Column*> columns;
    int position = 0;
    std::size_t begin = 0;
    const auto finish = [&] {
        if (position > 0) gpus.count(position, begin);
        position = 0;
    };
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string_view text = trim(lines.lines[i].text);
        if (auto found = header(text); !found.empty()) {
            finish();
            columns = std::move(found);
            begin = lines.lines[i].number;
        } else if (const auto row = fields(text); !text.empty() && row.size() == columns.size()) {
            read_row(columns, row, position++, lines.lines[i].number, gpus,
                     reading.machine.software.driver);
        } else {
            finish();
            columns.clear();
            continue;
        }
        reading.understood[i] = true;
    }
    finish();
    const std::optional<std::string> driver = reading.machine.software.driver;
    reading.machine = gpus.take();
    reading.machine.software.driver = driver;
    reading.machine.gpus_known = !reading.machine.gpus.empty();
    return reading;
}

}  // namespace

Importer nvidia_csv_importer() {
    return {"nvidia-smi --query-gpu --format=csv", recognise, read};
}

}  // namespace toporun::detect
