#pragma once

#include "launcher/command/options.hpp"

namespace toporun::launcher {

extern const OptionTable kOpenMpi4Options;  ///< orterun 4.0 and 4.1
extern const OptionTable kOpenMpi5Options;  ///< mpirun and prterun of Open MPI 5
extern const OptionTable kHydraOptions;     ///< MPICH and Intel MPI

}  // namespace toporun::launcher
