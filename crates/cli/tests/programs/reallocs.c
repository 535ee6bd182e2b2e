/* reallocs THREADS ROUNDS: each thread resizes a ring of 500 blocks, ROUNDS times in all, by sizes at random, so that most of them move and
 * their old places are other threads' at once. Prints what is left: blocks and bytes, of the blocks and of the mappings. A mapping of each thread is resized, too. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { RING = 500, MOST_THREADS = 16, PAGE = 4096 };

static long rounds;
static pthread_barrier_t together;
static long held[MOST_THREADS], mapped[MOST_THREADS];

static void *turn(void *argument) {
    long self = (long)argument;
    uint64_t random = 88172645463325252u + (uint64_t)self;
    void *ring[RING] = {0};
    size_t sizes[RING] = {0}, length = PAGE;
    void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_wait(&together);
    for (long i = 0; i < rounds; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t at = random % RING, size = (random >> 32) % 3000 + 1;
        ring[at] = realloc(ring[at], size);
        sizes[at] = size;
        if (i % 1000 == 0) {
            size_t wanted = ((random >> 16) % 64 + 1) * PAGE;
            mapping = mremap(mapping, length, wanted, MREMAP_MAYMOVE);
            if (mapping == MAP_FAILED) abort();
            length = wanted;
        }
    }
    for (int i = 0; i < RING; i++) held[self] += (long)sizes[i];
    mapped[self] = (long)length;
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3) return 98;
    long threads = atol(arguments[1]);
    rounds = atol(arguments[2]);
    if (threads < 1 || threads > MOST_THREADS) return 98;
    pthread_t all[MOST_THREADS];
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, turn, (void *)i)) return 97;
    long bytes = 0, pages = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        bytes += held[i], pages += mapped[i];
    }
    printf("{\"blocks\": %ld, \"bytes\": %ld, \"mapped\": %ld}\n", threads * RING, bytes, pages);
    return 0;
}
