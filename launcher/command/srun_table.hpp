#pragma once

#include "launcher/command/options.hpp"

namespace toporun::launcher {

extern const OptionTable kSrunTable;  ///< srun of Slurm 22.05 to 25.05

}  // namespace toporun::launcher
