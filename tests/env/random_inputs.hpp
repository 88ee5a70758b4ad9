#pragma once

#include <random>
#include <string>
#include <vector>

#include "env/plan.hpp"

/// Jobs, environments and changes of machines from a generator with a fixed seed: equal on every
/// host.
namespace toporun::tests {

class Dice {
  public:
    explicit Dice(std::uint32_t seed) : engine_(seed) {}

    /// 0 to below - 1; the standard's distributions differ between libraries.
    std::size_t number(std::size_t below) { return below == 0 ? 0 : engine_() % below; }
    bool one_in(std::size_t chances) { return number(chances) == 0; }
    template <typename List>
    auto pick(const List& list) {
        return *(std::begin(list) + static_cast<std::ptrdiff_t>(number(std::size(list))));
    }

  private:
    std::mt19937 engine_;
};

struct Draw {
    detect::Machine machine;
    env::Job job;
    env::UserEnvironment user;
    env::Options options;
    std::vector<profiles::Measured> measured;
};

/// `machine` with another NCCL version and, one time in two, with other facts.
Draw draw(Dice& dice, detect::Machine machine);

/// What is needed to repeat the draw by hand.
std::string described(const Draw& draw);

}  // namespace toporun::tests
