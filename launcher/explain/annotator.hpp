#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/explain/sentences.hpp"
#include "launcher/failures/catalogue.hpp"
#include "launcher/failures/verdict.hpp"
#include "launcher/log/model.hpp"

namespace toporun::launcher::explain {

/// What one line means. Texts hold what the line says as it is: whoever prints them makes them
/// printable.
struct Annotation {
    std::string kind;  ///< "connection", "failure", ...; "" when nothing is known of it
    std::string says;  ///< a sentence
    std::vector<std::string> todo;  ///< what to do; each advice once for a whole log
    std::optional<int> rank;        ///< of the process that wrote it
};

/// Explains a log line by line, in bounded memory.
class Annotator {
  public:
    explicit Annotator(const failures::Catalogue& catalogue = failures::Catalogue::builtin());

    /// Which process is which rank, as the whole log says: of lines before the one that says it.
    void know(const std::vector<LogRank>& ranks);

    /// The first cause, as the whole log tells it: the line at its place is told as that.
    void know(const failures::Verdict& first_cause) { first_cause_ = first_cause; }

    /// `place`: "job.log:17", "" where it does not matter.
    Annotation annotate(std::string_view line, std::string_view place = {});

  private:
    using ProcessKey = std::pair<std::string, std::int64_t>;
    struct Process {
        int rank = 0;
        int ranks = 0;  ///< of the communicator
        std::optional<int> gpu;
    };

    void learn(const detect::nccl_log::Line& line);
    const Process* process_of(const detect::nccl_log::Record& record) const;
    Annotation event(const detect::nccl_log::Line& line) const;
    bool add_failure(std::string_view line, const detect::nccl_log::Line& nccl, Annotation& out);
    void add_first_cause(Annotation& out) const;
    bool add_finding(std::string_view text, Annotation& out);

    const failures::Catalogue& catalogue_;
    const Sentences& sentences_ = Sentences::builtin();
    std::map<ProcessKey, Process> processes_;
    std::optional<failures::Verdict> first_cause_;
    std::set<const void*> advised_;  ///< rows of the catalogue
    std::set<std::string> told_;     ///< advice of Sentences
    std::vector<std::uint16_t> candidates_;
    std::string plain_, store_;
};

}  // namespace toporun::launcher::explain
