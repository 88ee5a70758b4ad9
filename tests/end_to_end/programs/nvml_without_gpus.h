/* What a libnvidia-ml.so.1 of a machine without GPUs answers, but for nvmlInit_v2(). */
#include <stddef.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char* nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned int* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device);
int nvmlDeviceGetPciInfo_v3(void* device, void* pci);

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
