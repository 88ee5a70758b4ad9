/* toporun-shim [--plan=FILE] [--node=ID [--tell=WORD]...] [--] PROGRAM [ARG...]: started by a
 * launcher in place of a worker. Finds its rank, binds, sets what is left to set for this rank,
 * records one line and becomes the program, with the same pid. Whatever fails on the way, the
 * program is started all the same.
 *
 * Under the name toporun-python it stands for a Python interpreter (PYTHON_EXEC of torchrun), which
 * TOPORUN_PYTHON names. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "node.h"
#include "plan.h"
#include "rank.h"
#include "variables.h"

enum { kOwnFailure = 125, kNotExecutable = 126, kNotFound = 127 };
static const char kPythonName[] = "toporun-python";

/* What the record says was done. */
struct outcome {
    const char* bind;
    const char* memory;
    const char* log;
    bool narrowed; /* the mask was smaller than the node's before the shim looked at it */
    struct pu_set cpus;
    char set[4096];     /* names of the variables that were set, joined by commas */
    char missing[2048]; /* of those that toporun exported and that did not arrive */
    char differs[2048]; /* of those that arrived with another value */
};

static const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* --- binding -------------------------------------------------------------------------------------
 */

static bool planned_cpus(const struct shim_plan* plan, int local_rank, struct pu_set* cpus) {
    size_t position = 0;
    for (char* line; (line = next_line(plan, "cpus", &position)) != NULL;) {
        char* list = strchr(line, ' ');
        if (list == NULL) continue;
        *list = '\0';
        const bool here = to_count(line) == local_rank;
        *list = ' ';
        if (here) return parse_pu_set(list + 1, cpus);
    }
    return false;
}

/* Binds inside the mask that this process was given: what somebody narrowed is never widened. */
static const char* bind_rank(const struct shim_plan* plan, const struct rank* rank,
                             struct outcome* outcome) {
    struct pu_set allowed;
    struct pu_set planned;
    if (sched_getaffinity(0, sizeof outcome->cpus, (cpu_set_t*)(void*)&outcome->cpus) != 0)
        return "unknown-mask";
    outcome->narrowed = parse_pu_set(plan_value(plan, "allowed"), &allowed) &&
                        !pu_set_equal(&allowed, &outcome->cpus);
    const int local_size = to_count(plan_value(plan, "local_size"));
    if (local_size < 0) return "not-planned";
    if (!rank->confident) return "unknown-rank";
    if (rank->local_size >= 0 && rank->local_size != local_size) return "local-size";
    if (!planned_cpus(plan, rank->local_rank, &planned)) return "not-planned";
    const struct pu_set target = pu_set_and(&planned, &outcome->cpus);
    if (pu_set_empty(&target)) return "no-overlap";
    if (pu_set_equal(&target, &outcome->cpus)) return "kept";
    /* Somebody gave this rank a mask of another shape: a part of it may be a single core. */
    if (!pu_set_equal(&target, &planned)) return "narrowed";
    if (sched_setaffinity(0, sizeof target, (const cpu_set_t*)(const void*)&target) != 0)
        return "refused";
    sched_getaffinity(0, sizeof outcome->cpus, (cpu_set_t*)(void*)&outcome->cpus);
    return "bound";
}

/* The node that the plan names for this rank's memory, -1 = none. */
static int planned_node(const struct shim_plan* plan, int local_rank) {
    size_t position = 0;
    for (char* line; (line = next_line(plan, "memory", &position)) != NULL;) {
        char* node = strchr(line, ' ');
        if (node == NULL) continue;
        *node = '\0';
        const bool here = to_count(line) == local_rank;
        *node = ' ';
        if (here) return to_count(node + 1);
    }
    return -1;
}

/* Prefers the memory of the node whose CPUs the rank was bound to. A policy that somebody has set
 * stays; containers may refuse both calls. It is kept through exec and by what the rank starts. */
