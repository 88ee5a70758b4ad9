#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// What is fuzzed. libFuzzer runs a target on inputs that it makes up, a unit test on those that
/// once were wrong.
namespace toporun::fuzz {

struct Target {
    std::string name;  ///< as in file names: "hwloc-xml"
    std::function<void(std::string_view)> run;
};

/// One per importer, named by its format, then those that are no importer. Each takes any input,
/// throws toporun::Error for none, and throws Broken when what was read contradicts itself.
const std::vector<Target>& targets();

/// nullptr when there is none of that name.
const Target* find_target(std::string_view name);

/// A property of every machine that is read is violated.
class Broken : public std::exception {
  public:
    explicit Broken(std::string what) : what_(std::move(what)) {}
    const char* what() const noexcept override { return what_.c_str(); }

  private:
    std::string what_;
};

}  // namespace toporun::fuzz
