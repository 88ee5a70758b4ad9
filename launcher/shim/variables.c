#include "variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t name_length(const char* name) {
    return strcspn(name, " =");
}

static bool is_entry_of(const char* entry, const char* name) {
    const size_t length = name_length(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

struct variables_list copy_environment(void) {
    struct variables_list list = {NULL, 0, 0};
    while (environ != NULL && environ[list.count] != NULL) ++list.count;
    list.capacity = list.count + 16;
    list.entries = calloc(list.capacity + 1, sizeof *list.entries);
    if (list.entries != NULL && list.count > 0)
        memcpy(list.entries, environ, list.count * sizeof *list.entries);
    return list;
}

const char* find_variable(const struct variables_list* list, const char* name) {
    for (size_t i = 0; i < list->count; ++i)
        if (is_entry_of(list->entries[i], name)) return list->entries[i] + name_length(name) + 1;
    return NULL;
}

bool has_variable(const struct variables_list* list, const char* name) {
    return find_variable(list, name) != NULL;
}

void remove_variable(struct variables_list* list, const char* name) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; ++i)
        if (!is_entry_of(list->entries[i], name)) list->entries[kept++] = list->entries[i];
    list->count = kept;
    list->entries[kept] = NULL;
}

static bool reserve_one(struct variables_list* list) {
    if (list->count < list->capacity) return true;
    const size_t capacity = list->capacity * 2;
    char** entries = realloc(list->entries, (capacity + 1) * sizeof *entries);
    if (entries == NULL) return false;
    list->entries = entries;
    list->capacity = capacity;
    return true;
}

bool add_variable(struct variables_list* list, const char* name, const char* value) {
    const size_t length = name_length(name);
    const size_t value_size = strlen(value) + 1;
    char* entry = malloc(length + 1 + value_size);
    if (entry == NULL || !reserve_one(list)) {
        free(entry);
        return false;
    }
    memcpy(entry, name, length);
    entry[length] = '=';
    memcpy(entry + length + 1, value, value_size);
    list->entries[list->count++] = entry;
    list->entries[list->count] = NULL;
    return true;
}

struct placeholder {
    const char* text;
    int value;
};

char* fill_in(const char* text, const struct rank* rank) {
    const struct placeholder kinds[] = {
        {"{rank}", rank->rank < 0 ? 0 : rank->rank},
        {"{local_rank}", rank->local_rank < 0 ? 0 : rank->local_rank},
        {"{world_size}", rank->world_size < 1 ? 1 : rank->world_size},
        {"{local_size}", rank->local_size < 1 ? 1 : rank->local_size},
        {"{restart}", rank->restart}};
    /* A number has at most 9 digits, the shortest placeholder 6 characters. */
    char* filled = malloc(2 * strlen(text) + 1);
    if (filled == NULL) return NULL;
    char* out = filled;
    while (*text != '\0') {
        size_t taken = 0;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && taken == 0; ++i) {
            if (strncmp(text, kinds[i].text, strlen(kinds[i].text)) != 0) continue;
            taken = strlen(kinds[i].text);
            out += sprintf(out, "%d", kinds[i].value);
        }
        if (taken == 0 && *text == '\\' && (text[1] == '\\' || text[1] == 'n')) {
            *out++ = text[1] == 'n' ? '\n' : '\\';
            taken = 2;
        }
        if (taken == 0) {
            *out++ = *text;
            taken = 1;
        }
        text += taken;
    }
    *out = '\0';
    return filled;
}
