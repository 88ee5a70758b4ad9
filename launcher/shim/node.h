#ifndef TOPORUN_LAUNCHER_SHIM_NODE_H_
#define TOPORUN_LAUNCHER_SHIM_NODE_H_

#include <stdbool.h>
#include <stddef.h>

#include "rank.h"

/* What the command line of a shim says for a node that the launcher reaches by itself. */
enum { kMostTold = 48 };
struct node_request {
    const char* id;              /* of the job; NULL = no plan is made here */
    const char* told[kMostTold]; /* words for toporun on this node */
    size_t told_count;
};

/* The path of this node's plan, in `path`; false where there is none. The first shim of the job on
 * a node, the one that gets the lock, lets toporun make it; the others wait, ten seconds at most.
 */
bool find_node_plan(const struct node_request* request, const struct rank* rank, char* path,
                    size_t size);

#endif
