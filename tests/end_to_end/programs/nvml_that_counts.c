/* A stand-in for libnvidia-ml.so.1 without GPUs that appends a byte to the file
 * TOPORUN_TEST_NVML_CALLS each time that it is initialised: how often the machine was looked at. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvml_without_gpus.h"

int nvmlInit_v2(void) {
    const char* path = getenv("TOPORUN_TEST_NVML_CALLS");
    const int fd = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return 999;
    const ssize_t written = write(fd, "i", 1);
    close(fd);
    return written == 1 ? 0 : 999;
}