static const char* prefer_memory(const struct shim_plan* plan, const struct rank* rank,
                                 const char* bind) {
    enum { kMaxNodes = 1024 };
    unsigned long nodes[kMaxNodes / kWordBits] = {0};
    const int node = planned_node(plan, rank->local_rank);
    const bool bound = strcmp(bind, "bound") == 0 || strcmp(bind, "kept") == 0;
    if (!bound || node < 0 || node >= kMaxNodes - 1) return "not-planned";
    int policy = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &policy, NULL, 0UL, NULL, 0UL) != 0) return "refused";
    if (policy != MPOL_DEFAULT) return "user";
    nodes[(size_t)node / kWordBits] = 1UL << ((size_t)node % kWordBits);
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, (unsigned long)kMaxNodes) != 0)
        return "refused";
    return "preferred";
}

/* --- variables -----------------------------------------------------------------------------------
 */

/* Appends the name, which ends at a blank, to a list joined by commas. */
static void note_name(char* list, size_t size, const char* name) {
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%.*s", used > 0 ? "," : "", (int)strcspn(name, " ="),
             name);
}

static void note_set(struct outcome* outcome, const char* name) {
    note_name(outcome->set, sizeof outcome->set, name);
}

/* Sets what a `NAME VALUE` line says unless somebody has set it. */
static void set_line(struct variables_list* variables, const char* line, const struct rank* rank,
                     struct outcome* outcome) {
    const char* value = strchr(line, ' ');
    if (value == NULL || value == line || has_variable(variables, line)) return;
    char* filled = fill_in(value + 1, rank);
    if (filled != NULL && add_variable(variables, line, filled)) note_set(outcome, line);
    free(filled);
}

/* NCCL writes its log to stdout when it cannot open the file: so a file is really made and written.
 */
static bool can_write_in(const char* directory) {
    char name[4096];
    const int length = snprintf(name, sizeof name, "%s/.try-%ld", directory, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof name) return false;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return false;
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    const bool written = write(fd, "\n", 1) == 1;
    close(fd);
    unlink(name);
    return written;
}

/* NCCL's three log variables are one decision: all are set or none. `take-log` lines replace what
 * is set, once it is certain that the log can be written. */
static const char* set_log(struct variables_list* variables, const struct shim_plan* plan,
                           const struct rank* rank, struct outcome* outcome) {
    size_t position = 0;
    const bool take = next_line(plan, "take-log", &position) != NULL;
    const char* key = take ? "take-log" : "log";
    bool any = false;
    position = 0;
    for (char* line; (line = next_line(plan, key, &position)) != NULL; any = true)
        if (!take && has_variable(variables, line)) return "user";
    if (!any) return "not-planned";
    char* directory = fill_in(plan_value(plan, "log_directory"), rank);
    const bool writable = directory != NULL && *directory == '/' && can_write_in(directory);
    free(directory);
    if (!writable) return "unwritable";
    position = 0;
    for (char* line; (line = next_line(plan, key, &position)) != NULL;) {
        if (take) remove_variable(variables, line);
        set_line(variables, line, rank, outcome);
    }
    return "set";
}

/* What programs read of their place in the job is one decision: with one that is set to something
 * else, by the launcher or by somebody, the rest would contradict it. */
static void set_rank_lines(struct variables_list* variables, const struct shim_plan* plan,
                           const struct rank* rank, struct outcome* outcome) {
    if (!rank->confident || rank->world_size < 2 || rank->local_size < 1) return;
    size_t position = 0;
    for (char* line; (line = next_line(plan, "rank", &position)) != NULL;) {
        const char* now = find_variable(variables, line);
        const char* value = strchr(line, ' ');
        if (now == NULL || value == NULL) continue;
        char* filled = fill_in(value + 1, rank);
        const bool same = filled != NULL && strcmp(filled, now) == 0;
        free(filled);
        if (!same) return;
    }
    position = 0;
    for (char* line; (line = next_line(plan, "rank", &position)) != NULL;)
        set_line(variables, line, rank, outcome);
}

/* `NAME VALUE`: what toporun gave to the launcher alone goes, another value is somebody else's. */
static void unset_line(struct variables_list* variables, char* line) {
    char* value = strchr(line, ' ');
    if (value == NULL) return;
    *value = '\0';
    const char* now = getenv(line);
    if (now != NULL && strcmp(now, value + 1) == 0) remove_variable(variables, line);
    *value = ' ';
}

