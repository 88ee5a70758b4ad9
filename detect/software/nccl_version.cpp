#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "detect/software/nccl_library.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kPrefix = "NCCL version ";
constexpr std::size_t kOverlap = 64;  ///< longer than the longest version text
constexpr std::size_t kPieceBytes = 65536;
/// Of a deep search; PyTorch's largest library has about 2 GiB.
constexpr std::uint64_t kMostSearchedBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMostSections = 4096;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// "2.28.9" at the start of `text`: three numbers of at most three digits, then '+' or " compiled".
std::optional<std::string> version_at(std::string_view text) {
    std::size_t end = 0;
    for (int part = 0; part < 3; ++part) {
        if (part > 0 && (end >= text.size() || text[end++] != '.')) return std::nullopt;
        const std::size_t begin = end;
        while (end < text.size() && is_digit(text[end])) ++end;
        if (end == begin || end - begin > 3) return std::nullopt;
    }
    const std::string_view rest = text.substr(end);
    if (!rest.starts_with('+') && !rest.starts_with(" compiled")) return std::nullopt;
    return std::string(text.substr(0, end));
}

template <class Struct>
std::optional<Struct> read_struct(BoundedReader& reader, const std::string& path,
                                  std::uint64_t offset) {
    const auto bytes = reader.read_at(path, offset, sizeof(Struct));
    if (!bytes || bytes->size() != sizeof(Struct)) return std::nullopt;
    Struct value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
}

struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = kMostBytes;  ///< of a file without sections
};

/// Where .rodata lies in the file; the file's beginning when the section table is gone.
Range read_only_data(BoundedReader& reader, const std::string& path, const Elf64_Ehdr& header) {
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections ||
        header.e_shstrndx >= header.e_shnum)
        return {};
    const auto table = reader.read_at(path, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
    if (!table || table->size() != header.e_shnum * sizeof(Elf64_Shdr)) return {};
    const auto section = [&](std::size_t index) {
        Elf64_Shdr value;
        std::memcpy(&value, table->data() + index * sizeof value, sizeof value);
        return value;
    };
    const Elf64_Shdr strings = section(header.e_shstrndx);
    const auto names =
        reader.read_at(path, strings.sh_offset, std::min<std::uint64_t>(strings.sh_size, 65536));
    if (!names) return {};
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        const Elf64_Shdr candidate = section(i);
        if (candidate.sh_name >= names->size() || candidate.sh_type != SHT_PROGBITS) continue;
        if (std::string_view(names->c_str() + candidate.sh_name) == ".rodata")
            return {candidate.sh_offset, candidate.sh_size};
    }
    return {};
}

/// Searches a part of the file, a piece at a time, as far as the reader goes.
std::optional<std::string> search(BoundedReader& reader, const std::string& path, Range range,
                                  std::size_t piece_bytes) {
    std::string window;
    while (range.size > 0 && !reader.spent()) {
        const auto piece = reader.read_at(
            path, range.offset,
            static_cast<std::size_t>(std::min<std::uint64_t>(range.size, piece_bytes)));
        if (!piece || piece->empty()) return std::nullopt;
        window += *piece;
        if (auto version = nccl_version_in_text(window)) return version;
        if (window.size() > kOverlap) window.erase(0, window.size() - kOverlap);
        range.offset += piece->size();
        range.size -= piece->size();
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> nccl_version_in_text(std::string_view text) {
    for (std::size_t at = text.find(kPrefix); at != std::string_view::npos;
         at = text.find(kPrefix, at + 1))
        if (auto version = version_at(text.substr(at + kPrefix.size()))) return version;
    return std::nullopt;
}

std::optional<std::string> nccl_version_in_elf(BoundedReader& reader, const std::string& path,
                                               bool deep) {
    const auto header = read_struct<Elf64_Ehdr>(reader, path, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return std::nullopt;
    Range range = read_only_data(reader, path, *header);
    range.size = std::min<std::uint64_t>(range.size, kMostBytes);
    auto version = search(reader, path, range, kPieceBytes);
    if (version || !deep) return version;
    return search(reader, path, {0, kMostSearchedBytes}, kMostBytes);
}

}  // namespace toporun::detect
