#include "launcher/process/read_bounded.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/descriptors.hpp"

namespace toporun::launcher {

std::string read_bounded(const std::filesystem::path& path, std::size_t limit) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
    limit = std::min(limit, static_cast<std::size_t>(info.st_size));
    std::string text(limit, '\0');
    std::size_t used = 0;
    for (ssize_t got;
         used < limit && (got = ::read(file.get(), text.data() + used, limit - used)) > 0;)
        used += static_cast<std::size_t>(got);
    text.resize(used);
    return text;
}

}  // namespace toporun::launcher
