#include "env/interface_user.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/interface_choice.hpp"

namespace toporun::env {
namespace {

using detect::Nic;

std::string assignment(const std::string& value) {
    return fmt::format("{}={}", kSocketIfname, shell_word(value));
}

/// "eno1, eth0 (bridge)": what there is to name.
std::string available(const Inputs& inputs) {
    std::vector<std::string> parts;
    for (const Nic& nic : inputs.machine.nics) {
        if (nic.addresses.empty()) continue;
        const std::string flaw = flaw_for_job(inputs, nic);
        parts.push_back(flaw.empty() ? nic.name : fmt::format("{} ({})", nic.name, flaw));
    }
    return parts.empty() ? "none with an address" : join(parts, ", ");
}

Finding ignored(const Inputs& inputs, const std::string& value) {
    const bool empty = value.empty();
    return {empty ? "iface-empty" : "iface-one-letter",
            Severity::note,
            empty ? fmt::format("{} is set to nothing", kSocketIfname)
                  : fmt::format("{} is one character", assignment(value)),
            fmt::format("interfaces: {}", available(inputs)),
            "NCCL ignores it and searches by itself",
            empty ? fmt::format("unset {}", kSocketIfname)
                  : fmt::format("export {}={}", kSocketIfname, shell_word("=" + value)),
            ""};
}

Finding no_match(const Inputs& inputs, const std::string& value) {
    const std::string stripped = [&] {
        std::string out;
        for (const char c : value)
            if (c != ' ' && c != '\t') out += c;
        return out;
    }();
    Finding finding{"iface-no-match",
                    Severity::broken,
                    fmt::format("{} matches no interface of this host", assignment(value)),
                    fmt::format("available: {}", available(inputs)),
                    "NCCL stops with 'no socket interface found'",
                    fmt::format("unset {}", kSocketIfname),
                    "",
                    "or name one that exists"};
    if (stripped != value && !listed_search(inputs.machine, {}, parse_ifname(stripped)).empty()) {
        finding.fix = fmt::format("export {}", assignment(stripped));
        finding.remark = "without blanks";
    }
    return finding;
}

void entry_findings(const Inputs& inputs, const IfnameList& list, const std::string& value,
                    bool several, std::vector<Finding>& findings) {
    for (const std::string& entry : list.entries) {
        if (entry.find_first_of(" \t\r") != std::string::npos) {
            findings.push_back(
                {"iface-blank", Severity::slow,
                 fmt::format("{} has a blank in the entry '{}'", assignment(value), entry),
                 "NCCL takes blanks and line ends as part of the name", "the entry matches nothing",
                 "write the list without blanks", ""});
            continue;
        }
        if (list.exact || list.exclude || !several) continue;
        std::vector<std::string> others;
        bool whole = false;
        for (const Nic& nic : inputs.machine.nics) {
            if (nic.name == entry)
                whole = true;
            else if (nic.name.starts_with(entry) && !nic.addresses.empty())
                others.push_back(nic.name);
        }
        if (whole && !others.empty())
            findings.push_back({"iface-prefix", Severity::slow,
                                fmt::format("{}: {} is a prefix and also takes {}",
                                            assignment(value), entry, join(others, ", ")),
                                "names match by prefix unless the list starts with =",
                                "NET/Socket spreads the data over all of them",
                                fmt::format("export {}={}", kSocketIfname, shell_word("=" + entry)),
                                ""});
    }
}

/// Interfaces among the matches that do not reach other nodes.
void match_findings(const Inputs& inputs, const std::vector<int>& matched, const std::string& value,
                    bool excludes, std::vector<Finding>& findings) {
    std::vector<std::string> bad;
    bool lo = false;
    for (const int position : matched) {
        const Nic& nic = nic_at(inputs, position);
        const std::string flaw = flaw_for_job(inputs, nic);
        if (flaw == "loopback")
            lo = true;
        else if (!flaw.empty())
            bad.push_back(fmt::format("{} ({})", nic.name, flaw));
    }
    const std::string fix = excludes
                                ? "name the wanted interface instead: an exclusion list leaves "
                                  "nothing else out, not even lo"
                                : "name an interface that the other nodes reach";
    if (lo) {
        const bool first =
            interface_flaw(inputs.machine, nic_at(inputs, matched.front())) == "loopback";
        findings.push_back({"iface-loopback", first ? Severity::broken : Severity::slow,
                            fmt::format("{} selects lo, the loopback interface", assignment(value)),
                            fmt::format("interfaces: {}", available(inputs)),
                            first ? "other nodes are told to connect to 127.0.0.1"
                                  : "part of the data would go to 127.0.0.1",
                            fix, ""});
    }
    if (!bad.empty())
        findings.push_back({"iface-unreachable", Severity::slow,
                            fmt::format("{} selects {}", assignment(value), join(bad, ", ")),
                            fmt::format("interfaces: {}", available(inputs)),
                            "other nodes may not reach it", fix, ""});
}

}  // namespace

std::vector<Finding> interface_user_findings(const Inputs& inputs, const Span& span,
                                             const SearchContext& context, const Setting& wanted) {
    std::vector<Finding> findings;
    const auto value = user_value(inputs, kSocketIfname);
    if (!value) return findings;
    const IfnameList list = parse_ifname(*value);
    if (list.ignored) {
        findings.push_back(ignored(inputs, *value));
        return findings;
    }
    const std::vector<int> matched = listed_search(inputs.machine, context, list);
    entry_findings(inputs, list, *value, span.several, findings);
    if (matched.empty()) {
        findings.push_back(no_match(inputs, *value));
        return findings;
    }
    if (!span.several) return findings;
    match_findings(inputs, matched, *value, list.exclude, findings);
    if (!findings.empty() || !wanted.value) return findings;
    const std::vector<int> own =
        listed_search(inputs.machine, context, parse_ifname(*wanted.value));
    const bool narrower = std::all_of(matched.begin(), matched.end(), [&](int position) {
        return std::find(own.begin(), own.end(), position) != own.end();
    });
    if (!narrower)
        findings.push_back({"iface-differs", Severity::note,
                            fmt::format("{} is kept; toporun would have taken {}",
                                        assignment(*value), *wanted.value),
                            wanted.reason, "the other interfaces carry the traffic",
                            "compare both if the network is slow", ""});
    return findings;
}

}  // namespace toporun::env
