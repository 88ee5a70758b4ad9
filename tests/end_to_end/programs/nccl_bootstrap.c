/* Asks a real libnccl.so.2 for a unique id, which runs its whole choice of an interface and needs
 * no GPU, and says where it listens. Lines: "version CODE", then "failed CODE TEXT" or "listens
 * ADDRESS PORT". Stays until standard input ends, for the listener lives in this process.
 *
 *     nccl_bootstrap LIBRARY
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ID_BYTES = 128, ADDRESS_OFFSET = 8 };

struct unique_id {
    char bytes[ID_BYTES];
};

/* The address follows 8 bytes of a magic number (src/include/bootstrap.h, NCCL 2.16 and later). */
static int print_address(const struct unique_id* id) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    memcpy(&address, id->bytes + ADDRESS_OFFSET, sizeof address);
    char text[INET6_ADDRSTRLEN] = "";
    if (address.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
        printf("listens %s %d\n", text, ntohs(address.v4.sin_port));
    } else if (address.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
        printf("listens %s %d\n", text, ntohs(address.v6.sin6_port));
    } else {
        fprintf(stderr, "nccl_bootstrap: no address in the id\n");
        return 1;
    }
    return 0;
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: nccl_bootstrap LIBRARY\n");
        return 2;
    }
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "nccl_bootstrap: %s\n", dlerror());
        return 2;
    }
    int (*get_version)(int*) = (int (*)(int*))dlsym(library, "ncclGetVersion");
    int (*get_id)(struct unique_id*) =
        (int (*)(struct unique_id*))dlsym(library, "ncclGetUniqueId");
    const char* (*last_error)(void*) = (const char* (*)(void*))dlsym(library, "ncclGetLastError");
    if (get_version == NULL || get_id == NULL) {
        fprintf(stderr, "nccl_bootstrap: this is no NCCL library\n");
        return 2;
    }
    int version = 0;
    get_version(&version);
    printf("version %d\n", version);
    struct unique_id id;
    memset(&id, 0, sizeof id);
    const int result = get_id(&id);
    int failed = 0;
    if (result != 0)
        printf("failed %d %s\n", result, last_error == NULL ? "" : last_error(NULL));
    else
        failed = print_address(&id);
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    _exit(failed); /* NCCL's listening thread is still there */
}
