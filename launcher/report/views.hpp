#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/report/run_facts.hpp"

/// Facts of a run from several sources, put side by side. Pointers point into the facts.
namespace toporun::launcher {

/// One rank, from whoever knows something of it. Of several restarts the last.
struct RankView {
    const LogRank* log = nullptr;
    const RankRecord* record = nullptr;
    const profiler::RankInFlight* measured = nullptr;
};
std::map<int, RankView> rank_views(const RunFacts& facts);

/// Short host names of the nodes that are known to have taken part, this one when no other is.
std::vector<std::string> node_names(const RunFacts& facts);

/// Interfaces of bootstrap and data, each once.
std::vector<std::string> interface_names(const LogSummary& log);

/// Words of `launched` that were not typed, the rank shim left out: those in which a number of
/// loader workers was filled in, or, where there are more words, those that were added.
std::vector<std::string> filled_in_words(const std::vector<std::string>& typed,
                                         const std::vector<std::string>& launched);

/// "NAME=VALUE" of each variable that stands for what was left out of the launch; {rank} and the
/// like are filled in for each rank.
std::vector<std::string> filled_in_variables(const env::Plan& plan);

}  // namespace toporun::launcher
