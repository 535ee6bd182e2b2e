/* Several threads call each function for the first time at the same moment: whoever looks up the real one then must not fail
 * the others. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, SIZE = 100000 };
static atomic_int arrived;

/* All leave within a few instructions of each other. */
static void together(int round) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < round * THREADS) {}
}

static void must(int holds, const char *what) {
    if (holds) return;
    dprintf(2, "%s failed\n", what);
    _exit(99);
}

static void *run(void *argument) {
    int round = 0;
    void *place = NULL, *blocks[16];
    together(++round);
    blocks[0] = malloc(SIZE);
    must(blocks[0] != NULL, "malloc");
    memset(blocks[0], 1, SIZE);
    together(++round);
    blocks[0] = realloc(blocks[0], 2 * SIZE);
    must(blocks[0] && ((char *)blocks[0])[SIZE - 1] == 1, "realloc");
    together(++round);
    blocks[1] = reallocarray(NULL, 1000, 100);
    must(blocks[1] != NULL, "reallocarray");
    together(++round);
    blocks[2] = calloc(1000, 100);
    must(blocks[2] != NULL, "calloc");
    together(++round);
    must(posix_memalign(&place, 64, SIZE) == 0 && place, "posix_memalign");
    blocks[3] = place;
    together(++round);
    blocks[4] = aligned_alloc(64, 64000);
    must(blocks[4] != NULL, "aligned_alloc");
    together(++round);
    blocks[5] = memalign(64, SIZE);
    must(blocks[5] != NULL, "memalign");
    together(++round);
    blocks[6] = valloc(SIZE);
    must(blocks[6] != NULL, "valloc");
    together(++round);
    blocks[7] = pvalloc(SIZE);
    must(blocks[7] != NULL, "pvalloc");
    together(++round);
    must(malloc_usable_size(blocks[7]) >= SIZE, "malloc_usable_size");
    together(++round);
    void *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(map != MAP_FAILED, "mmap");
    together(++round);
    map = mremap(map, 1 << 20, 1 << 21, MREMAP_MAYMOVE);
    must(map != MAP_FAILED, "mremap");
    together(++round);
    must(munmap(map, 1 << 21) == 0, "munmap");
    together(++round);
    must(pthread_setname_np(pthread_self(), "first") == 0, "pthread_setname_np");
    together(++round);
    for (int i = 0; i < 8; i++) free(blocks[i]);
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL)) return 98;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    /* Every block was really given back: what is in use now is little. */
    struct mallinfo2 info = mallinfo2();
    must(info.uordblks + info.hblkhd < SIZE, "free");
    puts("done");
    return 0;
}
