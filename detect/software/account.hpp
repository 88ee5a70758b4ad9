#pragma once

#include <string>

#include "detect/files.hpp"

namespace toporun::detect {

/// Home directory of this user in the password database, whatever $HOME says; "" when there is
/// none. /etc/passwd is asked first: a directory service may be slow. Below a root of its own only
/// /etc/passwd counts.
std::string account_home(const Files& files);

}  // namespace toporun::detect
