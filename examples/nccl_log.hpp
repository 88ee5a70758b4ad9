#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

#include "nccl_log_templates.hpp"

namespace ring_allreduce {

/// The value of an environment variable as NCCL takes it; "" when unset.
std::string environment(const char* name);

/// `text` with its placeholders replaced by `values`, in order.
std::string fill(std::string_view text, std::initializer_list<std::string> values);

/// "0x" and the number in hexadecimal.
std::string hex(std::uint64_t value);

/// Writes as NCCL 2.28 does, by NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE (%h, %p, %%): to
/// that file, or to standard output where the file cannot be made or none is named.
class Log {
  public:
    explicit Log(int device);
    ~Log();
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    void info(const LogTemplate& line, std::initializer_list<std::string> values = {});
    /// `source` is NCCL's file and line.
    void warn(const char* source, const LogTemplate& line);
    /// The version line, which levels VERSION and WARN print too, then without a prefix and on rank
    /// 0 only.
    void version(int rank);
    /// "NAME set by environment to VALUE" when it is.
    void variable(const char* name);

  private:
    std::string prefix() const;

    std::string host_;
    int device_;
    int level_;
    std::uint64_t mask_;
    std::FILE* out_ = stdout;
    bool own_file_ = false;
};

}  // namespace ring_allreduce
