#pragma once

#include <string>
#include <string_view>

namespace toporun::launcher {

/// Writes `text` to `path` whole or not at all: under a temporary name in the same directory, then
/// renamed. A link in the place of `path` is replaced, never followed. Permissions 0644 less the
/// umask. Throws Error with the system's reason; the temporary file is removed then.
void write_file(const std::string& path, std::string_view text);

/// The same where nothing of that name is there yet; false, with nothing changed, where something
/// is. Of many writers one succeeds, on NFS as well.
bool write_new_file(const std::string& path, std::string_view text);

}  // namespace toporun::launcher
