#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "profiles/profile.hpp"

/// Of two profiles that fit one machine the closer one is used. docs/profiles.md: no two built-in
/// ones are equally close.
namespace {

using toporun::profiles::Match;
using toporun::profiles::NicSet;
using List = std::vector<std::string>;

constexpr int kMany = 1 << 20;

/// Both are given, and no entry of one begins an entry of the other.
bool differ(const List& a, const List& b) {
    return !a.empty() && !b.empty() && std::none_of(a.begin(), a.end(), [&](const std::string& x) {
        return std::any_of(b.begin(), b.end(), [&](const std::string& y) {
            return x.starts_with(y) || y.starts_with(x);
        });
    });
}

/// Likewise anywhere within: a GPU has one model.
bool differ_within(const List& a, const List& b) {
    return !a.empty() && !b.empty() && std::none_of(a.begin(), a.end(), [&](const std::string& x) {
        return std::any_of(b.begin(), b.end(), [&](const std::string& y) {
            return (" " + x + " ").find(" " + y + " ") != std::string::npos ||
                   (" " + y + " ").find(" " + x + " ") != std::string::npos;
        });
    });
}

bool differ(const std::string& a, const std::string& b) {
    return !a.empty() && !b.empty() && a != b;
}

/// Some number of GPUs with both values of `links`: every NVSwitch machine has links "all".
bool links_exclude(const std::string& a, const std::string& b) {
    return differ(a, b) && (a == "none" || b == "none" || (a != "all" && b != "all"));
}

bool counts_exclude(const std::optional<int>& a_least, const std::optional<int>& a_most,
                    const std::optional<int>& b_least, const std::optional<int>& b_most) {
    return a_least.value_or(0) > b_most.value_or(kMany) ||
           b_least.value_or(0) > a_most.value_or(kMany);
}

std::optional<int> either(const std::optional<int>& exact, const std::optional<int>& bound) {
    return exact ? exact : bound;
}

/// The same kind of adapter in numbers that do not meet.
bool nics_exclude(const NicSet& a, const NicSet& b) {
    return a.ids == b.ids && a.drivers == b.drivers && a.kinds == b.kinds && a.names == b.names &&
           a.rdma == b.rdma && a.speed_gbits == b.speed_gbits &&
           counts_exclude(either(a.count, a.count_min), either(a.count, a.count_max),
                          either(b.count, b.count_min), either(b.count, b.count_max));
}

/// No machine can fit both, by a condition that both have.
bool exclude(const Match& a, const Match& b) {
    if (differ(a.vendor, b.vendor) || differ(a.asset_tag, b.asset_tag)) return true;
    if (differ(a.architecture, b.architecture) || differ(a.peer_access, b.peer_access)) return true;
    if (differ(a.container, b.container) || differ(a.products, b.products)) return true;
    if (differ_within(a.gpu_names, b.gpu_names) || links_exclude(a.links, b.links)) return true;
    if (counts_exclude(either(a.gpu_count, a.gpu_count_min), either(a.gpu_count, a.gpu_count_max),
                       either(b.gpu_count, b.gpu_count_min), either(b.gpu_count, b.gpu_count_max)))
        return true;
    return std::any_of(a.nics.begin(), a.nics.end(), [&](const NicSet& x) {
        return std::any_of(b.nics.begin(), b.nics.end(),
                           [&](const NicSet& y) { return nics_exclude(x, y); });
    });
}

TEST_CASE("no two built-in profiles can fit one machine equally closely") {
    const auto known = toporun::profiles::builtin_profiles();
    int equal = 0;
    for (std::size_t i = 0; i < known.size(); ++i)
        for (std::size_t j = i + 1; j < known.size(); ++j) {
            if (specificity(known[i].match) != specificity(known[j].match)) continue;
            ++equal;
            CAPTURE(known[i].name);
            CAPTURE(known[j].name);
            CHECK(exclude(known[i].match, known[j].match));
        }
    CHECK(equal > 50);  // or the rule above proves nothing
}

TEST_CASE("kinds of evidence outweigh each other in the order of the documentation") {
    using Add = void (*)(Match&);
    const std::vector<Add> kinds = {
        [](Match& match) { match.products = {"p"}; }, [](Match& match) { match.vendor = "v"; },
        [](Match& match) { match.nics = {{}}; },      [](Match& match) { match.kernel = "k"; },
        [](Match& match) { match.gpu_count = 8; },    [](Match& match) { match.gpu_names = {"g"}; },
        [](Match& match) { match.links = "all"; }};
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        CAPTURE(kind);
        Match one, weaker;
        kinds[kind](one);
        for (std::size_t next = kind + 1; next < kinds.size(); ++next) kinds[next](weaker);
        CHECK(specificity(one) > specificity(weaker));
    }
}

}  // namespace
