/* Threads that mostly mind their own blocks: each makes, fills and reads them and frees most of them itself some time later; every
 * fourth it hands to its neighbour, who frees it. Nobody ever waits: what a neighbour has no room for is freed at home.
 * usage: threads PAIRS THREADS; prints the wall time of the part in which all run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OWN_FRAME __attribute__((noinline, noclone))
enum { ROOM = 1 << 16, HELD = 64, MOST = 16 };

/* One writer, one reader; the two counters on lines of their own. */
static struct queue {
    _Alignas(64) atomic_ulong written;
    _Alignas(64) atomic_ulong taken;
    _Alignas(64) unsigned char *blocks[ROOM];
} queues[MOST];

static long pairs_each, thread_count;
static pthread_barrier_t start;
static unsigned sums[MOST];

OWN_FRAME static unsigned char *make(size_t size, int seed) {
    unsigned char *block = malloc(size);
    memset(block, seed, size);
    block[0] = (unsigned char)size;
    return block;
}

/* A block begins with its size; every byte of it is read. */
OWN_FRAME static unsigned look_at(const unsigned char *block) {
    unsigned sum = 0;
    for (int i = 0, size = block[0]; i < size; i++) sum = sum * 31 + block[i];
    return sum;
}

OWN_FRAME static unsigned take(struct queue *queue) {
    unsigned long taken = atomic_load_explicit(&queue->taken, memory_order_relaxed);
    unsigned long written = atomic_load_explicit(&queue->written, memory_order_acquire);
    unsigned sum = 0;
    for (; taken != written; taken++) {
        sum += look_at(queue->blocks[taken % ROOM]);
        free(queue->blocks[taken % ROOM]);
    }
    atomic_store_explicit(&queue->taken, taken, memory_order_release);
    return sum;
}

static void give(struct queue *queue, unsigned char *block) {
    unsigned long written = atomic_load_explicit(&queue->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&queue->taken, memory_order_acquire) == ROOM) {
        free(block);
        return;
    }
    queue->blocks[written % ROOM] = block;
    atomic_store_explicit(&queue->written, written + 1, memory_order_release);
}

static void *run(void *argument) {
    long me = (long)argument;
    struct queue *mine = &queues[me], *next = &queues[(me + 1) % thread_count];
    unsigned char *held[HELD] = {0};
    unsigned sum = 0;
    uint64_t random = (uint64_t)me + 1;
    pthread_barrier_wait(&start);
    for (long i = 0; i < pairs_each; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned char **place = &held[i % HELD];
        if (*place) {
            sum += look_at(*place);
            if (i % 4) free(*place);
            else give(next, *place);
        }
        *place = make((random >> 33) % 184 + 16, (int)i);
        if (i % 256 == 0) sum += take(mine);
    }
    for (int i = 0; i < HELD; i++) free(held[i]);
    sums[me] = sum;
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3) return 98;
    thread_count = atol(arguments[2]);
    pairs_each = atol(arguments[1]) / thread_count;
    pthread_barrier_init(&start, NULL, (unsigned)thread_count + 1);
    pthread_t threads[MOST];
    for (long i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_barrier_wait(&start);
    for (long i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (long i = 0; i < thread_count; i++) take(&queues[i]);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    printf("pairs %ld wall %.6f\n", pairs_each * thread_count, seconds);
    return 0;
}
