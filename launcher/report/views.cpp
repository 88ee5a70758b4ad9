#include "launcher/report/views.hpp"

#include <algorithm>

#include "env/filled_in.hpp"
#include "env/rank_count.hpp"

namespace toporun::launcher {

std::map<int, RankView> rank_views(const RunFacts& facts) {
    std::map<int, RankView> views;
    for (const LogRank& rank : facts.log.ranks) views[rank.rank].log = &rank;
    for (const RankRecord& record : facts.ranks) {
        if (!record.rank) continue;
        RankView& view = views[*record.rank];
        if (!view.record || view.record->restart <= record.restart) view.record = &record;
    }
    for (const profiler::RankInFlight& rank : facts.measured.ranks) {
        RankView& view = views[rank.key.rank];
        if (!view.measured || view.measured->key.restart <= rank.key.restart) view.measured = &rank;
    }
    return views;
}

std::vector<std::string> node_names(const RunFacts& facts) {
    std::vector<std::string> nodes = facts.log.nodes;
    const auto add = [&](const std::string& host) {
        const std::string name = host.substr(0, host.find('.'));  // as NCCL shortens it
        if (name.empty() || std::find(nodes.begin(), nodes.end(), name) != nodes.end()) return;
        nodes.push_back(name);
    };
    for (const RankRecord& record : facts.ranks) add(record.host);
    if (nodes.empty()) add(facts.machine.hostname);
    return nodes;
}

std::vector<std::string> interface_names(const LogSummary& log) {
    std::vector<std::string> names = log.bootstrap_interfaces;
    for (const std::string& name : log.data_interfaces) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
}

std::vector<std::string> filled_in_words(const std::vector<std::string>& typed,
                                         const std::vector<std::string>& launched) {
    std::vector<std::string> words;
    for (const std::string& word : launched)
        if (!word.ends_with("/toporun-shim")) words.push_back(word);
    const bool in_place = words.size() == typed.size();
    std::vector<std::string> changed;
    std::size_t next = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        // A word that was dropped does not come any more.
        const auto rest = words.begin() + static_cast<std::ptrdiff_t>(i);
        const auto dropped = [&] {
            return next + 1 < typed.size() && words[i] == typed[next + 1] &&
                   std::find(rest, words.end(), typed[next]) == words.end();
        };
        if (!in_place && next < typed.size() && words[i] != typed[next] && dropped()) ++next;
        const bool same = next < typed.size() && words[i] == typed[next];
        if (!same) changed.push_back(words[i]);
        if (same || in_place) ++next;
    }
    return changed;
}

std::vector<std::string> filled_in_variables(const env::Plan& plan) {
    const auto stands_for = [](const std::string& name) {
        const auto in = [&](const auto& names) {
            return std::find(names.begin(), names.end(), name) != names.end();
        };
        return name == env::kRankCountVariable || in(env::kRendezvousVariables) ||
               in(env::kRankVariables);
    };
    std::vector<std::string> words;
    for (const env::Setting& setting : plan.settings)
        if (setting.exported && setting.value && stands_for(setting.name))
            words.push_back(setting.name + "=" + *setting.value);
    return words;
}

}  // namespace toporun::launcher
