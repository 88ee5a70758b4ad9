#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/gpu_table.hpp"

/// `nvidia-smi topo -p2p r|w|n|a|p`: the driver's word on peer access of each pair. The table does
/// not say which of the five was asked; the command above it does where it was pasted as well.
/// Without it NS is taken as a refusal, with a note: it is also what the questions for NVLink and
/// atomics get on any PCIe pair, while those for reading and writing mostly get CNS, GNS or TNS of
/// cards without peer access (NVIDIA/nccl issue 175, noonghunna/club-3090 issue 1130).
namespace toporun::detect {
namespace {

/// Words of the table (nvidia-smi's legend, NVML nvmlGpuP2PStatus_t).
struct Status {
    std::string_view word;
    PeerAccess access;
};
constexpr std::array kStatuses = {
    Status{"X", PeerAccess::ok},        Status{"OK", PeerAccess::ok},
    Status{"CNS", PeerAccess::refused}, Status{"GNS", PeerAccess::refused},
    Status{"TNS", PeerAccess::refused}, Status{"NS", PeerAccess::refused},
    Status{"DR", PeerAccess::refused},  Status{"U", PeerAccess::unknown},
};

const Status* find_status(std::string_view word) {
    const auto found = std::find_if(kStatuses.begin(), kStatuses.end(),
                                    [&](const Status& status) { return status.word == word; });
    return found == kStatuses.end() ? nullptr : &*found;
}

bool is_cell(std::string_view word) {
    return find_status(word) != nullptr;
}

/// The letter behind `-p2p` in the lines above the table ("r", "rw", "-r"), 0 when the command was
/// not pasted.
char asked_capability(const Lines& lines, std::size_t header) {
    constexpr std::size_t kLinesAbove = 4;
    for (std::size_t i = header + 1; i-- > 0 && i + kLinesAbove >= header;) {
        const auto word = words(lines.lines[i].text);
        for (std::size_t at = 0; at + 1 < word.size(); ++at)
            if (word[at] == "-p2p" || word[at] == "--p2p_status") {
                const std::size_t letter = word[at + 1].find_first_not_of('-');
                if (letter != std::string_view::npos) return word[at + 1][letter];
            }
    }
    return 0;
}

bool says_a_status(const GpuTable& table) {
    return std::any_of(table.rows.begin(), table.rows.end(), [](const GpuTableRow& row) {
        return std::any_of(row.cells.begin(), row.cells.end(),
                           [](const std::string& cell) { return is_cell(cell) && cell != "X"; });
    });
}

/// Whether the word refuses peer access in a table of that capability, 0 = not known which.
bool refuses(const Status& status, char capability) {
    if (status.access != PeerAccess::refused) return false;
    return capability == 0 || capability == 'r' || capability == 'w';
}

/// Puts a table into the matrix.
void take_table(const GpuTable& table, char capability, Machine& machine) {
    const std::size_t count = std::min(machine.gpus.size(), table.gpus.size());
    for (const GpuTableRow& row : table.rows)
        for (std::size_t i = 0; row.column < count && i < std::min(count, row.cells.size()); ++i) {
            const Status* status = find_status(row.cells[i]);
            if (status == nullptr || i == row.column) continue;
            PeerAccess& known = machine.peer_access[row.column][i];
            if (status->access == PeerAccess::ok && known == PeerAccess::unknown)
                known = PeerAccess::ok;
            if (refuses(*status, capability)) known = PeerAccess::refused;
        }
}

bool has_word(const GpuTable& table, std::string_view word) {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const GpuTableRow& row) {
        return std::find(row.cells.begin(), row.cells.end(), word) != row.cells.end();
    });
}

bool recognise(const Lines& lines) {
    std::vector<bool> ignored;
    const auto table = find_gpu_table(lines, 0, is_cell, ignored);
    return table && says_a_status(*table);
}

void mark_legend(const Lines& lines, std::vector<bool>& understood) {
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const auto word = words(lines.lines[i].text);
        if (word.empty()) continue;
        if (trim(lines.lines[i].text) == "Legend:" ||
            (word.size() > 2 && word[1] == "=" && is_cell(word[0])))
            understood[i] = true;
    }
}

Reading read(const Lines& lines) {
    Reading reading;
    reading.understood.resize(lines.lines.size());
    for (std::size_t start = 0;;) {
        const auto table = find_gpu_table(lines, start, is_cell, reading.understood);
        if (!table) break;
        start = table->end;
        if (!says_a_status(*table) && start < lines.lines.size()) continue;
        Machine& machine = reading.machine;
        if (machine.gpus.empty()) {
            machine = machine_with_gpus(table->gpus, "nvidia");
            machine.peer_access.assign(machine.gpus.size(),
                                       std::vector(machine.gpus.size(), PeerAccess::unknown));
            for (std::size_t i = 0; i < machine.gpus.size(); ++i)
                machine.peer_access[i][i] = PeerAccess::ok;
        }
        const char capability = asked_capability(lines, table->header);
        take_table(*table, capability, machine);
        if (capability == 0 && has_word(*table, "NS"))
            machine.notes.emplace_back(
                "the table of peer access says NS, and its command is missing: peer access counts "
                "as "
                "refused, which is wrong if it was not nvidia-smi topo -p2p r or w");
        machine.notes.insert(machine.notes.end(), table->notes.begin(), table->notes.end());
        if (table->rows.size() < table->columns.size())
            machine.notes.push_back(fmt::format("the table of peer access is cut: {} rows of {}",
                                                table->rows.size(), table->columns.size()));
    }
    mark_legend(lines, reading.understood);
    return reading;
}

}  // namespace

Importer nvidia_p2p_importer() {
    return {"nvidia-smi topo -p2p", recognise, read};
}

}  // namespace toporun::detect
