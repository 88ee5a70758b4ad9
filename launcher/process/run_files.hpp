#pragma once

#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// The files of one run in its run directory. The directory is held open: what somebody puts in its
/// place later is not written to. Each member returns "" or, in one line, what could not be
/// written; nothing here throws, and a missing directory is no fault.
class RunFiles {
  public:
    explicit RunFiles(const std::string& run_directory);

    /// Marks the directory as this run's until its files are closed; what is wrong where another
    /// run is at work in it, whose report this one's would replace.
    std::string take();

    /// plan.toml: the choices, before the start.
    std::string write_plan(const RunFacts& facts);

    /// Copies NCCL's logs of up to two ranks out of the private directory.
    std::string keep_logs(const std::string& private_directory);

    /// Chooses the name of the report, once: another one where an earlier command of the job step
    /// has left its own, unless `again` says that what is there is this run's.
    void choose_name(bool again);

    /// report.txt and report.json of the only toporun of this run, under the chosen name. Sets
    /// facts.report_path to what was written.
    std::string write_report(RunFacts& facts, bool again);

    /// A file of the run directory, under that name alone.
    std::string write(const std::string& name, const std::string& text);
    /// The same where nothing of that name is there yet; sets `written`. One of many succeeds.
    std::string write_new(const std::string& name, const std::string& text, bool& written);
    /// At most `limit` bytes of a regular file; "" when it cannot be read.
    std::string read(const std::string& name, std::size_t limit) const;
    bool exists(const std::string& name) const;
    void remove(const std::string& name) const;
    const std::string& path() const { return path_; }
    /// What the directory holds, in no order.
    std::vector<std::string> names() const;

  private:
    std::string held() const;
    template <class Write>
    std::string guarded(Write&& write_to);

    std::string path_;  ///< for messages
    Descriptor directory_;
    std::string report_name_;
    std::string fault_;  ///< why the directory cannot be used, said at the first file
};

}  // namespace toporun::launcher
