#include "detect/import/import.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "detect/import/importer.hpp"

namespace toporun::detect {

std::span<const Importer> importers() {
    return {};
}

std::vector<std::string> capture_formats() {
    std::vector<std::string> names;
    for (const Importer& importer : importers()) names.emplace_back(importer.format);
    return names;
}

Machine import_captures(std::span<const Capture> captures) {
    Machine machine;
    for (const Capture& capture : captures)
        throw Error("the format is not known", capture.name + ":1:1",
                    "formats: " + join(capture_formats(), ", "));
    return machine;
}

}  // namespace toporun::detect
