#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failures/anchors.hpp"
#include "launcher/failures/pattern.hpp"

namespace toporun {
class TomlTable;
}

/// What is known of failures: classes of causes and the lines by which programs tell of them, read
/// from the .toml files of this directory, which are compiled in.
namespace toporun::launcher::failures {

/// What a line says about the cause, the strongest first: the lowest role that has an event names
/// the cause, and only among its events does order count.
enum class Role {
    outside,      ///< evidence of the kernel, the scheduler or a device, bound to a rank or node
    external,     ///< somebody ended the run: as strong where nothing had failed before
    cause,        ///< the rank's own account of what went wrong
    hint,         ///< a launcher's account: exit status, signal
    lag,          ///< who did not come: counters, missing ranks, closed connections by name
    ambiguous,    ///< time-outs and errors that may be cause or effect
    consequence,  ///< a peer went away
    teardown,     ///< what follows when a job is ended
    noise,
};
std::string_view role_text(Role role);

/// A class of first causes.
struct Class {
    std::string id;        ///< "host-oom-kill"
    std::string severity;  ///< user, config, resource, transient, node, external, unknown
    std::string title;     ///< "the kernel killed the process for want of memory"
    std::vector<std::string> advice;  ///< what to do, one to three steps
};

/// A line that some program prints.
struct KnownLine {
    Pattern pattern;
    std::string id;             ///< for lines that the engine treats apart, else ""
    const Class* of = nullptr;  ///< null: the captures or later lines decide
    Role role = Role::noise;
    std::string adds;    ///< its captures belong to the latest event of the line of that id
    std::string says;    ///< in other words, "" for the line itself
    std::string advice;  ///< before that of the class, "" for none
    std::string source;
    bool of_nccl = false;            ///< the only ones that count in records of NCCL's log
    bool general = false;            ///< what stands beside it tells more
    std::vector<std::int64_t> only;  ///< values of xid or status for which it counts; empty: all
};

/// A line that tells of a fault in a run that goes on.
struct KnownFinding {
    std::vector<Pattern> patterns;
    std::string id;
    std::string severity;  ///< broken, slow, note
    std::string what;      ///< with `{name}` for captures
    std::string effect;
    std::string fix;
};

/// Read once; throws Error with the place when a file is at fault (a test reads them all).
class Catalogue {
  public:
    static const Catalogue& builtin();
    /// For tests: `files` are pairs of name and text, classes before the lines that use them.
    explicit Catalogue(const std::vector<std::pair<std::string_view, std::string_view>>& files);
    Catalogue(const Catalogue&) = delete;
    Catalogue& operator=(const Catalogue&) = delete;

    const Class* find_class(std::string_view id) const;
    const std::vector<KnownLine>& lines() const { return lines_; }
    const std::vector<Class>& classes() const { return classes_; }
    const PatternFilter& filter() const { return filter_; }
    const std::vector<KnownFinding>& findings() const { return findings_; }
    const PatternFilter& finding_filter() const { return finding_filter_; }
    /// A line without any of them matches nothing of the catalogue.
    const Anchors& anchors() const { return anchors_; }
    /// But for the lines that are shorter than an anchor: `Killed`.
    bool is_short_line(std::string_view line) const {
        return line.size() < Anchors::kBytes && short_lines_.contains(line);
    }
    /// Whether one of them stands at the end of `line`, behind a label.
    bool ends_in_short_line(std::string_view line) const;

    struct Match {
        const KnownLine* line = nullptr;
        Captures captures;
    };
    /// The known line that counts in `message`: of several the one that demotes (a consequence that
    /// is quoted), else the strongest role, else the first of the files. `candidates` come from
    /// filter().
    std::optional<Match> match(std::string_view message,
                               const std::vector<std::uint16_t>& candidates,
                               bool nccl_record = false) const;

  private:
    void add_finding(TomlTable& row);

    std::vector<Class> classes_;
    std::vector<KnownLine> lines_;
    PatternFilter filter_;
    std::vector<KnownFinding> findings_;
    PatternFilter finding_filter_;  ///< by position in findings_
    Anchors anchors_;
    std::set<std::string, std::less<>> short_lines_;
};

}  // namespace toporun::launcher::failures
