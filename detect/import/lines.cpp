#include "detect/import/lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::detect {

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
        out.push_back(line.substr(at, end - at));
        at = end;
    }
    return out;
}

}  // namespace toporun::detect
