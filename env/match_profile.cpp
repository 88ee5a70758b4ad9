#include "env/match_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "env/match_nics.hpp"
#include "env/matrix.hpp"

namespace toporun::env {
namespace {

using detect::Gpu;
using detect::Machine;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

bool contains_one(const std::string& text, const Words& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return contains(text, part); });
}

bool is_word_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// As whole words: "B200" is in "NVIDIA B200", not in "NVIDIA GB200".
bool has_words(const std::string& text, const std::string& words) {
    for (std::size_t at = text.find(words); at != std::string::npos;
         at = text.find(words, at + 1)) {
        const std::size_t end = at + words.size();
        if ((at == 0 || !is_word_char(text[at - 1])) &&
            (end == text.size() || !is_word_char(text[end])))
            return true;
    }
    return false;
}

bool has_words_of_one(const std::string& text, const Words& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const std::string& words) { return has_words(text, words); });
}

bool starts_with_one(const std::string& text, const Words& starts) {
    return std::any_of(starts.begin(), starts.end(),
                       [&](const std::string& start) { return text.starts_with(start); });
}

Fit fit_of(bool holds) {
    return holds ? Fit::fits : Fit::differs;
}

std::string any_of_text(const Words& words) {
    return words.size() == 1 ? words.front() : "one of " + join(words, ", ");
}

/// Collects the conditions that a profile has; each is asked for only when it is there.
class Features {
  public:
    void text(const char* name, const std::string& wanted, const std::string& found, bool holds) {
        if (wanted.empty()) return;
        add(name, wanted, found, found.empty() ? Fit::unknown : fit_of(holds));
    }
    void words(const char* name, const Words& wanted, const std::string& found, bool holds) {
        if (!wanted.empty()) text(name, any_of_text(wanted), found, holds);
    }
    void add(std::string name, std::string wanted, std::string found, Fit fit) {
        list_.push_back({std::move(name), std::move(wanted), std::move(found), fit});
    }
    std::vector<Feature> take() { return std::move(list_); }

  private:
    std::vector<Feature> list_;
};

/// "8 x NVIDIA A100-SXM4-40GB", "4 x A, 4 x B"; "" without names.
std::string gpu_names_text(const Machine& machine) {
    std::vector<std::pair<std::string, int>> counts;
    for (const Gpu& gpu : machine.gpus) {
        const std::string& name = gpu.name.empty() ? gpu.pci_id : gpu.name;
        if (name.empty()) continue;
        const auto known = std::find_if(counts.begin(), counts.end(),
                                        [&](const auto& one) { return one.first == name; });
        if (known == counts.end())
            counts.emplace_back(name, 1);
        else
            ++known->second;
    }
    Words parts;
    for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
    return join(parts, ", ");
}

/// By name, and where no driver tells it by the ids on the bus.
Fit fit_of_gpu(const Gpu& gpu, const profiles::Match& match) {
    if (!gpu.name.empty()) {
        if (has_words_of_one(gpu.name, match.not_gpu_names)) return Fit::differs;
        if (!match.gpu_names.empty()) return fit_of(has_words_of_one(gpu.name, match.gpu_names));
    }
    if (match.gpu_ids.empty() || gpu.pci_id.empty())
        return match.gpu_names.empty() && match.gpu_ids.empty() && !gpu.name.empty() ? Fit::fits
                                                                                     : Fit::unknown;
    return fit_of(std::find(match.gpu_ids.begin(), match.gpu_ids.end(), gpu.pci_id) !=
                  match.gpu_ids.end());
}

void add_gpu_kind(const Machine& machine, const profiles::Match& match, Features& features) {
    if (match.gpu_names.empty() && match.gpu_ids.empty() && match.not_gpu_names.empty()) return;
    std::string wanted =
        match.gpu_names.empty() ? any_of_text(match.gpu_ids) : any_of_text(match.gpu_names);
    if (match.gpu_names.empty() && match.gpu_ids.empty()) wanted = "any";
    if (!match.not_gpu_names.empty()) wanted += " but not " + join(match.not_gpu_names, ", ");
    Fit fit = machine.gpus_known ? Fit::differs : Fit::unknown;
    if (!machine.gpus.empty()) {
        fit = Fit::fits;
        for (const Gpu& gpu : machine.gpus) {
            const Fit one = fit_of_gpu(gpu, match);
            if (one == Fit::differs || fit == Fit::fits) fit = one;
        }
    }
    std::string found = gpu_names_text(machine);
    if (found.empty() && machine.gpus_known && machine.gpus.empty()) found = "no GPU";
    features.add("gpu_names", std::move(wanted), std::move(found), fit);
}

