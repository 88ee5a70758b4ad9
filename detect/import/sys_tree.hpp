#pragma once

#include <string>
#include <string_view>

#include "detect/machine.hpp"

/// Captures that are files of the system themselves: a copy of /sys (and /proc, /etc, /dev, as much
/// as there is) as a directory or as a tar archive of one. They go through the same detection as
/// this machine, with another root: what only a system call tells is unknown.
namespace toporun::detect {

/// Whether `bytes` begin like a tar archive, plain or packed (gzip, xz, zstd, bzip2). A packed file
/// counts whatever is in it: no text capture is packed.
bool is_tar(std::string_view bytes);

/// The machine whose /sys is `directory`/sys, or is `directory` itself (bus/pci, class/net,
/// devices/system or class/infiniband lie below it). Throws Error when it is neither, and for the
/// running machine's own. A sysfs under another name than "sys" is copied below
/// `temporary_directory` first.
Machine machine_from_tree(const std::string& directory,
                          const std::string& temporary_directory = "/tmp");

/// The machine whose /sys and other system files the archive holds, at its top or below leading
/// directories. `name` is the file name for messages. Plain tar (ustar, GNU, pax) and gzip; others
/// are an Error that says how to unpack them. Bounded in entries, bytes and depth; the files are
/// written to a private directory below `temporary_directory`, which is gone afterwards. Throws
/// Error for a damaged or hostile archive and for one without system files.
Machine machine_from_tar(std::string_view bytes, const std::string& name,
                         const std::string& temporary_directory = "/tmp");

}  // namespace toporun::detect
