/* A stand-in for libnvidia-ml.so.1 on a machine whose driver never answers: the first call does not
 * return, and no signal that can be blocked ends it. */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char* nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned int* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device);
int nvmlDeviceGetPciInfo_v3(void* device, void* pci);

int nvmlInit_v2(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (;;) pause();
}

int nvmlShutdown(void) {
    return 0;
}

const char* nvmlErrorString(int code) {
    (void)code;
    return "stand-in";
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
    *count = 0;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
    (void)index, (void)device;
    return 999;
}

int nvmlDeviceGetPciInfo_v3(void* device, void* pci) {
    (void)device, (void)pci;
    return 999;
}
