#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detect/files.hpp"

namespace toporun::detect {

/// One `NAME=VALUE` line of an NCCL configuration file, verbatim as NCCL takes it.
struct ConfValue {
    std::string name;
    std::string value;
    std::string where;  ///< file:line
};

/// The values in `text` by NCCL's own rules (blanks and quotes kept, first entry of a name wins,
/// `#` in column 0 is a comment; NCCL src/misc/param.cc).
std::vector<ConfValue> parse_nccl_conf(std::string_view text, std::string_view file);

/// The files NCCL would look for, strongest first: `named` (NCCL_CONF_FILE, "" unset), else
/// ~/.nccl.conf by the password database; then /etc/nccl.conf.
std::vector<std::string> nccl_conf_paths(const Files& files, const std::string& named);

/// The values NCCL would take from its files, in order of precedence: NCCL_CONF_FILE, else
/// ~/.nccl.conf (home of the password database), then /etc/nccl.conf; a name once.
/// `root` is put before each path ("" for this machine); a missing file is no fault.
std::vector<ConfValue> read_nccl_conf(const std::string& root,
                                      const std::map<std::string, std::string>& environment);

}  // namespace toporun::detect
