/* The plan of a node that the launcher reached by itself: made once, by toporun beside this shim,
 * in a directory that belongs to the job, this user and this host. */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kTries = 1000, kTryNanoseconds = 10 * 1000 * 1000, kPath = 512 };

/* Letters, digits, '-', '_' and '.' alone; other bytes become '_'. */
static void append_plain(char* path, size_t size, const char* text) {
    size_t used = strlen(path);
    for (; *text != '\0' && used + 1 < size; ++text) {
        const char c = *text;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.';
        path[used++] = plain ? c : '_';
    }
    path[used] = '\0';
}

/* Makes the directory; false when somebody else's stands in its place. */
static bool make_directory(const char* path) {
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & 077) == 0;
}

static void wait_a_little(void) {
    const struct timespec time = {0, kTryNanoseconds};
    nanosleep(&time, NULL);
}

/* Becomes `toporun --node-agent DIRECTORY RANKS WORD...` with nothing of this process but its
 * environment. */
static void become_agent(const struct node_request* request, const struct rank* rank,
                         const char* directory) {
    char program[4096];
    char ranks[16];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) _exit(1);
    program[length] = '\0';
    char* slash = strrchr(program, '/');
    static const char kName[] = "/toporun";
    if (slash == NULL || (size_t)(slash - program) + sizeof kName > sizeof program) _exit(1);
    memcpy(slash, kName, sizeof kName);
    snprintf(ranks, sizeof ranks, "%d", rank->local_size);
    const char* argv[kMostTold + 5] = {program, "--node-agent", directory, ranks};
    for (size_t i = 0; i < request->told_count; ++i) argv[4 + i] = request->told[i];
    setsid(); /* signals for the rank's process group are not for it */
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0)
        for (int fd = 3; fd < 1024; ++fd) close(fd);
    execv(program, (char**)argv);
    _exit(1);
}

/* The agent has the same time as whoever waits for it. */
static void run_agent(const struct node_request* request, const struct rank* rank,
                      const char* directory) {
    const pid_t agent = fork();
    if (agent == 0) become_agent(request, rank, directory);
    if (agent < 0) return;
    for (int i = 0; i < kTries; ++i) {
        const pid_t ended = waitpid(agent, NULL, WNOHANG);
        if (ended == agent || (ended < 0 && errno != EINTR)) return;
        wait_a_little();
    }
    kill(agent, SIGKILL); /* one that the kernel holds is not waited for */
    waitpid(agent, NULL, WNOHANG);
}

static bool lock(int fd) {
    for (int i = 0; i < kTries; ++i) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        wait_a_little();
    }
    return false;
}

static bool exists(const char* directory, const char* name, char* path, size_t size) {
    const int length = snprintf(path, size, "%s/%s", directory, name);
    return length > 0 && (size_t)length < size && access(path, F_OK) == 0;
}

/* The path of this node's plan, in `path`; false where there is none. The first shim of the job on
 * a node, the one that gets the lock, lets toporun make it; the others wait, ten seconds at most.
 */
static bool find_node_plan(const struct node_request* request, const struct rank* rank, char* path,
                           size_t size) {
    char directory[kPath];
    char name[kPath + 16];
    struct utsname host;
    if (request->id == NULL || uname(&host) != 0) return false;
    snprintf(directory, sizeof directory, "/tmp/toporun-node-%u-", (unsigned)geteuid());
    append_plain(directory, sizeof directory, request->id);
    append_plain(directory, sizeof directory, "-");
    append_plain(directory, sizeof directory, host.nodename);
    const char* node = getenv("SLURMD_NODENAME"); /* several may be one host */
    if (node != NULL && *node != '\0' && strcmp(node, host.nodename) != 0) {
        append_plain(directory, sizeof directory, "-");
        append_plain(directory, sizeof directory, node);
    }
    if (!make_directory(directory)) return false;
    snprintf(name, sizeof name, "%s/lock", directory);
    const int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool found = false;
    if (lock(fd)) {
        found = exists(directory, "shim.plan", path, size);
        if (!found && !exists(directory, "failed", name, sizeof name)) {
            run_agent(request, rank, directory);
            found = exists(directory, "shim.plan", path, size);
            snprintf(name, sizeof name, "%s/failed", directory);
            const int failed = found ? -1 : open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            if (failed >= 0) close(failed);
        }
    }
    close(fd);
    return found;
}

/* The plan is for the node of this rank. Several of Slurm's nodes may be one host. */
static bool is_plan_of_node(const struct shim_plan* plan) {
    struct utsname host;
    if (plan->text == NULL || uname(&host) != 0) return false;
    const char* node = getenv("SLURMD_NODENAME");
    return strcmp(plan_value(plan, "host"), host.nodename) == 0 &&
           (node == NULL || *node == '\0' || strcmp(plan_value(plan, "node"), node) == 0);
}

struct shim_plan choose_plan(const char* plan_path, const struct node_request* request) {
    static const struct shim_plan kNone = {NULL, 0};
    struct shim_plan plan = plan_path == NULL ? kNone : read_plan(plan_path);
    if (request->id == NULL) return plan;
    if (is_plan_of_node(&plan)) return plan;
    char path[1024];
    const struct rank rank = find_rank(&kNone);
    return find_node_plan(request, &rank, path, sizeof path) ? read_plan(path) : kNone;
}