void add_gpu_count(const Machine& machine, const profiles::Match& match, Features& features) {
    const int count = static_cast<int>(machine.gpus.size());
    const std::string found = machine.gpus_known ? std::to_string(count) : "";
    const auto add = [&](const char* name, const std::optional<int>& wanted, bool holds) {
        if (wanted) features.text(name, std::to_string(*wanted), found, holds);
    };
    add("gpu_count", match.gpu_count, count == match.gpu_count);
    add("gpu_count_min", match.gpu_count_min, count >= match.gpu_count_min.value_or(0));
    add("gpu_count_max", match.gpu_count_max, count <= match.gpu_count_max.value_or(0));
}

/// What joins the pairs, in the words of [match]; "" when the paths are not known.
struct Links {
    std::string text;
    int direct = 0;
    int refused = 0;  ///< joined by NVLink, over which the driver refuses P2P
    int pairs = 0;
    bool switches = false;

    bool fit(const std::string& wanted) const {
        const bool every = pairs > 0 && direct == pairs;
        if (wanted == "nvswitch") return every && switches;
        if (wanted == "all") return every;
        if (wanted == "none") return direct == 0 && refused == 0;
        return direct > 0 && !(every && switches);
    }
};

/// NVLink of their own joins the two, but the driver refuses P2P over it.
bool refused_nvlink(const Machine& machine, const PairMatrix& matrix, int a, int b) {
    return matrix.path(a, b) == detect::PathType::NVL && !matrix.mig(a, b) &&
           matrix.peer_access(a, b) == detect::PeerAccess::refused &&
           (machine.gpu_links.empty() || matrix.links(a, b) > 0);
}

Links links_of(const Machine& machine) {
    Links links;
    const PairMatrix matrix(machine);
    const int count = static_cast<int>(machine.gpus.size());
    if (!matrix.known() || count < 2) return links;
    links.switches = machine.nvswitch;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b)
            ++links.pairs, links.direct += matrix.direct_nvlink(a, b) ? 1 : 0,
                links.refused += refused_nvlink(machine, matrix, a, b) ? 1 : 0;
    links.text = links.direct == 0 && links.refused > 0
                     ? fmt::format("{} of {} pairs have NVLink, over which the driver refuses P2P",
                                   links.refused, links.pairs)
                 : links.direct == 0 ? "no pair has NVLink"
                 : links.direct < links.pairs
                     ? fmt::format("{} of {} pairs have NVLink", links.direct, links.pairs)
                 : links.switches ? "every pair has NVLink through switches"
                                  : "every pair has NVLink";
    return links;
}

/// "ok" or "refused" when every pair says the same, "mixed", "" when the driver said nothing.
std::string peer_access_of(const Machine& machine) {
    const PairMatrix matrix(machine);
    const int count = static_cast<int>(machine.gpus.size());
    int pairs = 0, ok = 0, refused = 0;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b) {
            const detect::PeerAccess access = matrix.peer_access(a, b);
            ++pairs;
            ok += access == detect::PeerAccess::ok ? 1 : 0;
            refused += access == detect::PeerAccess::refused ? 1 : 0;
        }
    if (pairs == 0 || ok + refused == 0) return "";
    return ok == pairs ? "ok" : refused == pairs ? "refused" : "mixed";
}

void add_plugins(const Machine& machine, const Words& wanted, Features& features) {
    if (wanted.empty()) return;
    Words makers;
    for (const detect::NcclPlugin& plugin : machine.software.nccl_plugin_files)
        if (!plugin.maker.empty()) makers.push_back(plugin.maker);
    const bool holds = std::any_of(makers.begin(), makers.end(), [&](const std::string& maker) {
        return std::find(wanted.begin(), wanted.end(), maker) != wanted.end();
    });
    features.add("plugins", any_of_text(wanted), makers.empty() ? "none" : join(makers, ", "),
                 fit_of(holds));
}

void add_files(const Machine& machine, const Words& wanted, Features& features) {
    if (wanted.empty()) return;
    Words files = machine.software.vendor_files;
    for (const Words* more : {&machine.software.conf_files, &machine.software.topology_files})
        files.insert(files.end(), more->begin(), more->end());
    const bool holds = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
        return contains_one(file, wanted);
    });
    features.add("files", any_of_text(wanted), files.empty() ? "none" : join(files, ", "),
                 fit_of(holds));
}

void add_identity(const Machine& machine, const profiles::Match& match, Features& features) {
    features.text("vendor", match.vendor, machine.vendor, contains(machine.vendor, match.vendor));
    features.words("products", match.products, machine.product,
                   starts_with_one(machine.product, match.products));
    features.text("asset_tag", match.asset_tag, machine.asset_tag,
                  machine.asset_tag == match.asset_tag);
    features.text("board", match.board, machine.board, contains(machine.board, match.board));
    if (!machine.instance_type.empty())
        features.words("instance_types", match.instance_types, machine.instance_type,
                       starts_with_one(machine.instance_type, match.instance_types));
}

