#pragma once

#include <stdexcept>
#include <string>

namespace toporun {

/// The one exception type: what is wrong, where, and what to do about it. Thrown where the user can
/// act, caught once in main, which prints `toporun: error: WHAT (WHERE)` and `  hint: HINT`.
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& what, std::string where = {}, std::string hint = {})
        : std::runtime_error(what), where_(std::move(where)), hint_(std::move(hint)) {}

    const std::string& where() const { return where_; }  ///< a file:line:column, may be empty
    const std::string& hint() const { return hint_; }    ///< the next step, may be empty

  private:
    std::string where_;
    std::string hint_;
};

}  // namespace toporun
