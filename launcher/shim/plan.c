#include "plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kMaxPlanBytes = 1 << 20 };
static const char kHeader[] = "toporun-shim 1";

static bool test_pu(const struct pu_set* set, size_t pu) {
    return (set->words[pu / kWordBits] >> (pu % kWordBits) & 1) != 0;
}

static bool parse_pu(const char** text, size_t* pu) {
    if (**text < '0' || **text > '9') return false;
    size_t value = 0;
    while (**text >= '0' && **text <= '9') {
        value = value * 10 + (size_t)(*(*text)++ - '0');
        if (value >= kMaxPus) return false;
    }
    *pu = value;
    return true;
}

bool parse_pu_set(const char* list, struct pu_set* set) {
    memset(set, 0, sizeof *set);
    for (;;) {
        size_t first;
        if (!parse_pu(&list, &first)) return false;
        size_t last = first;
        if (*list == '-') {
            ++list;
            if (!parse_pu(&list, &last) || last < first) return false;
        }
        for (size_t pu = first; pu <= last; ++pu)
            set->words[pu / kWordBits] |= 1UL << (pu % kWordBits);
        if (*list == '\0') return true;
        if (*list++ != ',') return false;
    }
}

bool pu_set_empty(const struct pu_set* set) {
    const struct pu_set empty = {{0}};
    return pu_set_equal(set, &empty);
}

bool pu_set_equal(const struct pu_set* a, const struct pu_set* b) {
    return memcmp(a, b, sizeof *a) == 0;
}

struct pu_set pu_set_and(const struct pu_set* a, const struct pu_set* b) {
    struct pu_set both;
    for (size_t i = 0; i < kMaxPus / kWordBits; ++i) both.words[i] = a->words[i] & b->words[i];
    return both;
}

void print_pu_set(const struct pu_set* set, char* text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t pu = 0; pu < kMaxPus; ++pu) {
        if (!test_pu(set, pu)) continue;
        size_t last = pu;
        while (last + 1 < kMaxPus && test_pu(set, last + 1)) ++last;
        const char* comma = used > 0 ? "," : "";
        const int length = last == pu
                               ? snprintf(text + used, size - used, "%s%zu", comma, pu)
                               : snprintf(text + used, size - used, "%s%zu-%zu", comma, pu, last);
        if (length < 0 || (size_t)length >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)length;
        pu = last;
    }
}

/* Everything that `fd` holds, at most `limit` bytes, ended by NUL; NULL when that fails. */
static char* read_all(int fd, size_t limit, size_t* size) {
    char* text = malloc(limit + 1);
    if (text == NULL) return NULL;
    *size = 0;
    while (*size < limit) {
        const ssize_t got = read(fd, text + *size, limit - *size);
        if (got < 0) {
            free(text);
            return NULL;
        }
        if (got == 0) break;
        *size += (size_t)got;
    }
    text[*size] = '\0';
    return text;
}

struct shim_plan read_plan(const char* path) {
    struct shim_plan plan = {NULL, 0};
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return plan;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        (info.st_uid == geteuid() || info.st_uid == 0) && info.st_size <= kMaxPlanBytes)
        plan.text = read_all(fd, (size_t)info.st_size, &plan.size);
    close(fd);
    for (size_t i = 0; plan.text != NULL && i < plan.size; ++i)
        if (plan.text[i] == '\n') plan.text[i] = '\0';
    if (plan.text != NULL && strcmp(plan.text, kHeader) != 0) {
        free(plan.text);
        plan = (struct shim_plan){NULL, 0};
    }
    return plan;
}

char* next_line(const struct shim_plan* plan, const char* key, size_t* position) {
    const size_t length = strlen(key);
    while (*position < plan->size) {
        char* line = plan->text + *position;
        *position += strlen(line) + 1;
        if (strncmp(line, key, length) == 0 && line[length] == ' ') return line + length + 1;
    }
    return NULL;
}

const char* plan_value(const struct shim_plan* plan, const char* key) {
    size_t position = 0;
    const char* value = next_line(plan, key, &position);
    return value == NULL ? "" : value;
}