/// Whether a cheap look already tells that the profile does not fit: most end here at every start.
bool is_ruled_out(const Machine& machine, const profiles::Match& match) {
    const int count = static_cast<int>(machine.gpus.size());
    if (match.gpu_count && count != *match.gpu_count) return true;
    if (count < match.gpu_count_min.value_or(0)) return true;
    if (!match.vendor.empty() && !contains(machine.vendor, match.vendor)) return true;
    if (!match.products.empty() && !starts_with_one(machine.product, match.products)) return true;
    if (machine.asset_tag != match.asset_tag && !match.asset_tag.empty()) return true;
    if (!match.kernel.empty() && !contains(machine.software.kernel, match.kernel)) return true;
    if (match.gpu_names.empty() && match.gpu_ids.empty()) return false;
    return machine.gpus.empty() || fit_of_gpu(machine.gpus.front(), match) != Fit::fits;
}

}  // namespace

std::string_view fit_text(Fit fit) {
    return fit == Fit::fits ? "fits" : fit == Fit::differs ? "differs" : "unknown";
}

std::vector<Feature> match_features(const Machine& machine, const profiles::Match& match) {
    Features features;
    const detect::Software& software = machine.software;
    add_identity(machine, match, features);
    add_gpu_kind(machine, match, features);
    add_gpu_count(machine, match, features);
    if (!match.links.empty()) {
        const Links links = links_of(machine);
        features.text("links", match.links, links.text, links.fit(match.links));
    }
    if (!match.peer_access.empty()) {
        const std::string access = peer_access_of(machine);
        if (match.peer_access == "not-ok")
            features.add("peer_access", "not ok", access.empty() ? "not told" : access,
                         fit_of(access != "ok"));
        else
            features.text("peer_access", match.peer_access, access, access == match.peer_access);
    }
    features.text("architecture", match.architecture, machine.cpu.architecture,
                  machine.cpu.architecture == match.architecture);
    features.text("kernel", match.kernel, software.kernel, contains(software.kernel, match.kernel));
    if (match.virtual_machine)
        features.add("virtual_machine", *match.virtual_machine ? "yes" : "no",
                     machine.virtual_machine ? "yes" : "no",
                     fit_of(machine.virtual_machine == *match.virtual_machine));
    features.text("container", match.container, software.container_kind,
                  software.container_kind == match.container);
    features.text("scheduler", match.scheduler, software.scheduler,
                  software.scheduler == match.scheduler);
    add_plugins(machine, match.plugins, features);
    add_files(machine, match.files, features);
    for (const profiles::NicSet& set : match.nics)
        features.add("nics", nic_set_text(set), found_nics_text(machine, set),
                     fit_of_nics(machine, set));
    return features.take();
}

bool matches(const Machine& machine, const profiles::Match& match) {
    if (is_ruled_out(machine, match)) return false;
    const std::vector<Feature> features = match_features(machine, match);
    return !features.empty() &&
           std::all_of(features.begin(), features.end(),
                       [](const Feature& feature) { return feature.fit == Fit::fits; });
}

std::string links_word(const Machine& machine) {
    const Links links = links_of(machine);
    if (links.pairs == 0) return "";
    if (links.direct == 0) return links.refused == 0 ? "none" : "";
    if (links.direct < links.pairs) return "nvlink";
    return links.switches ? "nvswitch" : "all";
}

std::string match_text(const std::vector<Feature>& features) {
    Words parts;
    for (const Feature& feature : features) {
        if (feature.name == "nics")
            parts.push_back(feature.found);
        else if (feature.name == "gpu_names" || feature.name == "links")
            parts.push_back(feature.found);
        else if (!feature.name.starts_with("gpu_count"))
            parts.push_back(fmt::format("{} {}", feature.name, feature.found));
    }
    // The names tell the number; without them it stands alone.
    for (const Feature& feature : features)
        if (parts.empty() && feature.name.starts_with("gpu_count"))
            parts.push_back(fmt::format("{} GPUs", feature.found));
    return join(parts, ", ");
}

std::vector<const profiles::Profile*> matching_profiles(
    const Machine& machine, const std::vector<profiles::Profile>& known) {
    using profiles::Layer;
    std::vector<const profiles::Profile*> found;
    for (const Layer layer : {Layer::command_line, Layer::user, Layer::site, Layer::built_in}) {
        const profiles::Profile* best = nullptr;
        for (const profiles::Profile& profile : known) {
            if (profile.layer != layer) continue;
            const bool replaced =
                std::any_of(known.begin(), known.end(), [&](const profiles::Profile& other) {
                    return other.layer > profile.layer && other.name == profile.name;
                });
            if (replaced || !matches(machine, profile.match)) continue;
            if (best == nullptr || specificity(profile.match) > specificity(best->match))
                best = &profile;
        }
        if (best != nullptr) found.push_back(best);
    }
    return found;
}

}  // namespace toporun::env
