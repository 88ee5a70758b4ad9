#include "detect/software/account.hpp"

#include <pwd.h>
#include <unistd.h>

#include "base/text.hpp"

namespace toporun::detect {

std::string account_home(const Files& files) {
    const uid_t user = getuid();
    for (const std::string& line : split(files.read("/etc/passwd").value_or(""), '\n')) {
        const std::vector<std::string> fields = split(line, ':');
        if (fields.size() >= 7 && to_integer(fields[2]) == static_cast<long long>(user))
            return fields[5];
    }
    if (!files.real()) return {};
    const passwd* entry = getpwuid(user);
    return entry == nullptr || entry->pw_dir == nullptr ? std::string() : entry->pw_dir;
}

}  // namespace toporun::detect
