#include "launcher/cli/installed.hpp"

#include <unistd.h>

#include <filesystem>
#include <initializer_list>

namespace toporun::launcher {
namespace {

std::string first_usable(const std::filesystem::path& base,
                         std::initializer_list<const char*> directories, const char* name,
                         int mode) {
    for (const char* directory : directories) {
        const std::string path = (base / directory / name).lexically_normal().string();
        if (::access(path.c_str(), mode) == 0) return path;
    }
    return {};
}

}  // namespace

Installed find_installed() {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return {};
    const std::filesystem::path base = self.parent_path();
    return {first_usable(base, {"."}, "toporun-shim", X_OK),
            first_usable(base, {"."}, "toporun-python", X_OK),
            first_usable(base, {".", "../" TOPORUN_LIBDIR "/toporun"}, "libtoporun-nccl.so", R_OK),
            self.string()};
}

}  // namespace toporun::launcher
