#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace toporun::detect {

/// Calls `visit` with each path in the loader's cache (/etc/ld.so.cache) whose last part starts
/// with `name`. The cache holds paths as C strings; nothing else of its format matters here.
template <class Visit>
void each_in_loader_cache(std::string_view cache, std::string_view name, const Visit& visit) {
    const std::string wanted = "/" + std::string(name);
    for (std::size_t at = cache.find(wanted); at != std::string_view::npos;
         at = cache.find(wanted, at + 1)) {
        const std::size_t before = cache.rfind('\0', at);
        const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
        const std::size_t end = std::min(cache.find('\0', at), cache.size());
        const std::string_view path = cache.substr(begin, end - begin);
        if (path.starts_with('/') && path.find('/', at - begin + 1) == std::string_view::npos)
            visit(std::string(path));
    }
}

}  // namespace toporun::detect