/* `NAME VALUE`: what toporun exported for every rank. Launchers drop variables on the way: what is
 * missing is set here, what is another value is somebody's own and stays. */
static void check_arrived(struct variables_list* variables, const char* line,
                          const struct rank* rank, struct outcome* outcome) {
    const char* space = strchr(line, ' ');
    if (space == NULL || space == line) return;
    char* expected = fill_in(space + 1, rank);
    if (expected == NULL) return;
    const char* arrived = find_variable(variables, line);
    if (arrived == NULL) {
        note_name(outcome->missing, sizeof outcome->missing, line);
        if (add_variable(variables, line, expected)) note_set(outcome, line);
    } else if (strcmp(arrived, expected) != 0) {
        note_name(outcome->differs, sizeof outcome->differs, line);
    }
    free(expected);
}

static void set_variables(struct variables_list* variables, const struct shim_plan* plan,
                          const struct rank* rank, struct outcome* outcome) {
    size_t position = 0;
    for (char* line; (line = next_line(plan, "unset", &position)) != NULL;)
        unset_line(variables, line);
    position = 0;
    for (char* line; (line = next_line(plan, "expect", &position)) != NULL;)
        check_arrived(variables, line, rank, outcome);
    position = 0;
    for (char* line; (line = next_line(plan, "set", &position)) != NULL;)
        set_line(variables, line, rank, outcome);
    set_rank_lines(variables, plan, rank, outcome);
    outcome->log = set_log(variables, plan, rank, outcome);
}

/* What was put there for the shim alone. A PYTHON_EXEC that the user had set comes back. */
static void remove_private(struct variables_list* variables) {
    const char* python_exec = getenv("PYTHON_EXEC");
    if (python_exec != NULL && strcmp(base_name(python_exec), kPythonName) == 0) {
        const char* users = getenv("TOPORUN_PYTHON_EXEC");
        remove_variable(variables, "PYTHON_EXEC");
        if (users != NULL) add_variable(variables, "PYTHON_EXEC", users);
    }
    remove_variable(variables, "TOPORUN_SHIM_PLAN");
    remove_variable(variables, "TOPORUN_PYTHON");
    remove_variable(variables, "TOPORUN_PYTHON_EXEC");
}

/* --- record --------------------------------------------------------------------------------------
 */

struct line {
    char text[32768];
    size_t used;
};

/* Appends `\tNAME=VALUE`; bytes that could end the field or the line become '?'. */
static void add_field(struct line* line, const char* name, const char* format, ...) {
    char value[20480];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(value, sizeof value, format, arguments) < 0) value[0] = '\0';
    va_end(arguments);
    for (char* c = value; *c != '\0'; ++c)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
    const size_t left = sizeof line->text - line->used;
    const int length = snprintf(line->text + line->used, left, "\t%s=%s", name, value);
    if (length > 0 && (size_t)length < left) line->used += (size_t)length;
}

static void add_count(struct line* line, const char* name, int value) {
    if (value >= 0) add_field(line, name, "%d", value);
}

static void fill_record(struct line* line, const struct rank* rank, const struct outcome* outcome) {
    char cpus[16384];
    struct utsname host;
    print_pu_set(&outcome->cpus, cpus, sizeof cpus);
    line->used = (size_t)snprintf(line->text, sizeof line->text, "rank-record");
    add_count(line, "rank", rank->rank);
    add_count(line, "local_rank", rank->local_rank);
    add_count(line, "local_size", rank->local_size);
    add_count(line, "world_size", rank->world_size);
    add_count(line, "restart", rank->restart);
    add_field(line, "launcher", "%s", rank->source);
    add_field(line, "confident", "%d", rank->confident);
    add_field(line, "host", "%s", uname(&host) == 0 ? host.nodename : "");
    add_field(line, "pid", "%ld", (long)getpid());
    add_field(line, "cpus", "%s", cpus);
    add_field(line, "narrowed", "%d", outcome->narrowed);
    add_field(line, "bind", "%s", outcome->bind);
    add_field(line, "memory", "%s", outcome->memory);
    add_field(line, "log", "%s", outcome->log);
    add_field(line, "set", "%s", outcome->set);
    if (outcome->missing[0] != '\0') add_field(line, "missing", "%s", outcome->missing);
    if (outcome->differs[0] != '\0') add_field(line, "differs", "%s", outcome->differs);
    const char* error_file = getenv("TORCHELASTIC_ERROR_FILE");
    if (error_file != NULL) add_field(line, "error_file", "%s", error_file);
    add_field(line, "end", "1");
    line->text[line->used++] = '\n';
}

