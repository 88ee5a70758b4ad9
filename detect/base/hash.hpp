#pragma once

#include <cstdint>
#include <string_view>

namespace toporun {

/// FNV-1a, 64 bits: the same on every host, whatever its C++ library.
constexpr std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

}  // namespace toporun
