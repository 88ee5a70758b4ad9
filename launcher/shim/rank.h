#ifndef TOPORUN_LAUNCHER_SHIM_RANK_H_
#define TOPORUN_LAUNCHER_SHIM_RANK_H_

#include <stdbool.h>

#include "plan.h"

/* The place of this process in the job, -1 = unknown. */
struct rank {
    const char* source; /* whose variables told it: torchrun, openmpi, ...; none */
    int rank;
    int world_size;
    int local_rank;
    int local_size;
    int restart;
    bool confident; /* the set is complete and agrees with itself */
};

/* Reads the variables that launchers give their workers. The set of the plan's launcher is looked
 * at first; one that an outer launcher left does not count. */
struct rank find_rank(const struct shim_plan* plan);

/* The non-negative integer that `text` holds, all of it, at most 9 digits; -1 for anything else. */
int to_count(const char* text);

#endif
