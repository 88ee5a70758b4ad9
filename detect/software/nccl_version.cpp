#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "detect/software/nccl_library.hpp"

namespace toporun::detect {
namespace {

constexpr std::string_view kPrefix = "NCCL version ";
constexpr std::size_t kOverlap = 64;  ///< longer than the longest version text
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
std::optional<Struct> read_struct(const Files& files, const std::string& path,
                                  std::uint64_t offset) {
    const auto bytes = files.read_at(path, offset, sizeof(Struct));
    if (!bytes || bytes->size() != sizeof(Struct)) return std::nullopt;
    Struct value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
}

struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = kMostBytes;
};

/// Where .rodata lies in the file; the file's beginning when the section table is gone.
Range read_only_data(const Files& files, const std::string& path, const Elf64_Ehdr& header) {
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections ||
        header.e_shstrndx >= header.e_shnum)
        return {};
    const auto table = files.read_at(path, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
    if (!table || table->size() != header.e_shnum * sizeof(Elf64_Shdr)) return {};
    const auto section = [&](std::size_t index) {
        Elf64_Shdr value;
        std::memcpy(&value, table->data() + index * sizeof value, sizeof value);
        return value;
    };
    const Elf64_Shdr strings = section(header.e_shstrndx);
    const auto names =
        files.read_at(path, strings.sh_offset, std::min<std::uint64_t>(strings.sh_size, 65536));
    if (!names) return {};
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        const Elf64_Shdr candidate = section(i);
        if (candidate.sh_name >= names->size() || candidate.sh_type != SHT_PROGBITS) continue;
        if (std::string_view(names->c_str() + candidate.sh_name) == ".rodata")
            return {candidate.sh_offset, std::min<std::uint64_t>(candidate.sh_size, kMostBytes)};
    }
    return {};
}

/// Searches the whole file, a MiB at a time.
std::optional<std::string> search_whole(const Files& files, const std::string& path) {
    std::string window;
    for (std::uint64_t offset = 0;; offset += kMostBytes) {
        const auto part = files.read_at(path, offset, kMostBytes);
        if (!part || part->empty()) return std::nullopt;
        window += *part;
        if (auto version = nccl_version_in_text(window)) return version;
        if (window.size() > kOverlap) window.erase(0, window.size() - kOverlap);
    }
}

}  // namespace

std::optional<std::string> nccl_version_in_text(std::string_view text) {
    for (std::size_t at = text.find(kPrefix); at != std::string_view::npos;
         at = text.find(kPrefix, at + 1))
        if (auto version = version_at(text.substr(at + kPrefix.size()))) return version;
    return std::nullopt;
}

std::optional<std::string> nccl_version_in_elf(const Files& files, const std::string& path,
                                               bool deep) {
    const auto header = read_struct<Elf64_Ehdr>(files, path, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return std::nullopt;
    const Range range = read_only_data(files, path, *header);
    const auto bytes = files.read_at(path, range.offset, static_cast<std::size_t>(range.size));
    auto version = nccl_version_in_text(bytes.value_or(""));
    return version || !deep ? version : search_whole(files, path);
}

}  // namespace toporun::detect
