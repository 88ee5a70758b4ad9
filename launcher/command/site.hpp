#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "launcher/command/host.hpp"
#include "launcher/command/prefixes.hpp"

namespace toporun::launcher {

/// What a command that starts several processes is for toporun.
enum class Role {
    none,      ///< a program like any other
    launcher,  ///< its command line is read
    server,    ///< an inference server or a cluster's worker: starts its own processes here
    away,      ///< starts the job in another place, or is not read
};

/// A launcher's own words in a command line.
struct Site {
    Role role = Role::none;
    std::string kind;            ///< torchrun, mpi, srun, accelerate, ...
    std::size_t word = 0;        ///< the launcher, or the Python that runs it as a module
    std::size_t first = 0;       ///< the word behind the launcher's own words
    bool module = false;         ///< `python -m`
    std::string path;            ///< the file of `word`; "" = not found here
    bool reaches_hosts = false;  ///< whatever its options, it may start ranks on other hosts
    std::string own_path = {};   ///< as in Peeled: the prefix that finds programs by itself
};

/// The launcher that the words behind the prefixes name. `site.path` is looked up on this host.
Site find_site(std::span<const std::string> argv, const Peeled& peeled, const Host& host);

/// The same for words that no prefix stands in front of.
Site find_site(std::span<const std::string> argv, std::size_t word, const Host& host);

/// What the words at `word`, behind prefixes of their own, are for toporun. No host is asked.
Role role_of(std::span<const std::string> argv, std::size_t word);

}  // namespace toporun::launcher
