#pragma once

#include <string>

#include "base/descriptors.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// The files of one run in its run directory. The directory is held open: what somebody puts in its
/// place later is not written to. Each member returns "" or, in one line, what could not be
/// written; nothing here throws, and a missing directory is no fault.
class RunFiles {
  public:
    /// `node` tells apart the nodes and tasks that share the directory; "" = the only or first one,
    /// whose report is the run's.
    RunFiles(const std::string& run_directory, std::string node);

    /// plan.toml: the choices, before the start.
    std::string write_plan(const RunFacts& facts);

    /// Copies NCCL's logs of up to two ranks out of the private directory.
    std::string keep_logs(const std::string& private_directory);

    /// report.txt and report.json, or `node-<node>-<letters>` with these endings; another name
    /// where an earlier command of the job step has left its report, unless `again` says that it is
    /// this run's. Sets facts.report_path to what was written.
    std::string write_report(RunFacts& facts, bool again);

  private:
    std::string write(const std::string& name, const std::string& text);
    bool exists(const std::string& name) const;

    std::string path_;  ///< for messages
    Descriptor directory_;
    std::string fault_;  ///< why the directory cannot be used, said at the first file
    std::string node_;
};

}  // namespace toporun::launcher
