#ifndef TOPORUN_LAUNCHER_SHIM_VARIABLES_H_
#define TOPORUN_LAUNCHER_SHIM_VARIABLES_H_

#include <stdbool.h>
#include <stddef.h>

#include "rank.h"

/* An environment of our own, handed to execve: the process's own one is never changed. */
struct variables_list {
    char** entries; /* NAME=VALUE, ended by NULL; NULL = out of memory, then environ is used */
    size_t count;
    size_t capacity;
};

struct variables_list copy_environment(void);
bool has_variable(const struct variables_list* list, const char* name);
/* The value, NULL when it is not there. */
const char* find_variable(const struct variables_list* list, const char* name);
/* Without `name`, in the order of the rest. */
void remove_variable(struct variables_list* list, const char* name);
/* Appends NAME=VALUE; false when memory is out. `name` ends at its first blank or NUL. */
bool add_variable(struct variables_list* list, const char* name, const char* value);

/* `text` with {rank}, {local_rank}, {world_size}, {local_size}, {restart} filled in and \\ and \n
 * unescaped; NULL when memory is out. */
char* fill_in(const char* text, const struct rank* rank);

#endif
