#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "launcher/shim/plan_file.hpp"
#include "runner.hpp"

/// A node's plan, and toporun-shim started as a launcher starts it.
namespace toporun::tests {

inline const std::string kPath = "/usr/bin:/bin";

inline Variables open_mpi(int rank, int size) {
    return {{"PATH", kPath},
            {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
            {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
            {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(size)}};
}

inline Variables torchrun(int rank, int size) {
    return {{"PATH", kPath},
            {"TORCHELASTIC_RUN_ID", "none"},
            {"TORCHELASTIC_RESTART_COUNT", "2"},
            {"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(size)},
            {"LOCAL_RANK", std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", std::to_string(size)}};
}

/// A node directory with a plan; the records go to its file "ranks".
class Node {
  public:
    explicit Node(const std::string& lines, const std::string& start = "toporun-shim 1\n") {
        plan_ =
            directory_.write("plan", start + "records " + records_file() + "\n" + lines).string();
    }
    std::string records_file() const { return (directory_.path() / "ranks").string(); }
    std::string log_directory() const { return (directory_.path() / "log").string(); }
    const std::string& plan() const { return plan_; }
    Variables with(Variables variables) const {
        variables["TOPORUN_SHIM_PLAN"] = plan_;
        return variables;
    }
    std::vector<launcher::RankRecord> records() const {
        return std::filesystem::exists(records_file())
                   ? launcher::parse_rank_records(read_file(records_file()))
                   : std::vector<launcher::RankRecord>{};
    }
    launcher::RankRecord record() const {
        const std::vector<launcher::RankRecord> all = records();
        REQUIRE(all.size() == 1);
        return all[0];
    }

  private:
    TemporaryDirectory directory_;
    std::string plan_;
};

inline Start shim(std::vector<std::string> words, Variables variables,
                  const detect::CpuSet& mask = {}) {
    words.insert(words.begin(), binary("toporun-shim"));
    return {.argv = std::move(words), .variables = std::move(variables), .mask = mask};
}

inline launcher::RankRecord record_of(const Variables& variables, const std::string& lines = "") {
    const Node node(lines);
    CHECK(run(shim({"true"}, node.with(variables))).status == 0);
    return node.record();
}

inline std::string log_lines(const std::string& directory) {
    return "log NCCL_DEBUG INFO\nlog NCCL_DEBUG_SUBSYS INIT,ENV\nlog_directory " + directory +
           "\nlog NCCL_DEBUG_FILE " + directory + "/nccl.{rank}.{restart}.%h.%p.log\n";
}

inline std::string env_line(const Result& result, const std::string& name) {
    for (const std::string& line : split(result.out, '\n'))
        if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    return "(unset)";
}

}  // namespace toporun::tests
