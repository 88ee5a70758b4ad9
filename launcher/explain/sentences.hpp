#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/failures/pattern.hpp"

/// What the lines of a log mean in plain words, for `toporun report --explain`.
namespace toporun::launcher::explain {

/// A sentence with `{name}` for what a line says.
struct Sentence {
    std::string form;  ///< "connection.p2p"; "text" for lines that are known by their text only
    std::string says;
    std::string todo;    ///< what to do, "" for nothing
    std::string source;  ///< where the line comes from
};

/// What a line says, by the names of its Sentence.
using Values = std::map<std::string, std::string, std::less<>>;

/// `text` with each `{name}` of `values` filled in; others stay.
std::string filled_in(std::string_view text, const Values& values);

/// All sentences, from the .toml files of this directory, which are compiled in.
class Sentences {
  public:
    /// Throws Error with the place when a file is at fault (a test reads them).
    static const Sentences& builtin();

    /// Null when there is none of that form.
    const Sentence* find(std::string_view form) const;
    const std::map<std::string, Sentence, std::less<>>& events() const { return events_; }

    struct Match {
        const Sentence* sentence = nullptr;
        std::string says;  ///< filled in
    };
    /// A message of NCCL's by its text.
    std::optional<Match> match(std::string_view message) const;

  private:
    Sentences();

    std::map<std::string, Sentence, std::less<>> events_;
    std::vector<std::pair<failures::Pattern, Sentence>> texts_;
    failures::PatternFilter filter_;
};

}  // namespace toporun::launcher::explain
