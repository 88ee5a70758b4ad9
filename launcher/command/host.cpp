#include "launcher/command/host.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "base/descriptors.hpp"
#include "base/helper_process.hpp"
#include "base/text.hpp"

namespace toporun::launcher {
namespace {

std::string numeric_address(const sockaddr* address) {
    const bool v4 = address->sa_family == AF_INET;
    if (!v4 && address->sa_family != AF_INET6) return {};
    std::array<char, NI_MAXHOST> text{};
    const auto length = static_cast<socklen_t>(v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
        return {};
    const std::string full = text.data();
    return full.substr(0, full.find('%'));
}

std::vector<std::string> look_up_names() {
    std::vector<std::string> names = {"localhost"};
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) names.emplace_back(name.data());
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return names;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr) continue;
        if (std::string text = numeric_address(entry->ifa_addr); !text.empty())
            names.push_back(std::move(text));
    }
    ::freeifaddrs(first);
    return names;
}

}  // namespace

SystemHost::SystemHost(const std::map<std::string, std::string>& environment) {
    const auto path = environment.find("PATH");
    path_ = split(path == environment.end() ? "/bin:/usr/bin" : path->second, ':');
}

std::string SystemHost::find_executable(const std::string& word) const {
    if (word.empty()) return {};
    if (word.find('/') != std::string::npos) return is_executable(word) ? word : "";
    for (const std::string& directory : path_) {
        const std::string candidate = (directory.empty() ? "." : directory) + "/" + word;
        if (is_executable(candidate)) return candidate;
    }
    return {};
}

bool SystemHost::is_executable(const std::string& path) const {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

std::optional<std::string> SystemHost::read_file(const std::string& path, std::size_t limit) const {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info = {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    std::string text(limit, '\0');
    std::size_t used = 0;
    while (used < limit) {
        const ssize_t got = ::read(file.get(), text.data() + used, limit - used);
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        used += static_cast<std::size_t>(got);
    }
    text.resize(used);
    return text;
}

std::string SystemHost::real_path(const std::string& path) const {
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return {};
    std::string text = resolved;
    std::free(resolved);
    return text;
}

std::vector<std::string> SystemHost::names() const {
    if (names_.empty()) names_ = look_up_names();
    return names_;
}

std::string SystemHost::version_text(const std::string& path) const {
    return run_program({path, "--version"}).bytes;
}

}  // namespace toporun::launcher
