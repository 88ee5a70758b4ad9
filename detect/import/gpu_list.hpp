#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "detect/import/importer.hpp"

/// Lists of GPUs as text: one entry after the other, not a square table.
namespace toporun::detect {

/// The GPUs of a listing of nvidia-smi by their number. Later entries of a number add to the first.
class GpuList {
  public:
    GpuList();
    /// The GPU with this number, made when it is new. Nothing beyond the number that one capture
    /// may hold.
    Gpu* at(int index);
    /// The one with this bus id, nullptr when none has it.
    Gpu* with_pci(const PciAddress& pci);
    /// A fact by which a GPU is known, as line `line` tells it: the first stays where two
    /// contradict each other, and a note names both.
    void take(const Gpu& gpu, std::string& into, std::string_view value, std::string_view fact,
              std::size_t line);
    void take(const Gpu& gpu, std::optional<PciAddress>& into, std::string_view value,
              std::size_t line);
    /// A list that begins at `line` has `count` GPUs: told where an earlier one had another number.
    void count(int count, std::size_t line);
    /// The machine in the order of the text; nothing else is known of it.
    Machine take();

  private:
    void contradiction(const Gpu& gpu, std::string_view fact, std::string_view first,
                       std::string_view second, std::size_t line);

    Machine machine_;
    int contradictions_ = 0;
    int count_ = 0;  ///< of the first list
    std::size_t count_line_ = 0;
};

/// "GPU 3: Tesla V100-SXM2-32GB (UUID: GPU-...)" of -L and of nvlink.
struct GpuHeading {
    int index = 0;
    std::string_view name;
    std::string_view uuid;
};
std::optional<GpuHeading> gpu_heading(std::string_view line);

/// Where links are listed for every GPU and none is up, no pair has NVLink.
void set_no_links(Machine& machine);

/// "40960MiB", "81559 MiB" in bytes.
std::optional<std::uint64_t> mebibytes(std::string_view text);

/// A number of memory errors.
std::optional<std::uint64_t> error_count(std::string_view text);

/// "E. Process" of the table, "Exclusive_Process" of -q, as Gpu::compute_mode; "" for others.
std::string compute_mode(std::string_view text);

}  // namespace toporun::detect
