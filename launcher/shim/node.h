#ifndef TOPORUN_LAUNCHER_SHIM_NODE_H_
#define TOPORUN_LAUNCHER_SHIM_NODE_H_

#include <stdbool.h>
#include <stddef.h>

#include "plan.h"
#include "rank.h"

/* What the command line of a shim says for a node that the launcher reaches by itself. */
enum { kMostTold = 48 };
struct node_request {
    const char* id;              /* of the job; NULL = no plan is made here */
    const char* told[kMostTold]; /* words for toporun on this node */
    size_t told_count;
};

/* The plan that was handed on, unless it is another host's; else this node's own. */
struct shim_plan choose_plan(const char* plan_path, const struct node_request* request);

#endif
