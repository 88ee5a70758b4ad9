#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Archives as plain entries. Pure, and bounded for any input.
namespace toporun::detect {

enum class EntryKind { file, directory, link, device };

/// A file of an archive or of a tree.
struct TreeEntry {
    EntryKind kind = EntryKind::file;
    std::string path;       ///< relative, without "." and "..", without a slash at its ends
    std::string target;     ///< of a symbolic link, as written
    std::string_view data;  ///< of a file; lives as long as the archive's bytes
};

struct TarContents {
    std::vector<TreeEntry> entries;  ///< in the order of the archive; a path may come again
    std::vector<std::string> notes;  ///< what was passed over, or cut off
};

/// Reads a plain archive: ustar, GNU (long names, base-256 numbers), pax (path, linkpath, size) and
/// the form before POSIX. A hard link is a file with the data of its target. Sparse files and
/// volumes are passed over with a note; an archive that is cut off gives what came before. Throws
/// Error, with the byte, for a header that is none, a path out of the archive, and for more than
/// 500000 entries. `name` is the archive's for messages.
TarContents read_tar(std::string_view bytes, const std::string& name);

/// Whether the first block is the header of an archive: its checksum fits.
bool is_plain_tar(std::string_view bytes);

/// "gzip", "xz", "zstd", "bzip2", "lz4" by the first bytes, "" for anything else.
std::string_view packing_of(std::string_view bytes);

/// The bytes that a gzip file holds, at most `most_bytes`. Throws Error for more and for damaged
/// data; a file that is cut off gives what came before (`cut`).
struct Unpacked {
    std::string bytes;
    bool cut = false;
};
Unpacked gunzip(std::string_view packed, std::size_t most_bytes, const std::string& name);

}  // namespace toporun::detect
