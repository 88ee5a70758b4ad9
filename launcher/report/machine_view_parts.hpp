#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detect/machine.hpp"

/// Sections of the view of a machine: a title line and indented lines, "" where nothing is known.
namespace toporun::launcher {

std::string gpu_section(const detect::Machine& machine);
std::string link_section(const detect::Machine& machine);
std::string network_section(const detect::Machine& machine);
std::string processor_section(const detect::Machine& machine);
std::string limit_section(const detect::Machine& machine);
std::string software_section(const detect::Machine& machine);

/// Names and values below each other; those without a value are left out.
std::string fact_lines(const std::vector<std::pair<std::string, std::string>>& facts);

/// `text` below `title`, "" without a text.
std::string titled(std::string_view title, const std::string& text);

inline constexpr std::size_t kViewWidth = 100;

}  // namespace toporun::launcher
