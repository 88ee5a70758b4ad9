/* A stand-in for libnvidia-ml.so.1 with two GPUs. The process whose number stands in the file that
 * FAKE_NVML_PID names computes on the second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct process_info {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char* nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned int* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device);
int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* pci);
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                            struct process_info* processes);

static char gpus[2];

int nvmlInit_v2(void) {
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

const char* nvmlErrorString(int code) {
    (void)code;
    return "stand-in";
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
    *count = sizeof gpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
    *device = &gpus[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)((char*)device - gpus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                            struct process_info* processes) {
    *count = 0;
    if (getenv("FAKE_NVML_HANGS") != NULL)
        for (;;) pause();
    const char* name = getenv("FAKE_NVML_PID");
    FILE* file = name == NULL || device != &gpus[1] ? NULL : fopen(name, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%u", &processes[0].pid) == 1) *count = 1;
    fclose(file);
    return 0;
}
