#pragma once

#include "detect/import/importer.hpp"

namespace toporun::detect {

/// The reading, with a note when the text ends within a line that was understood and whose last
/// word may go on: "mtu 150" of "mtu 1500".
Reading with_open_end(const Lines& lines, Reading reading);

/// `read` of an importer, with that note.
template <Reading (*read)(const Lines&)>
Reading read_to_open_end(const Lines& lines) {
    return with_open_end(lines, read(lines));
}

}  // namespace toporun::detect