/* One write, so that lines of ranks that start together do not mix. */
static void write_record(const char* path, const struct rank* rank, const struct outcome* outcome) {
    static struct line line;
    if (*path != '/') return;
    const int flags =
        O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const int fd = open(path, flags, 0600);
    if (fd < 0) return;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        fill_record(&line, rank, outcome);
        /* A record that does not fit on the disk is lost; the program must start. */
        const ssize_t ignored = write(fd, line.text, line.used);
        (void)ignored;
    }
    close(fd);
}

/* --- the program
 * ---------------------------------------------------------------------------------- */

static void complain(const char* program, const char* reason) {
    char message[8192];
    size_t used = (size_t)snprintf(message, sizeof message, "toporun-shim: error: cannot run '");
    for (; *program != '\0' && used < sizeof message - 256; ++program) {
        const unsigned char byte = (unsigned char)*program;
        const bool plain = byte >= 0x20 && byte < 0x7f;
        used += (size_t)snprintf(message + used, 8, plain ? "%c" : "\\x%02x", byte);
    }
    used += (size_t)snprintf(message + used, sizeof message - used, "': %s\n", reason);
    const ssize_t ignored = write(STDERR_FILENO, message, used);
    (void)ignored;
}

static void execute(const char* path, char** argv, const struct variables_list* variables) {
    if (variables->entries != NULL) execvpe(path, argv, variables->entries);
    /* What was added may be what makes the environment too long. */
    if (variables->entries == NULL || errno == E2BIG) execvpe(path, argv, environ);
}

/* `like_srun`: srun's own status for a program that cannot be run is the error number. */
static int run_program(char** argv, const struct variables_list* variables, bool like_srun) {
    execute(argv[0], argv, variables);
    const int reason = errno;
    complain(argv[0], reason == ENOENT ? "not found" : strerror(reason));
    if (like_srun) return reason;
    return reason == ENOENT ? kNotFound : kNotExecutable;
}

static bool is_python(const char* path) {
    const char* name = base_name(path);
    return strcmp(name, kPythonName) != 0 &&
           (strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0);
}

/* The word that the parent was started with, when that is a Python: the launcher itself. */
static const char* parent_interpreter(char* word, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)getppid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    const ssize_t got = read(fd, word, size - 1);
    close(fd);
    word[got > 0 ? got : 0] = '\0';
    return is_python(word) ? word : NULL;
}

/* The interpreter that the launcher would have used: recorded, else its own, else what PATH has. */
static int run_interpreter(char** argv, const struct variables_list* variables) {
    char parent[4096];
    const char* recorded = getenv("TOPORUN_PYTHON");
    const char* candidates[] = {recorded, parent_interpreter(parent, sizeof parent), "python3",
                                "python"};
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); ++i) {
        if (candidates[i] == NULL || *candidates[i] == '\0') continue;
        if (strcmp(base_name(candidates[i]), kPythonName) == 0) continue;
        argv[0] = strdup(candidates[i]);
        if (argv[0] != NULL) execute(argv[0], argv, variables);
    }
    return run_program(argv, variables, false);
}

static bool is_srun(const struct shim_plan* plan, const struct node_request* node) {
    for (size_t i = 0; i < node->told_count; ++i)
        if (strcmp(node->told[i], "launcher=srun") == 0) return true;
    return strcmp(plan_value(plan, "launcher"), "srun") == 0;
}

