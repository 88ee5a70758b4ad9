#pragma once

#include "detect/import/importer.hpp"

/// One function per format, each defined in a file of its own.
namespace toporun::detect {}
