#include "rank.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Innermost launcher first: under `srun torchrun` a worker carries both sets. */
struct variables {
    const char* source;
    const char* marker; /* the set counts only when this one is there */
    const char* rank;
    const char* world_size;
    const char* local_rank;
    const char* local_size; /* NULL: the launcher has no such variable */
};

static const struct variables kSets[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"env", "LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"hydra", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    /* A bare batch script has SLURM_PROCID=0 too, but no step. */
    {"horovod", "HOROVOD_RANK", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
     "HOROVOD_LOCAL_SIZE"},
    {"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"flux", "FLUX_TASK_RANK", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
    {"mvapich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
};
enum { kSetCount = sizeof(kSets) / sizeof(kSets[0]) };

int to_count(const char* text) {
    if (text == NULL || *text == '\0') return -1;
    int value = 0;
    for (int digits = 0; *text != '\0'; ++text, ++digits) {
        if (*text < '0' || *text > '9' || digits == 9) return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

static int variable(const char* name) {
    return name == NULL ? -1 : to_count(getenv(name));
}

/* Entry `node` of Slurm's run-length form, `3,1` or `8(x4),2`; -1 when it is not there. */
static int tasks_on_node(const char* list, int node) {
    if (list == NULL || node < 0) return -1;
    while (*list >= '0' && *list <= '9') {
        char* end;
        const long tasks = strtol(list, &end, 10);
        long repeat = 1;
        if (strncmp(end, "(x", 2) == 0) {
            repeat = strtol(end + 2, &end, 10);
            if (*end != ')') return -1;
            ++end;
        }
        if (node < repeat) return tasks > 0 && tasks < 1000000 ? (int)tasks : -1;
        if (*end != ',') return -1;
        node -= (int)repeat;
        list = end + 1;
    }
    return -1;
}

/* LOCAL_RANK is 0 everywhere under `torchrun --virtual-local-rank`: the ranks of a node are
 * consecutive, so the place follows from the rank. */
static int torchrun_local_rank(const struct rank* r) {
    const int node = variable("GROUP_RANK");
    if (r->local_rank != 0 || r->local_size <= 1 || node < 0 || r->rank < 0) return r->local_rank;
    const long long place = r->rank - (long long)node * r->local_size;
    return place > 0 && place < r->local_size ? (int)place : r->local_rank;
}

static bool agrees(const struct rank* r) {
    if (r->rank < 0 || r->local_rank < 0 || r->world_size < 1) return false;
    if (r->rank >= r->world_size || r->local_rank > r->rank) return false;
    return r->local_size < 0 || (r->local_rank < r->local_size && r->local_size <= r->world_size);
}

static struct rank read_set(const struct variables* set) {
    struct rank r = {.source = set->source,
                     .rank = variable(set->rank),
                     .world_size = variable(set->world_size),
                     .local_rank = variable(set->local_rank),
                     .local_size = variable(set->local_size)};
    if (strcmp(set->source, "srun") == 0) {
        const int step_tasks = variable("SLURM_STEP_NUM_TASKS");
        if (step_tasks > 0) r.world_size = step_tasks;
        r.local_size = tasks_on_node(getenv("SLURM_STEP_TASKS_PER_NODE"), variable("SLURM_NODEID"));
    }
    if (strcmp(set->source, "torchrun") == 0) r.local_rank = torchrun_local_rank(&r);
    if (strcmp(set->source, "env") == 0 && r.local_size < 0) r.local_size = variable("LOCAL_SIZE");
    r.confident = agrees(&r);
    return r;
}

static int restart_count(void) {
    const int torchrun = variable("TORCHELASTIC_RESTART_COUNT");
    if (torchrun >= 0) return torchrun;
    const int slurm = variable("SLURM_RESTART_COUNT");
    return slurm >= 0 ? slurm : 0;
}

/* The variable had this value before the launcher started: it is of an outer launcher. */
static bool is_inherited(const char* name, const struct shim_plan* plan) {
    const char* now = getenv(name);
    const size_t length = strlen(name);
    size_t position = 0;
    for (char* line; (line = next_line(plan, "inherited", &position)) != NULL;)
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strcmp(line + length + 1, now) == 0;
    return false;
}

struct rank find_rank(const struct shim_plan* plan) {
    const char* launcher = plan_value(plan, "launcher");
    struct rank found = {.source = "none", .rank = 0, .world_size = 1, .local_size = 1};
    bool any = false;
    /* Pass 0: the launcher's own set; pass 1: each set in order. The first that agrees wins. */
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = 0; i < kSetCount && !found.confident; ++i) {
            const bool own = strcmp(kSets[i].source, launcher) == 0;
            if (getenv(kSets[i].marker) == NULL || (pass == 0 && !own)) continue;
            if (!own && is_inherited(kSets[i].marker, plan)) continue;
            const struct rank candidate = read_set(&kSets[i]);
            if (candidate.confident || (!any && candidate.rank >= 0)) {
                found = candidate;
                any = true;
            }
        }
    }
    found.restart = restart_count();
    return found;
}
