#pragma once

#include "detect/import/importer.hpp"

/// One function per format, each defined in a file of its own.
namespace toporun::detect {

Importer hwloc_xml_importer();

}  // namespace toporun::detect
