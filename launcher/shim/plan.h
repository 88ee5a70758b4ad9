#ifndef TOPORUN_LAUNCHER_SHIM_PLAN_H_
#define TOPORUN_LAUNCHER_SHIM_PLAN_H_

#include <stdbool.h>
#include <stddef.h>

/* PUs by OS index, in the form that sched_setaffinity takes. 8192 is the limit of the kernel's own
 * default configuration (CONFIG_NR_CPUS with MAXSMP). */
enum { kMaxPus = 8192, kWordBits = 8 * sizeof(unsigned long) };
struct pu_set {
    unsigned long words[kMaxPus / kWordBits];
};

/* Reads "0-3,8"; false for anything else, an empty list included. */
bool parse_pu_set(const char* list, struct pu_set* set);
bool pu_set_empty(const struct pu_set* set);
bool pu_set_equal(const struct pu_set* a, const struct pu_set* b);
struct pu_set pu_set_and(const struct pu_set* a, const struct pu_set* b);
/* Writes the list form, cut at `size`. */
void print_pu_set(const struct pu_set* set, char* text, size_t size);

/* The node's plan: lines `KEY REST`, ended by NUL each. */
struct shim_plan {
    char* text; /* NULL = no plan */
    size_t size;
};

/* Reads the file, at most 1 MiB of it; no plan for anything but a regular file of this user or root
 * that begins with the line "toporun-shim 1". */
struct shim_plan read_plan(const char* path);

/* The rest of the next line with `key` after `*position`, NULL when there is none. Start with 0. */
char* next_line(const struct shim_plan* plan, const char* key, size_t* position);
/* The rest of the first line with `key`; "" when there is none. */
const char* plan_value(const struct shim_plan* plan, const char* key);

#endif
