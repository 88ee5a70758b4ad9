#pragma once

#include <string>

#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// The files of one run in its run directory. Each member returns "" or, in one line, what could
/// not be written; nothing here throws, and a missing directory is no fault.
class RunFiles {
  public:
    explicit RunFiles(std::string run_directory) : directory_(std::move(run_directory)) {}

    /// plan.toml: the choices, before the start.
    std::string write_plan(const RunFacts& facts);

    /// Copies NCCL's logs of up to two ranks out of the private directory.
    std::string keep_logs(const std::string& private_directory);

    /// report.txt and report.json; sets facts.report_path to what was written.
    std::string write_report(RunFacts& facts);

    /// Removes the directory again where the command never started.
    void discard();

  private:
    std::string write(const std::string& name, const std::string& text);
    std::string directory_;
};

}  // namespace toporun::launcher
