// Memory shared with a child, a memfd that is mapped twice, shared anonymous memory with a site, memory like the agent's. Prints the child's number on p.
#include "tracker.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#define SIZE (16 << 20)
static int child;
static void own(char command) { if (command == 'p') print("%lu\n", child, 0, 0, 0); }
int main(void) {
    int object = memfd_create("twice", 0);
    ftruncate(object, SIZE);
    char *one = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    memset(one, 1, SIZE);
    volatile char *two = mmap(0, SIZE, PROT_READ, MAP_SHARED, object, 0);
    char sum = 0;
    for (int i = 0; i < SIZE; i += 4096) sum += two[i];
    volatile char *both = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset((char *)both, 1, SIZE);
    int agents = memfd_create("highwater-live-v1", 0);
    ftruncate(agents, 32l << 30);
    char *sparse = mmap(0, 32l << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, agents, 0);
    for (long i = 0; i < 64; i++) sparse[i << 28] = 1;
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < SIZE; i += 4096) sum += both[i];
        for (;;) pause();
    }
    usleep(100000);
    obey(own);
    return sum;
}
