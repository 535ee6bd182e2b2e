// heap THREADS: builds heaps in several arenas with holes of all kinds, says "ready", and waits.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static void *build(void *number) {
    unsigned long random = 88172645463325252ul + (unsigned long)number * 7919; enum { N = 30000 }; void **held = calloc(N, sizeof *held);
    for (int i = 0; i < N * 3; i++) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        void **at = &held[random % N]; size_t size = (random >> 50) % 500 == 0 ? 150000 + (random >> 20) % 300000 : (random >> 20) % 900;
        if (*at) { free(*at); *at = 0; } else { *at = malloc(size); memset(*at, 0x5a, size); }
    }
    pthread_barrier_wait(&barrier); for (;;) pause();
}
int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); long threads = count > 1 ? atol(words[1]) : 1; pthread_t t;
    pthread_barrier_init(&barrier, 0, threads + 1);
    for (long i = 0; i < threads; i++) pthread_create(&t, 0, build, (void *)i);
    for (int i = 0; i < 20000; i++) { void *p = malloc(i % 3000); if (i % 3) free(p); }
    // Some have a mapping of their own, and begin later than that.
    for (size_t alignment = 32; alignment <= 1 << 20; alignment *= 2) { void *p; if (posix_memalign(&p, alignment, alignment * 3) || posix_memalign(&p, alignment, 300000)) return 3; memset(p, 0x5a, 300000); }
    pthread_barrier_wait(&barrier); usleep(100000); write(1, "ready\n", 6); for (;;) pause();
}
