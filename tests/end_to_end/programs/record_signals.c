/* record_signals FILE [STATUS]: appends "ready" and then the name of each signal it receives to
 * FILE, one a line. SIGUSR2 ends it with STATUS (0 when not given). FILE may hold %r:
 * OMPI_COMM_WORLD_RANK. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int record = -1;
static int status = 0;

static void note(const char* name) {
    char line[16];
    const int length = snprintf(line, sizeof line, "%s\n", name);
    if (write(record, line, (size_t)length) != length) _exit(99);
}

/* snprintf of a plain %s and strsignal's table lookup are safe here: all signals are masked. */
static void received(int signal_number) {
    note(sigabbrev_np(signal_number));
    if (signal_number == SIGUSR2) _exit(status);
}

int main(int argc, char** argv) {
    static const int signals[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGWINCH, SIGCONT, SIGALRM};
    if (argc < 2) return 98;
    if (argc > 2) status = atoi(argv[2]);
    char path[4096];
    const char* place = strstr(argv[1], "%r");
    const char* rank = getenv("OMPI_COMM_WORLD_RANK");
    if (place != NULL && rank != NULL)
        snprintf(path, sizeof path, "%.*s%s%s", (int)(place - argv[1]), argv[1], rank, place + 2);
    else
        snprintf(path, sizeof path, "%s", argv[1]);
    record = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (record < 0) return 97;

    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = received;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; ++i)
        sigaction(signals[i], &action, NULL);
    note("ready");
    for (;;) pause();
}