/* Whether srun has started this process. */
static bool prepare(struct variables_list* variables, const char* plan_path,
                    const struct node_request* node) {
    static struct outcome outcome;
    const struct shim_plan plan = choose_plan(plan_path, node);
    const struct rank rank = find_rank(&plan);
    outcome.bind = bind_rank(&plan, &rank, &outcome);
    outcome.memory = prefer_memory(&plan, &rank, outcome.bind);
    outcome.log = "not-planned";
    if (variables->entries != NULL) {
        set_variables(variables, &plan, &rank, &outcome);
        remove_private(variables);
    }
    write_record(plan_value(&plan, "records"), &rank, &outcome);
    return is_srun(&plan, node);
}

/* --- arguments
 * ------------------------------------------------------------------------------------- */

static bool is_local_rank(const char* word) {
    return strncmp(word, "--local-rank=", 13) == 0 || strncmp(word, "--local_rank=", 13) == 0;
}

/* The position of the word that the program's own arguments follow: the program, or of a Python
 * command line the script or the module. */
static size_t script_position(char** argv) {
    if (!is_python(argv[0])) return 0;
    for (size_t i = 1; argv[i] != NULL; ++i) {
        const char* word = argv[i];
        if (word[0] != '-' || word[1] == '\0') return i;
        const char last = word[strlen(word) - 1];
        const bool takes_word = word[1] != '-' && (last == 'm' || last == 'W' || last == 'X');
        if (takes_word && argv[i + 1] != NULL) ++i;
        if (takes_word && last == 'm') return i;
    }
    return 0;
}

/* Takes the shim's own options off and returns where the program starts. torch.distributed.launch
 * and deepspeed put `--local_rank=N` behind their program word, which is this one: it goes where
 * the script would have got it. */
static char** take_options(char** argv, const char** plan_path, struct node_request* node) {
    static const char kPlan[] = "--plan=";
    static const char kNode[] = "--node=";
    static const char kTell[] = "--tell=";
    char* local_rank = NULL;
    ++argv;
    for (; *argv != NULL; ++argv) {
        if (local_rank == NULL && is_local_rank(*argv)) {
            local_rank = *argv;
        } else if (strncmp(*argv, kPlan, sizeof kPlan - 1) == 0) {
            *plan_path = *argv + sizeof kPlan - 1;
        } else if (strncmp(*argv, kNode, sizeof kNode - 1) == 0) {
            node->id = *argv + sizeof kNode - 1;
        } else if (strncmp(*argv, kTell, sizeof kTell - 1) == 0) {
            if (node->told_count < kMostTold)
                node->told[node->told_count++] = *argv + sizeof kTell - 1;
        } else {
            if (strcmp(*argv, "--") == 0) ++argv;
            break;
        }
    }
    if (local_rank == NULL || *argv == NULL) return argv;
    /* There is room: the word's own place in front. */
    const size_t script = script_position(argv);
    memmove(argv - 1, argv, (script + 1) * sizeof *argv);
    argv[script] = local_rank;
    return argv - 1;
}

int main(int argc, char** argv) {
    const bool interpreter = argc > 0 && strcmp(base_name(argv[0]), kPythonName) == 0;
    const char* plan_path = getenv("TOPORUN_SHIM_PLAN");
    static struct node_request node;
    /* Asked on another host, where this file may be missing or of another processor. */
    if (argc == 2 && strcmp(argv[1], "--ok") == 0) return 0;
    if (!interpreter && argc > 0) argv = take_options(argv, &plan_path, &node);
    if (!interpreter && (argc < 2 || *argv == NULL)) {
        static const char kUsage[] = "toporun-shim: error: no program given\n";
        const ssize_t ignored = write(STDERR_FILENO, kUsage, sizeof kUsage - 1);
        (void)ignored;
        return kOwnFailure;
    }
    struct variables_list variables = copy_environment();
    const bool srun = prepare(&variables, plan_path, &node);
    return interpreter ? run_interpreter(argv, &variables) : run_program(argv, &variables, srun);
}
