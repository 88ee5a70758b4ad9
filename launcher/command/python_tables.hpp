#pragma once

#include "launcher/command/options.hpp"

namespace toporun::launcher {

extern const OptionTable kAccelerateOptions;  ///< accelerate launch 0.20 to 1.9
extern const OptionTable kDeepspeedOptions;   ///< deepspeed 0.9 to 0.17
extern const OptionTable kColossalaiOptions;  ///< colossalai run
extern const OptionTable kComposerOptions;    ///< composer
extern const OptionTable kFabricOptions;      ///< fabric run, lightning run model
extern const OptionTable kHorovodOptions;     ///< horovodrun 0.20 to 0.28
extern const OptionTable kFluxOptions;        ///< flux run
extern const OptionTable kJsrunOptions;       ///< jsrun of IBM CSM

}  // namespace toporun::launcher
